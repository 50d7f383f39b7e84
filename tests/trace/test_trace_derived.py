"""What is derived of events for all of them at once is what one event after the other says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_story import Loop, Recorder

from pytest_traincheck.trace import Process
from pytest_traincheck.trace.columns import Columns
from pytest_traincheck.trace.format import EVENT, SYMBOL_KINDS
from pytest_traincheck.trace.reader import RawTrace
from pytest_traincheck.trace.stages import pieces
from pytest_traincheck.trace.variables import Variables

TYPES = ("optimizer", "autograd", "module", "function", "zero_grad")


@pytest.fixture
def process(tmp_path: Path) -> Process:
    loop = Loop(steps=3, microbatches=2, evaluate_after=(1,), clip=1.0)
    return Recorder(tmp_path).record(loop).processes[0]


def test_parents_and_windows(process: Process) -> None:
    events = process.events[:]
    row_of = {int(event["seq"]): row for row, event in enumerate(events)}
    assert process.parent_row.tolist() == [row_of.get(int(event["parent"]), -1) for event in events]
    ends = process.step_ends.tolist()
    assert len(ends) == 3
    assert process.window.tolist() == [sum(end < int(event["seq"]) for end in ends) for event in events]


def test_what_lies_in_calls_of_a_type(process: Process) -> None:
    def around(row: int) -> set[str]:
        found, row = set(), int(process.parent_row[row])
        while row >= 0:
            found.add(process.type_codes[row])
            row = int(process.parent_row[row])
        return found

    for name in TYPES:
        expected = [name in around(row) for row in range(len(process.events))]
        assert process.inside(name).tolist() == expected
    assert process.inside("autograd").any()


def test_rows_are_looked_up_by_their_number(process: Process) -> None:
    seq = process.events["seq"]
    wanted = np.array([int(seq[3]), 0, -1, int(seq[-1]), int(seq[-1]) + 1, 1 << 40])
    assert process.row_at(wanted).tolist() == [3, -1, -1, len(seq) - 1, -1, -1]
    assert empty_process().row_at(wanted).tolist() == [-1] * 6


def test_other_names_cost_nothing_that_was_derived_of_events_alone(process: Process) -> None:
    before = process.outer_types, process.stage, Variables.of(process).rows
    other = process.renamed({"Net": "Model"}, {}, "", None)
    assert other.names.roots != process.names.roots
    assert (other.outer_types is before[0], other.stage is before[1]) == (True, True)
    assert Variables.of(other).rows is before[2]


@given(st.lists(st.integers(0, 20), max_size=8), st.integers(20, 30))
def test_pieces_count_the_rows_up_to_each_event(begins: list[int], size: int) -> None:
    begins.sort()
    found = pieces(np.array(begins, dtype=np.int64), size)
    assert found.tolist() == [sum(begin <= row for begin in begins) for row in range(size)]


RECORDS = st.lists(st.tuples(st.integers(1, 2), st.integers(0, 2), st.integers(1, 30)), max_size=12)


@given(RECORDS, st.integers(0, 40))
def test_an_optimizer_holds_what_was_last_recorded_of_each_group(records: list[tuple[int, int, int]], seq: int) -> None:
    """Of an optimizer, a group's index and a time each; the number of a record stands for what the group holds."""
    records.sort(key=lambda record: record[2])
    groups = [
        {"i": number, "opt": optimizer, "index": index, "params": [number], "hyper": {"lr": number}, "seq": at}
        for number, (optimizer, index, at) in enumerate(records, start=1)
    ]
    variables = Variables.of(empty_process(group=groups))
    for optimizer in (1, 2):
        mine = [group for group in groups if group["opt"] == optimizer]
        first = min((group["seq"] for group in mine), default=0)
        latest = {group["index"]: group for group in mine if group["seq"] <= max(seq, first)}
        found = variables.membership(optimizer, seq)
        assert found.variables.tolist() == [latest[index]["i"] for index in sorted(latest)]
        assert found.groups.tolist() == sorted(latest)
        assert found.hyper == {index: group["hyper"] for index, group in latest.items()}


def empty_process(**symbols: list[dict[str, Any]]) -> Process:
    tables = {kind: [{}, *symbols.get(kind, [])] for kind in SYMBOL_KINDS}
    return Process(RawTrace(Path("nowhere"), {}, tables, Columns.of(np.zeros(0, dtype=EVENT))))
