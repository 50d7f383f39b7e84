"""The call into the upgraded library that is nearest to an incident."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_attribution import violation
from training_story import Loop, Recorder

from pytest_traincheck.check.library_call import library_call
from pytest_traincheck.check.result import Incident, Violation

SCRIPT = """\
import tinylib
import tinylib.optim as opt
from tinylib import Trainer as Boss
from tinylib.data import Loader


def main(seed):
    loader = Loader(seed)
    trainer = Boss(
        model=make(),
        loader=loader,
    )
    trainer.train(resume=str(seed))
    print(seed, tinylib.loss(seed))
    plain(seed)
    opt.Sgd().step()
    both = Boss(
        Loader(
            seed,
        ),
    )
"""


def incident(subject: str = "torch.autograd.backward", **changes: object) -> Incident:
    root: Violation = replace(violation(subject), **changes)  # type: ignore[arg-type]
    return Incident("abc", 1, root)


@pytest.mark.parametrize(
    ("line", "api"),
    [
        (8, "tinylib.data.Loader"),
        (9, "tinylib.Trainer"),
        (11, "tinylib.Trainer"),
        (13, "tinylib.Trainer.train"),
        (14, "tinylib.loss"),
        (16, "tinylib.optim.Sgd.step"),
        (15, ""),
        (18, "tinylib.data.Loader"),
        (21, "tinylib.Trainer"),
        (99, ""),
    ],
)
def test_the_statement_of_the_user_names_it(tmp_path: Path, line: int, api: str) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    found = library_call(incident(source=f"train.py:{line}"), None, {"tinylib"}, tmp_path)
    assert (found.api if found else "") == api


@pytest.mark.parametrize("source", ["../train.py:9", "gone.py:9", "broken.py:1", "", "train.py"])
def test_a_source_that_cannot_be_read_names_nothing(tmp_path: Path, source: str) -> None:
    inside = tmp_path / "project"
    inside.mkdir()
    (tmp_path / "train.py").write_text(SCRIPT)
    (inside / "train.py").write_text(SCRIPT)
    (inside / "broken.py").write_text("def (")
    assert library_call(incident(source=source), None, {"tinylib"}, inside) is None


def test_the_subject_itself_when_it_is_of_the_library(tmp_path: Path) -> None:
    found = library_call(incident("torch.optim.SGD.step", source="train.py:3"), None, {"torch"}, tmp_path)
    assert found is not None
    assert (found.api, found.how) == ("torch.optim.SGD.step", "is the subject")


def test_the_module_of_the_library_around_the_place(recorder: Recorder, tmp_path: Path) -> None:
    run = recorder.record(Loop())
    process = run.processes[0]
    inner = next(row for row in range(len(process.events)) if process.api[row].startswith("torch.nn.functional."))
    outer = process.api[int(process.parent_row[inner])]
    assert outer, "the story has a function within a module"
    found = library_call(
        incident("other.call", seq=int(process.events["seq"][inner])), run, {outer.partition(".")[0]}, tmp_path
    )
    assert found is not None
    assert found.how == "is around the place"
