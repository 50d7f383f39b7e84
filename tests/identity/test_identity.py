"""A program behaves the same with and without the probe: every program of the farm, in subprocesses."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from farm import Outcome, Program, differences, has_gpu, look_at, missing_module, read_programs, trace_faults

LARGER = {
    "descriptors_closed", "frames_of_callers", "freed_storage", "odd_dtypes", "signals", "swap_tensors",
    "table_of_functions",
}  # fmt: skip
"""Programs that do more of what a script of `tests/probe/test_undisturbed.py` does, and are for the sweep."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "program" in metafunc.fixturenames:
        whole = metafunc.config.getoption("identity") == "all"
        programs = [program for program in read_programs() if whole or program.sample]
        metafunc.parametrize("program", [_param(program, whole) for program in programs])


def _param(program: Program, whole: bool) -> Any:
    swept = not whole and program.name in LARGER
    return pytest.param(program, id=program.name, marks=[pytest.mark.sweep] if swept else [])


@pytest.mark.slow
def test_program_is_the_same_under_the_probe(program: Program) -> None:
    missing = missing_module(program)
    if missing is not None:
        pytest.skip(f"{missing} is not installed")
    if program.cuda and not has_gpu():
        pytest.skip("torch can use no GPU here")
    # Sockets of worker processes lie below it, and their names may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="farm-") as scratch:
        found = look_at(program, Path(scratch))
    assert not found, "\n\n".join(found)


def test_farm_is_large_and_its_sample_small() -> None:
    programs = read_programs()
    assert len(programs) >= 60
    assert 10 <= sum(program.sample for program in programs) <= 16
    assert not any(program.needs for program in programs if program.sample)


def test_farm_sees_differences() -> None:
    """The farm can fail: in each thing that it looks at."""
    plain = Outcome("loss 0x1.8p+1\n", "<object at 0x7f00aa00bb00>\n", 0, {"work/model.pt": "00"})
    assert differences(plain, Outcome("loss 0x1.8p+1\n", "<object at 0x7f00cc00dd00>\n", 0, plain.files)) == []
    assert "stdout" in differences(plain, Outcome("loss 0x1.9p+1\n", plain.stderr, 0, plain.files))[0]
    assert "stderr" in differences(plain, Outcome(plain.stdout, "train.py:3: UserWarning\n", 0, plain.files))[0]
    assert "exit status" in differences(plain, Outcome(plain.stdout, plain.stderr, -11, plain.files))[0]
    assert "work/model.pt" in differences(plain, Outcome(plain.stdout, plain.stderr, 0, {}))[0]


def test_farm_sees_unreliable_traces(tmp_path: Path) -> None:
    assert trace_faults(tmp_path) == ["no trace was left"]
    for number, kept in enumerate(({"finished": True}, {"finished": False})):
        (tmp_path / f"proc-{number}").mkdir()
        note = {"probe_errors": [], "lost_events": 0, "started": number, **kept}
        (tmp_path / f"proc-{number}" / "meta.json").write_text(json.dumps(note))
    assert trace_faults(tmp_path) == []
    note = {"probe_errors": [{"where": "a", "error": "b"}], "lost_events": 2, "started": -1, "finished": False}
    (tmp_path / "proc-1" / "meta.json").write_text(json.dumps(note))
    assert len(trace_faults(tmp_path)) == 3
    (tmp_path / "proc-2").mkdir()
    assert "no meta.json" in trace_faults(tmp_path)[0]
