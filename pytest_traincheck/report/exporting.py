"""What a training that is watched is told to while it goes on: systems that collect metrics, spans and curves."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from pytest_traincheck.discovery import classes_in
from pytest_traincheck.report.errors import ReportError

EXPORTERS = "pytest_traincheck.report.exporters"
"""Where they lie, one file each."""


class Export(Protocol):
    """One training, as it is told to one system. What its methods raise ends the export, and nothing else."""

    def steps(self, count: int) -> None:
        """So many training steps were looked at; called often, with the same number too."""
        ...

    def incident(self, incident: Mapping[str, Any], steps: int) -> None:
        """An incident, as `--json` has it, that was found when so many steps had been looked at."""
        ...

    def end(self, document: Mapping[str, Any]) -> None:
        """The training has ended; `document` is what `--json` writes. Called once, and last."""
        ...


class Exporter(Protocol):
    """A system that a training can be told to."""

    name: str
    """What a user types to ask for it."""
    extra: str
    """The extra that installs what it needs; empty where it needs nothing."""

    def begin(self, target: str, pipeline: str) -> Export:
        """Begin to tell. Raises `ImportError` without its library, `OSError` or `ValueError` for a wrong target."""
        ...


@dataclass(frozen=True)
class ExportTarget:
    """Where a training is told to: a system, and what that takes for a place (a file, a directory, an address)."""

    exporter: Exporter
    target: str


@cache
def exporters() -> Mapping[str, Exporter]:
    """Exporters by name."""
    found = [given() for given in classes_in(EXPORTERS) if hasattr(given, "begin") and hasattr(given, "extra")]
    return {exporter.name: exporter for exporter in sorted(found, key=lambda exporter: exporter.name)}


def export_target(text: str) -> ExportTarget:
    """What `NAME=TARGET` asks for. Raises `ReportError` where it is written otherwise, or there is no such system."""
    name, equals, target = text.partition("=")
    if not (name and equals and target):
        raise ReportError(f"{text!r} names no system and place. Write NAME=TARGET, such as prometheus=train.prom.")
    known = exporters()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ReportError(f"nothing is exported to {name!r}.{hint} There are: {', '.join(known)}.")
    return ExportTarget(known[name], target)


class Exports:
    """Tells a training to all that were asked for.

    Raises `ReportError` at the beginning, where one of them cannot be told anything. Later nothing is raised: a
    training of weeks does not end because a disk is full or a service is away. `complain` is told why, once, and the
    others go on.
    """

    def __init__(self, targets: Sequence[ExportTarget], pipeline: str, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self._going: list[tuple[ExportTarget, Export]] = []
        for target in targets:
            self._going.append((target, _begun(target, pipeline)))

    def steps(self, count: int) -> None:
        """See `Export.steps`."""
        self._each(lambda export: export.steps(count))

    def incident(self, incident: Mapping[str, Any], steps: int) -> None:
        """See `Export.incident`."""
        self._each(lambda export: export.incident(incident, steps))

    def end(self, document: Mapping[str, Any]) -> None:
        """See `Export.end`."""
        self._each(lambda export: export.end(document))
        self._going = []

    def _each(self, tell: Callable[[Export], None]) -> None:
        for entry in list(self._going):
            target, export = entry
            try:
                tell(export)
            except Exception as error:  # noqa: BLE001 - whatever a library of others raises
                self._going.remove(entry)
                self._complain(
                    f"nothing more is exported to {target.exporter.name}={target.target}: "
                    f"{type(error).__name__}: {error}. The training and its check go on."
                )


@contextmanager
def _as_it_was() -> Iterator[None]:
    """Libraries leave variables behind by which their own child processes find them. The training is one of ours, and
    must not find them: it may use the same library, and would write into a run that is not its own.
    """
    variables, hook = dict(os.environ), sys.excepthook
    try:
        yield
    finally:
        for name in set(os.environ) - set(variables):
            del os.environ[name]
        os.environ.update(variables)
        sys.excepthook = hook


def _begun(target: ExportTarget, pipeline: str) -> Export:
    exporter = target.exporter
    try:
        with _as_it_was():
            return exporter.begin(target.target, pipeline)
    except ImportError as error:
        raise ReportError(
            f"`{exporter.name}={target.target}` needs a library that is not installed ({error}). "
            f"Run `pip install 'pytest-traincheck[{exporter.extra}]'`."
        ) from error
    except (OSError, ValueError) as error:
        raise ReportError(
            f"nothing can be exported to {exporter.name}={target.target}: {error}. Give a place that can be written."
        ) from error
