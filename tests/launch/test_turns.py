"""Turns of runs: never more than there is room for, first come first served, and alone where that is asked for."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pytest_traincheck.launch.turns import Turn, Turns


class Runner:
    """A run that is under way until it is let go."""

    def __init__(self, turns: Turns, places: int = 1, *, alone: bool = False, tree: Path | None = None) -> None:
        self.begun, self._let_go = threading.Event(), threading.Event()
        self.turn: Turn | None = None
        trees = (tree,) if tree is not None else ()

        def go() -> None:
            with turns.turn(places, alone=alone, trees=trees) as self.turn:
                self.begun.set()
                self._let_go.wait(30)

        self._thread = threading.Thread(target=go)
        self._thread.start()
        self.waits = not self.begun.wait(0.3)

    def end(self) -> None:
        self._let_go.set()
        self._thread.join(30)


def test_no_more_at_a_time_than_there_are_places() -> None:
    turns = Turns(2)
    first, second, third = Runner(turns), Runner(turns), Runner(turns)
    assert (first.waits, second.waits, third.waits) == (False, False, True)
    first.end()
    assert third.begun.wait(30)
    for runner in (second, third):
        runner.end()


def test_a_run_of_more_ranks_than_places_is_made_all_the_same() -> None:
    turns = Turns(2)
    large = Runner(turns, 4)
    small = Runner(turns)
    assert not large.waits
    assert small.waits
    large.end()
    assert small.begun.wait(30)
    small.end()


def test_what_needs_the_machine_is_alone_and_is_not_passed_by_those_behind_it() -> None:
    turns = Turns(4)
    first, alone, behind = Runner(turns), Runner(turns, alone=True), Runner(turns)
    assert (first.waits, alone.waits, behind.waits) == (False, True, True)
    first.end()
    assert alone.begun.wait(30)
    assert not behind.begun.wait(0.3)
    alone.end()
    assert behind.begun.wait(30)
    behind.end()
    assert alone.turn is not None
    assert not alone.turn.was_shared


@pytest.mark.parametrize(("tree", "shared"), [("a", True), ("a/b", True), (".", True), ("c", False)])
def test_runs_beside_each_other_know_whether_they_share_a_tree(tmp_path: Path, tree: str, shared: bool) -> None:
    turns = Turns(2)
    first, second = Runner(turns, tree=tmp_path / "a"), Runner(turns, tree=tmp_path / tree)
    first.end()
    second.end()
    for runner in (first, second):
        assert runner.turn is not None
        assert runner.turn.was_shared
        assert runner.turn.shared_a_tree() is shared


def test_who_waits_can_be_called_off() -> None:
    turns = Turns(1)
    first = Runner(turns)

    def off() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError), turns.turn(1, alone=False, trees=(), look=off):
        pass
    first.end()
    # Nobody waits for it any more.
    with turns.turn(1, alone=False, trees=()) as turn:
        assert not turn.was_shared
