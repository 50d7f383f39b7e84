"""The pipelines whose items come next, begun while those of the first are reported.

Nothing is begun before an item asks for a pipeline, and nothing that no item will ask for. What is under way never
reaches beyond the items of pipelines that follow each other: a test of the user's finds no threads and no handlers of
ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from pytest_traincheck.config import PipelineSpec
from pytest_traincheck.launch.termination import exit_on_termination
from pytest_traincheck.workflow.overlap import Begun, Overlap

Work = Callable[[PipelineSpec], Any]


@dataclass
class Ahead:
    """What is under way of the pipelines of a session, with as many runs at a time as `overlap` says."""

    overlap: Overlap
    stretches: Sequence[Sequence[PipelineSpec]] = ()
    """Pipelines in the order of their items, of each stretch of items without one of the user's between them."""
    _numbers: dict[str, int] = field(default_factory=dict)
    _begun: Begun[tuple[Any, BaseException | None]] | None = None
    _held: ExitStack = field(default_factory=ExitStack)

    def get(self, spec: PipelineSpec, work: Work, done: Iterable[str], waiting: Callable[[], None]) -> Any:
        """What `work` makes of a pipeline; those that follow it and are not `done` are begun too.

        `waiting` is called now and then meanwhile. Raises what `work` raises.
        """
        if self.overlap.places == 1:
            return _cancellable(work, spec)
        if spec.name not in self._numbers:
            self._begin(spec, work, frozenset(done))
        assert self._begun is not None
        try:
            result, error = self._begun.result(self._numbers[spec.name], waiting)
        except BaseException:
            # The signals that might interrupt this a second time are ignored by now.
            self.end()
            raise
        if error is not None:
            raise error
        return result

    def _begin(self, spec: PipelineSpec, work: Work, done: frozenset[str]) -> None:
        self.end()
        stretch = next((found for found in self.stretches if spec in found), (spec,))
        following = [item for item in stretch[stretch.index(spec) + 1 :] if item.name not in done]
        self._held.enter_context(exit_on_termination(_leave))
        self._numbers = {item.name: number for number, item in enumerate((spec, *following))}
        self._begun = Begun([partial(_kept, work, item) for item in (spec, *following)], self.overlap.places)

    def end(self) -> None:
        """Give up what is under way and wait until nothing of it is left."""
        try:
            if self._begun is not None:
                self._begun.end()
        finally:
            self._begun = None
            self._numbers = {}
            self._held.close()


def _cancellable(work: Work, spec: PipelineSpec) -> Any:
    """What `work` makes of a pipeline in this thread. Nothing on the way may take the leaving for a mistake of its own,
    so that it is a `SystemExit` up to here.
    """
    try:
        with exit_on_termination():
            return work(spec)
    except SystemExit as leaving:
        raise _leave(int(leaving.code or 129) - 128) from leaving


def _kept(work: Work, spec: PipelineSpec) -> tuple[Any, BaseException | None]:
    """The result, or what was raised: that one pipeline goes wrong does not stop the others."""
    try:
        return work(spec), None
    except Exception as error:  # noqa: BLE001 - raised again by whoever asks for this pipeline
        return None, error


def _leave(number: int) -> BaseException:
    """How a session ends in good order when its job is cancelled: pytest itself dies of SIGTERM, and the runs stay.

    A `SystemExit` inside an item would count as its failure, and the session would go on.
    """
    return pytest.exit.Exception("traincheck: terminated while a pipeline was running", 128 + number)


def stretches(items: Sequence[pytest.Item], needed: Callable[[pytest.Item], PipelineSpec | None],
              is_own: Callable[[pytest.Item], bool]) -> list[list[PipelineSpec]]:  # fmt: skip
    """Pipelines in the order of `items`, split wherever an item stands between that is not our own.

    `needed` is the pipeline that an item runs. One whose items may all be skipped by a mark is not begun ahead.
    """
    found: list[list[PipelineSpec]] = [[]]
    known: dict[str, PipelineSpec] = {}
    for item in items:
        if not is_own(item):
            found.append([])
            continue
        spec = needed(item)
        if spec is not None and not _may_be_skipped(item) and known.get(spec.name) not in found[-1]:
            known[spec.name] = spec
            found[-1].append(spec)
    return [stretch for stretch in found if stretch]


def _may_be_skipped(item: pytest.Item) -> bool:
    marks: Mapping[str, object] = {mark.name: mark.kwargs.get("run", True) for mark in item.iter_markers()}
    return "skip" in marks or "skipif" in marks or marks.get("xfail") is False
