"""A stretch of later steps as a trace of its own, and a file that is read while it is written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from training_story import Loop, Recorder, Training

from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.growing import GrowingProcess
from pytest_traincheck.trace.reader import RawTrace, read_process, read_sketches
from pytest_traincheck.trace.stretch import Stretch, first_sights, joined, last_states


@pytest.fixture
def raw(recorder: Recorder) -> RawTrace:
    return recorder.record(Loop()).processes[0].raw


def test_what_a_variable_was_is_a_first_sight_and_no_change(raw: RawTrace) -> None:
    rows = raw.events[:]
    half = len(rows) // 2
    states = last_states(last_states(rows[:0], rows[:half]), rows[half:])
    assert (np.diff(states["seq"].astype(np.int64)) > 0).all()
    changes = rows[rows["kind"] == fmt.CHANGE]
    for subject in np.unique(changes["subject"]).tolist():
        (mine,) = states[states["subject"] == subject]
        # A value that is no number equals nothing, itself included.
        assert mine.tobytes() == changes[changes["subject"] == subject][-1].tobytes()
    begin = int(rows["seq"][half])
    sights = first_sights(states, begin)
    assert len(sights) == int((states["seq"] > begin).sum()) > 0
    assert (sights["old"] == fmt.UNSEEN).all()
    assert not sights["parent"].any()
    assert (states["old"] != fmt.UNSEEN).any(), "what was taken over stays as it is"


def test_parts_of_a_process_are_joined_in_order_of_time(raw: RawTrace) -> None:
    rows = raw.events[:]
    parts = [rows[20:], rows[:10], rows[10:20]]
    for given in (parts, [rows[:10], rows[10:]], [rows[:0]]):
        assert joined(given)["seq"].tolist() == sorted(np.concatenate(given)["seq"].tolist())


def test_sketches_of_steps_that_are_left_out_are_left_out(tmp_path: Path) -> None:
    training = Training(tmp_path)
    for step in range(6):
        with training.call("torch.nn.functional.linear"):
            training.sketch("input", [float(step)])
    raw = read_process(training.write())
    times = read_sketches(raw)["at"].tolist()
    stretch = Stretch(begin=times[3], head=1, head_end=times[1], left_out=2)
    assert read_sketches(replace(raw, stretch=stretch))["at"].tolist() == [times[0], times[1], times[4], times[5]]
    assert read_sketches(replace(raw, until=times[2]))["at"].tolist() == times[:3]


def test_the_last_row_of_a_process_that_goes_on_is_not_read_yet(recorder: Recorder) -> None:
    """It may be half written; with the next one, or the end, it is whole."""
    path = recorder.record(Loop()).processes[0].raw.path
    meta, whole = json.loads((path / "meta.json").read_text()), (path / "events.bin").read_bytes()
    size = fmt.EVENT.itemsize
    (path / "meta.json").write_text(json.dumps({**meta, "finished": False}))
    (path / "events.bin").write_bytes(whole[: 10 * size] + bytes(20 * size))
    process = GrowingProcess(path)
    assert len(process.next_rows(100)) == 9
    assert not len(process.next_rows(100))
    (path / "events.bin").write_bytes(whole[: 12 * size] + bytes(20 * size))
    assert len(process.next_rows(100)) == 2
    (path / "meta.json").write_text(json.dumps(meta))
    (path / "events.bin").write_bytes(whole)
    assert len(process.next_rows(100_000)) == meta["events"] - 11
    assert process.done


def test_a_line_that_is_being_written_is_not_read_yet(recorder: Recorder) -> None:
    """It is copied in no order: its end may be there, and its beginning still be zeros."""
    path = recorder.record(Loop()).processes[0].raw.path
    meta, rows = json.loads((path / "meta.json").read_text()), (path / "events.bin").read_bytes()
    lines = (path / "symbols.jsonl").read_bytes()
    (path / "meta.json").write_text(json.dumps({**meta, "finished": False}))
    (path / "events.bin").write_bytes(rows[: 2 * fmt.EVENT.itemsize] + bytes(fmt.EVENT.itemsize))
    line = b'{"k":"remark","i":1,"text":"of a kind that nobody reads"}\n'
    (path / "symbols.jsonl").write_bytes(lines + bytes(12) + line[12:] + bytes(100))
    process = GrowingProcess(path)
    assert len(process.next_rows(100)) == 1
    (path / "symbols.jsonl").write_bytes(lines + line + bytes(100))
    (path / "meta.json").write_text(json.dumps(meta))
    (path / "events.bin").write_bytes(rows)
    assert len(process.next_rows(100_000)) == meta["events"] - 1
