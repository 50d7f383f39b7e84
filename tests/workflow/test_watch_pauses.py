"""Watching takes its share of time, and looks on at once while golden's own steps are compared."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_traincheck.check.result import Incident
from pytest_traincheck.workflow import watching
from pytest_traincheck.workflow.policy import NO_RULES
from pytest_traincheck.workflow.watching import EVERY_S, NICER, Watch

TAKES = 0.2


class Slow(Watch):
    """Every piece takes its time."""

    behind = False
    takes = TAKES

    def _found(self, *, ended: bool) -> tuple[Sequence[Incident], bool]:
        time.sleep(0 if ended else self.takes)
        return (), self.behind


@pytest.fixture(autouse=True)
def _own_priority() -> Iterator[None]:
    """That of this process stays: looking is nicer, and what the process starts is not."""
    own = _niceness()
    yield
    assert _niceness() == own


@pytest.mark.parametrize(
    ("longer", "behind", "times"),
    [(False, True, 0), (False, False, 1), (True, False, 3), (True, True, 3)],
)
def test_a_pause_is_as_long_as_its_share_asks(
    longer: bool, behind: bool, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "AT_ONCE_S", TAKES / 2)
    watch = _watch(tmp_path, longer=longer)
    watch.behind = behind
    watch.look()
    left = watch._next - time.perf_counter()
    assert watch.spent >= TAKES
    assert times * watch.spent - TAKES <= left <= times * watch.spent


@pytest.mark.parametrize(("longer", "apart"), [(False, 0.0), (True, EVERY_S)])
def test_looks_that_take_no_time_are_some_time_apart(longer: bool, apart: float, tmp_path: Path) -> None:
    watch = _watch(tmp_path, longer=longer)
    watch.takes = 0.0
    begun = time.perf_counter()
    watch.look()
    took = time.perf_counter() - begun
    assert apart <= watch._next - begun <= apart + 2 * took


class Seen(Slow):
    """Notes where it looks, and how nice that is."""

    def _found(self, *, ended: bool) -> tuple[Sequence[Incident], bool]:
        found = super()._found(ended=ended)
        self.places = [*getattr(self, "places", []), (threading.current_thread(), _niceness(), ended)]
        return found


@pytest.mark.skipif(sys.platform != "linux", reason="a priority is that of the whole process")
def test_looking_gives_way_to_the_training_and_what_is_started_does_not(tmp_path: Path) -> None:
    own = _niceness()
    watch = _watch(tmp_path, longer=True, kind=Seen)
    watch.look()
    watch.look(ended=True)
    (aside, nicer, _), (here, usual, _) = watch.places
    assert (aside is threading.main_thread(), nicer) == (False, min(own + NICER, 19))
    assert (here is threading.main_thread(), usual) == (True, own)
    assert not aside.is_alive()


def test_a_look_that_was_interrupted_ends_before_the_last_one(tmp_path: Path) -> None:
    watch = _watch(tmp_path, longer=True, kind=Seen)
    watch._found_aside()
    assert watch._aside is not None
    watch._aside.submit(watch._found, ended=False)  # as one that nobody waits for any more
    watch.look(ended=True)
    assert [ended for _, _, ended in watch.places] == [False, False, True]


def _niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


def _watch(path: Path, *, longer: bool, kind: type[Slow] = Slow) -> Any:
    against: Any = SimpleNamespace(rules=NO_RULES)
    watch = kind(path, against, lambda _incident, _steps: None)
    follower: Any = SimpleNamespace(longer=longer, steps=0)
    watch._follower = follower
    return watch
