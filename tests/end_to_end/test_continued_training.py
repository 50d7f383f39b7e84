"""A training that is gone on with in another process: right resumes are silent, and what was not restored is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

TRAIN = """\
import argparse, copy, os

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--save", default="")
parser.add_argument("--resume", "--init-from", default="")
args = parser.parse_args()
lost = os.environ.get("LOST", "")
torch.manual_seed(args.seed)
inputs, targets = torch.randn(320, 6), torch.randint(3, (320,))
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 3))
average = copy.deepcopy(model).requires_grad_(False)
shadow = {name: value.detach().clone() for name, value in model.named_parameters()}  # an average that no module holds
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min((s + 1) / 10, 1.0) * 0.995**s)
data = torch.utils.data.TensorDataset(inputs, targets)
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
step = 0
if args.resume:
    saved = torch.load(args.resume)
    step, state = saved["step"], saved["model"]
    if lost == "head":
        state = {name: value for name, value in state.items() if not name.startswith("3.")}
    if lost == "statistics":
        state = {name: value for name, value in state.items() if "running" not in name}
    if lost != "model":
        model.load_state_dict(state, strict=False)
    for name, part in {"optimizer": optimizer, "scheduler": scheduler, "average": average}.items():
        if lost != name:
            part.load_state_dict(saved[name])
    if lost != "shadow":
        for name, value in saved["shadow"].items():
            shadow[name].copy_(value)
    if lost != "random":
        torch.set_rng_state(saved["random"])
    if lost == "rate":
        optimizer.param_groups[0]["lr"] = 0.05
while step < args.steps:
    for batch, wanted in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch), wanted).backward()
        optimizer.step()
        scheduler.step()
        with torch.no_grad():
            for mine, other in zip(average.parameters(), model.parameters()):
                mine.mul_(0.9).add_(other, alpha=0.1)
            for name, value in model.named_parameters():
                shadow[name].lerp_(value, 0.05)
        step += 1
        if args.save and step % 20 == 0:
            parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "average": average}
            states = {name: part.state_dict() for name, part in parts.items()}
            torch.save({**states, "shadow": shadow, "random": torch.get_rng_state(), "step": step}, args.save)
        if os.environ.get("KILLED_AT") == str(step):
            os.kill(os.getpid(), 9)
        if step >= args.steps:
            break
"""

CONFIGURATION = f"""\
python = "{sys.executable}"
[pipelines.tiny]
run = "python train.py --steps 6"
seed_arg = "--seed {{seed}}"
seeds = [0]
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A golden of six steps, and a training that was killed after 47 and has saved after 40."""
    root = tmp_path_factory.mktemp("project")
    (root / "train.py").write_text(TRAIN)
    (root / "traincheck.toml").write_text(CONFIGURATION)
    commit(root)
    done = traincheck(root, "refresh", "tiny", "--reason", "first")
    assert done.returncode == 0, done.stderr
    words = ("--keep-trace", "first", "--", "python", "train.py", "--steps", "100", "--seed", "3", "--save", "c.pt")
    assert traincheck(root, "run", "tiny", *words, KILLED_AT="47").returncode == 3
    assert (root / "first" / "end-state.npz").stat().st_size < 60_000
    return root


def commit(root: Path) -> None:
    """What is in a directory, as the first commit."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=root, check=True)


def traincheck(root: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        [sys.executable, "-m", "pytest_traincheck", *words],
        cwd=root, capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "TRAINCHECK_CACHE_DIR": str(root / "cache"), **env},
    )  # fmt: skip


GOES_ON = "another process goes on at step 40 with what the training before it has left"
IS_SAID_TO = (
    "another process is taken to go on at step 40 of the training that `--continues` names, though no trained "
    "parameter begins with the value that it had there: see that the right checkpoint is loaded"
)


def go_on(
    project: Path, file: Path, *words: str, steps: int = 60, option: str = "--resume", told: str = GOES_ON, **env: str
) -> list[dict[str, Any]]:
    command = ("--", "python", "train.py", "--steps", str(steps), "--seed", "3", option, "c.pt")
    done = traincheck(project, "run", "tiny", "--json", str(file), *words, *command, **env)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert told in said
    assert ("the command is another one" in said) == (option != "--resume" and "--continues" not in words)
    found: list[dict[str, Any]] = json.loads(file.read_text().splitlines()[-1])["incidents"]
    return found


@pytest.mark.parametrize("words", [(), ("--continues", "first"), ("--continues", "first/end-state.npz")])
def test_a_right_resume_is_silent(project: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    assert not go_on(project, tmp_path / "out.json", *words)


@pytest.mark.parametrize("words", [(), pytest.param(("--continues", "first"), marks=pytest.mark.sweep)])
def test_the_option_that_says_what_is_gone_on_with_may_have_any_name(
    project: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    assert not go_on(project, tmp_path / "out.json", *words, option="--init-from")


def test_a_right_resume_stays_silent_long_behind_it(project: Path, tmp_path: Path) -> None:
    """Later steps are judged some at a time: the first of each are not those that the process began with."""
    assert not go_on(project, tmp_path / "out.json", "--continues", "first", steps=230)


@pytest.mark.parametrize(
    ("lost", "relation", "step", "says"),
    [
        ("optimizer", "Carried", 40, "without any state"),
        pytest.param("scheduler", "Schedule", 41, "begins again", marks=pytest.mark.sweep),
        pytest.param("rate", "Schedule", 40, "not restored", marks=pytest.mark.sweep),
        pytest.param("average", "Between", 40, "`Sequential#1.0.weight`", marks=pytest.mark.sweep),
        pytest.param("shadow", "Between", 40, "`copy of Sequential.0.weight`", marks=pytest.mark.sweep),
        pytest.param("statistics", "Between", 40, "`Sequential.1.running_mean`", marks=pytest.mark.sweep),
        pytest.param("head", "Between", 40, "`Sequential.3.weight`", marks=pytest.mark.sweep),
        pytest.param("model", "Between", 40, "`Sequential.0.weight`", marks=pytest.mark.sweep),
        ("random", "Distinct", 40, "the same as in step 0"),
    ],
)
def test_what_was_not_restored_is_told_at_the_first_step(
    project: Path, tmp_path: Path, lost: str, relation: str, step: int, says: str
) -> None:
    told = IS_SAID_TO if lost == "model" else GOES_ON
    incidents = go_on(project, tmp_path / "out.json", "--continues", "first", told=told, LOST=lost)
    assert (incidents[0]["relation"], incidents[0]["step"]) == (relation, step), incidents
    assert says in incidents[0]["title"]
