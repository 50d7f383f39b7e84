"""Reading what a process left, also when it was cut off at any byte."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_builder import ROW, SKETCH_ROW
from training_story import Loop, Training

from pytest_traincheck.trace import Process, TraceError
from pytest_traincheck.trace.format import CALL, CHANGE, EVENT
from pytest_traincheck.trace.reader import RawTrace, read_process, read_sketches


def written(directory: Path, loop: Loop | None = None) -> Path:
    training = Training(directory)
    (loop or Loop(steps=2, evaluate_after=())).tell(training)
    return training.write()


def copy_of(
    path: Path, target: Path, *, events: bytes | None = None, symbols: bytes | None = None, finished: bool = True
) -> Path:
    target.mkdir()
    meta = {**json.loads((path / "meta.json").read_text()), "finished": finished}
    (target / "meta.json").write_text(json.dumps(meta))
    (target / "symbols.jsonl").write_bytes((path / "symbols.jsonl").read_bytes() if symbols is None else symbols)
    (target / "events.bin").write_bytes((path / "events.bin").read_bytes() if events is None else events)
    return target


def assert_consistent(raw: RawTrace) -> None:
    """Every id of every row leads to a symbol, and the derived columns can be made."""
    events = raw.events
    for column in ("ctx", "args", "ret", "src", "mod", "opt"):
        assert (events[column] < len(raw.symbols[column])).all()
    assert (events["subject"][events["kind"] == CALL] < len(raw.symbols["api"])).all()
    assert (events["subject"][events["kind"] == CHANGE] < len(raw.symbols["var"])).all()
    assert (np.diff(events["seq"].astype(np.int64)) > 0).all()
    process = Process(raw)
    assert len(process.stage) == len(process.window) == len(process.outer_types) == len(events)


def test_the_documented_row_is_the_row_that_is_read() -> None:
    assert EVENT.itemsize == ROW.size == 64
    row = np.frombuffer(ROW.pack(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 1.5), dtype=EVENT)[0]
    assert [row[name].item() for name in EVENT.names or ()] == [*range(1, 18), 1.5]


def test_a_whole_trace_is_read_in_the_order_of_beginning(tmp_path: Path) -> None:
    raw = read_process(written(tmp_path))
    assert len(raw.events) == raw.meta["events"]
    assert_consistent(raw)


@settings(max_examples=40, deadline=None)
@given(cut=st.floats(0.0, 1.0))
def test_events_cut_at_any_byte_are_read_to_the_last_whole_row(cut: float) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = written(Path(directory) / "run")
        data = (path / "events.bin").read_bytes()
        rows = json.loads((path / "meta.json").read_text())["events"]
        size = int(cut * len(data))
        raw = read_process(copy_of(path, Path(directory) / "cut", events=data[:size], finished=False))
        assert len(raw.events) == min(size // ROW.size, rows)
        assert_consistent(raw)


@pytest.mark.parametrize("grown", [1, 79, 4096])
def test_files_that_were_grown_ahead_end_where_their_zeros_begin(tmp_path: Path, grown: int) -> None:
    """A process that is killed leaves the room behind what it wrote."""
    path = written(tmp_path / "run", Loop(steps=2))
    count = len(read_process(path).symbols["slot"])
    with (path / "symbols.jsonl").open("a") as symbols, (path / "sketches.bin").open("ab") as sketches:
        symbols.write(json.dumps({"k": "slot", "i": count, "name": "rng.torch", "dtype": "", "shape": []}) + "\n")
        sketches.write(SKETCH_ROW.pack(1, 0, count, 0, 0, 0, 7, *[0.0] * 6))
    before = read_process(path)
    sketched = read_sketches(before)
    assert len(sketched)
    for name in ("events.bin", "sketches.bin", "symbols.jsonl"):
        with (path / name).open("ab") as file:
            file.write(bytes(grown))
    after = read_process(path)
    assert after.events[:].tobytes() == before.events[:].tobytes()
    assert after.symbols == before.symbols
    assert read_sketches(after).tobytes() == sketched.tobytes()


@settings(max_examples=40, deadline=None)
@given(cut=st.floats(0.0, 1.0))
def test_symbols_cut_at_any_byte_cost_only_the_rows_that_need_them(cut: float) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = written(Path(directory) / "run")
        text = (path / "symbols.jsonl").read_bytes()
        left = text[: int(cut * len(text))]
        raw = read_process(copy_of(path, Path(directory) / "cut", symbols=left, finished=False))
        assert_consistent(raw)


def test_zeros_after_the_last_row_are_no_events(tmp_path: Path) -> None:
    path = written(tmp_path)
    data = (path / "events.bin").read_bytes()
    padded = copy_of(path, tmp_path / "padded", events=data + bytes(4096))
    assert len(read_process(padded).events) == len(read_process(path).events)


def test_a_process_without_events_is_empty(tmp_path: Path) -> None:
    path = Training(tmp_path).write()
    (path / "events.bin").unlink()
    (path / "symbols.jsonl").unlink()
    raw = read_process(path)
    assert len(raw.events) == 0
    assert_consistent(raw)


def test_unknown_kinds_of_symbols_are_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path)
    text = (path / "symbols.jsonl").read_bytes()
    later = copy_of(path, tmp_path / "later", symbols=b'{"k": "novelty", "i": 1}\n' + text)
    assert len(read_process(later).events) == len(read_process(path).events)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    training = Training(tmp_path)
    path = training.write(format=2)
    with pytest.raises(TraceError, match=r"has format 2, this version reads up to 1: .*proc-100.*; use the version"):
        read_process(path)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"format": "one"}'])
def test_a_broken_description_is_one_clear_error(tmp_path: Path, content: str) -> None:
    path = written(tmp_path)
    (path / "meta.json").write_text(content)
    with pytest.raises(TraceError, match=r"trace description .*meta\.json.*; collect the run again"):
        read_process(path)


def test_the_columns_of_a_trace_do_not_depend_on_the_order_of_rows_in_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "run")
    data = (path / "events.bin").read_bytes()
    rows = [data[start : start + ROW.size] for start in range(0, len(data) - 3 * ROW.size, ROW.size)]
    shuffled = copy_of(path, tmp_path / "shuffled", events=b"".join(reversed(rows)))
    assert read_process(shuffled).events[:].tobytes() == read_process(path).events[:].tobytes()
