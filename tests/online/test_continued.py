"""A training that another process goes on with is one training."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from judgements import sentences
from late_story import FROZEN, GOLDEN_STEPS, PARAMETERS, follow
from trace_builder import Model, Optimizer
from training_story import Recorder, Training

from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn
from pytest_traincheck.trace import load_run


@pytest.fixture(scope="module")
def nobody() -> int:
    """The number of a process that has ended."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


@dataclass(frozen=True)
class Part:
    """One process of a training: it takes the steps from `begin` to `end`."""

    begin: int
    end: int
    killed: bool = False
    forgets: Sequence[str] = ()
    """Parameters that are not restored."""
    restores: bool = True
    keeps_state: bool = True
    """Whether the optimizer's state is restored."""
    wrong: int = -1
    """A step before which gradients are not cleared."""


Values = dict[int, dict[str, tuple[int, int]]]
"""What the parameters were before each step."""


def tell(recorder: Recorder, parts: Sequence[Part], nobody: int, *, ranks: int = 1, seed: int = 7) -> Path:
    """The trace of processes that go on with each other."""
    path = recorder.path()
    for rank in range(ranks):
        values: Values = {}
        for number, part in enumerate(parts):
            t = Training(path, rank=rank, world_size=ranks, seed=seed, started=1.0 + number)
            t._moment = 10_000 * number
            process(t, part, values)
            t.write(pid=nobody, finished=not part.killed, world_size=ranks)
    return path


def process(t: Training, part: Part, values: Values) -> None:
    model = t.model("Net", PARAMETERS, frozen=FROZEN)
    held = [parameter for name, parameter in model.parameters.items() if name not in FROZEN]
    optimizer = t.adamw(held)
    restored = part.begin and part.restores
    if restored:
        with t.call("torch.load", type="io"):
            pass
        load(t, model, values[part.begin], part.forgets)
    t.mode(model, True)
    for step in range(part.begin, part.end):
        values[step] = {name: (t.state(p.variable), t.digest(p.variable)) for name, p in model.parameters.items()}
        take(
            t,
            model,
            optimizer,
            clears=step != part.wrong,
            begins=step == part.begin,
            kept=restored and part.keeps_state,
        )
    values[part.end] = {name: (t.state(p.variable), t.digest(p.variable)) for name, p in model.parameters.items()}


def load(t: Training, model: Model, values: dict[str, tuple[int, int]], forgets: Sequence[str]) -> None:
    with t.call("torch.nn.Module.load_state_dict", type="mode", module=model.number):
        for name, parameter in model.parameters.items():
            t.measure("load.given", float(name not in forgets), variable=parameter.variable)
            if name not in forgets:
                t.change(parameter.variable, *values[name])


def take(t: Training, model: Model, optimizer: Optimizer, *, clears: bool, begins: bool, kept: object) -> None:
    """One step."""
    size = len(optimizer.parameters)
    if clears:
        t.zero_grad(optimizer)
    t.batch()
    t.forward(model)
    t.loss()
    t.backward(model)
    t.clip(optimizer, 1.0)

    def state() -> None:
        t.measure(
            "optimizer.state" if begins else "optimizer.held",
            0.0 if begins and not kept else size,
            optimizer=optimizer.number,
        )
        t.measure("optimizer.left", size, optimizer=optimizer.number)

    t.step(optimizer, within=state)
    with t.call("torch.optim.lr_scheduler.StepLR.step", type="scheduler", optimizer=optimizer.number):
        pass


@pytest.fixture
def golden(recorder: Recorder) -> Golden:
    def story(t: Training) -> None:
        process(t, Part(0, GOLDEN_STEPS), {})

    known = recorder.learn(story)
    assert sentences(known, "Carried")
    assert sentences(known, "Between")
    assert sentences(known, "Distinct")
    return known


@pytest.mark.parametrize(
    "parts",
    [
        [Part(0, 20), Part(20, 40)],
        [Part(0, 20), Part(20, 40), Part(40, 100)],
        [Part(0, 3), Part(3, 40)],
        [Part(0, 25, killed=True), Part(20, 40)],
        [Part(0, 150, killed=True), Part(20, 220)],
        [Part(0, 20, killed=True), Part(4, 40)],
        [Part(0, 5, killed=True), Part(3, 40)],
        [Part(0, 25, killed=True), Part(20, 24, killed=True), Part(20, 90)],
    ],
    ids=[
        "twice", "three times", "within golden's steps", "killed", "killed long after it was saved",
        "back to golden's steps", "killed within golden's steps", "killed before it was saved again",
    ],
)  # fmt: skip
@pytest.mark.parametrize("piece", [67, 10_000])
def test_a_training_that_goes_on_in_another_process_is_one(
    recorder: Recorder, golden: Golden, nobody: int, parts: Sequence[Part], piece: int
) -> None:
    told, found = follow(tell(recorder, parts, nobody), golden, piece=piece)
    assert not told
    assert found.steps == parts[-1].end


@pytest.mark.parametrize(("first", "at"), [(Part(0, 20), 20), (Part(0, 90, killed=True), 71), (Part(0, 9), 9)])
def test_what_the_second_process_did_not_restore_is_told_at_its_first_step(
    recorder: Recorder, golden: Golden, nobody: int, first: Part, at: int
) -> None:
    without_state = [first, Part(at, at + 20, keeps_state=False)]
    ((title, (incident, _)),) = follow(tell(recorder, without_state, nobody), golden)[0].items()
    assert (incident.cause.invariant.relation, incident.cause.step) == ("Carried", at), title
    in_part = [first, Part(at, at + 20, forgets=("fc2.weight",))]
    ((title, (incident, _)),) = follow(tell(recorder, in_part, nobody), golden)[0].items()
    assert "without what `Net.fc2.weight` had: a resume restored only the others" in title
    assert incident.cause.step == at


