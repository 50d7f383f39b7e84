"""Directories of traces are programs, and their names are what tells them from each other."""

from __future__ import annotations

from pathlib import Path

import pytest
from training_story import Loop, Recorder

from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.workflow.programs import load_programs


@pytest.fixture
def traces(recorder: Recorder, tmp_path: Path) -> Path:
    place = tmp_path / "corpus"
    for name in ("a/clean/trace", "b/clean/trace", "c/clean/trace/one", "c/clean/trace/two"):
        run = recorder.record(Loop(steps=2))
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        run.path.rename(place / name)
    return place


def test_a_program_is_a_run_or_a_directory_of_runs(traces: Path) -> None:
    found = load_programs([traces / name / "clean" / "trace" for name in "abc"])
    assert {name: len(runs) for name, runs in found.items()} == {"a": 1, "b": 1, "c": 2}


def test_one_program_has_the_name_of_its_directory(traces: Path) -> None:
    assert list(load_programs([traces / "a" / "clean" / "trace"])) == ["trace"]


def test_directories_that_are_none(traces: Path) -> None:
    with pytest.raises(TraceError, match="holds no trace"):
        load_programs([traces])
    with pytest.raises(TraceError, match="is given twice"):
        load_programs([traces / "a" / "clean" / "trace"] * 2)