def test_what_goes_wrong_in_the_second_process_is_told_at_the_step_of_the_whole_training(
    recorder: Recorder, golden: Golden, nobody: int
) -> None:
    told, found = follow(tell(recorder, [Part(0, 30), Part(30, 60, wrong=50)], nobody), golden, piece=67)
    ((title, (incident, _)),) = told.items()
    assert "zero_grad" in title
    assert incident.cause.step == 50
    assert found.steps == 60


def test_what_went_wrong_in_steps_that_are_taken_once_more_stays_told(
    recorder: Recorder, golden: Golden, nobody: int
) -> None:
    told, found = follow(tell(recorder, [Part(0, 30, killed=True, wrong=27), Part(20, 60)], nobody), golden, piece=67)
    assert [incident.cause.step for incident in found.incidents] == [27]
    assert len(told) == 1


def test_several_ranks_go_on_together(recorder: Recorder, nobody: int) -> None:
    known = recorder.learn(lambda t: process(t, Part(0, GOLDEN_STEPS), {}), ranks=2)
    told, found = follow(tell(recorder, [Part(0, 25, killed=True), Part(20, 90)], nobody, ranks=2), known, piece=67)
    assert not told
    assert found.steps == 90


def test_a_process_that_begins_anew_is_a_training_of_its_own(recorder: Recorder, golden: Golden, nobody: int) -> None:
    told, found = follow(tell(recorder, [Part(0, 20), Part(20, 50, restores=False)], nobody), golden)
    assert not told
    assert found.steps == 30


def test_where_golden_consists_of_such_processes_each_is_compared_with_its_own(recorder: Recorder, nobody: int) -> None:
    parts = [Part(0, GOLDEN_STEPS), Part(GOLDEN_STEPS, 2 * GOLDEN_STEPS)]
    runs = [load_run(tell(recorder, parts, nobody, seed=seed)) for seed in (0, 1)]
    known = learn(runs, pipeline="story", seeds=(0, 1))
    told, found = follow(tell(recorder, parts, nobody), known)
    assert not told
    assert found.steps == GOLDEN_STEPS


def test_a_model_that_is_loaded_for_another_training_is_no_resume_where_golden_loads_models(
    recorder: Recorder, nobody: int
) -> None:
    parts = [Part(0, GOLDEN_STEPS), Part(GOLDEN_STEPS, 2 * GOLDEN_STEPS, keeps_state=False)]
    known = learn([load_run(tell(recorder, parts, nobody, seed=seed)) for seed in (0, 1)], pipeline="story")
    told, found = follow(tell(recorder, parts, nobody), known)
    assert not told
    assert found.steps == GOLDEN_STEPS


MAIN = """\
import argparse, subprocess, sys

parser = argparse.ArgumentParser()
parser.add_argument("--seed", default="0")
parser.add_argument("--steps", type=int, default=6)
args = parser.parse_args()
for begin in range(0, args.steps, 20):
    end = str(min(begin + 20, args.steps))
    subprocess.run([sys.executable, "part.py", args.seed, str(begin), end], check=True)
"""

PART = """\
import os, sys, tempfile

import torch

seed, begin, end = map(int, sys.argv[1:])
file = os.path.join(tempfile.gettempdir(), f"checkpoint-{os.getppid()}.pt")
torch.manual_seed(seed)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.9)
if begin:
    saved = torch.load(file)
    model.load_state_dict(saved["model"])
    if os.environ.get("MISTAKE") != "optimizer":
        optimizer.load_state_dict(saved["optimizer"])
    scheduler.load_state_dict(saved["scheduler"])
    torch.set_rng_state(saved["rng"])
for step in range(begin, end):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 6)), torch.randint(3, (16,)))
    loss.backward()
    optimizer.step()
    scheduler.step()
parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
torch.save({**{name: part.state_dict() for name, part in parts.items()}, "rng": torch.get_rng_state()}, file)
"""

CONFIGURATION = f"""\
python = "{sys.executable}"
[pipelines.tiny]
run = "python main.py --steps 6"
seed_arg = "--seed {{seed}}"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a golden of six steps, whose longer trainings are made by a process for each twenty."""
    root = tmp_path_factory.mktemp("project")
    for name, text in (("main.py", MAIN), ("part.py", PART), ("traincheck.toml", CONFIGURATION)):
        (root / name).write_text(text)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    done = traincheck(root, "refresh", "tiny", "--reason", "first")
    assert done.returncode == 0, done.stderr
    return root


def traincheck(root: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        [sys.executable, "-m", "pytest_traincheck", *words], cwd=root, capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", **env}, timeout=180,
    )  # fmt: skip


def run(project: Path, file: Path, **env: str) -> dict[str, Any]:
    command = ["--", "python", "main.py", "--steps", "40", "--seed", "3"]
    done = traincheck(project, "run", "tiny", "--json", str(file), *command, **env)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "the training made 40 steps, golden's runs 6" in done.stdout
    found: dict[str, Any] = json.loads(file.read_text().splitlines()[-1])
    return found


@pytest.mark.slow
def test_a_real_training_that_another_process_goes_on_with(project: Path, tmp_path: Path) -> None:
    assert not run(project, tmp_path / "right.json")["incidents"]
    (incident,) = run(project, tmp_path / "wrong.json", MISTAKE="optimizer")["incidents"]
    assert (incident["relation"], incident["step"]) == ("Carried", 20), incident["title"]
