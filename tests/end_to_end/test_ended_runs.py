"""A script that takes neither a seed nor a number of steps, compared and checked without a change of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

TRAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

inputs = torch.randn(64, 6)
data = TensorDataset(inputs, (inputs.sum(1) > 0).long())
train, held_out = torch.utils.data.random_split(data, [48, 16])
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
"""
LOOP = """\
while True:
    model.train()
    for x, y in DataLoader(train, 12, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        scheduler.step()
    model.eval()
    with torch.no_grad():
        print(sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(held_out, 8)))
"""
# The same, with the batches in a generator, functions, and the gradients cleared at the bottom of the loop.
TIDY = """\
def evaluate():
    model.eval()
    with torch.no_grad():
        print(sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(held_out, 8)))


def batches():
    while True:
        model.train()
        yield from DataLoader(train, 12, shuffle=True)
        evaluate()


for number, (x, y) in enumerate(batches()):
    try:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(number, loss.item())
    finally:
        scheduler.step()
"""


CONFIGURATION = """\
[pipelines.net]
run = "python train.py"
seeds = [0]
seed_by = "probe"
steps = 6
"""


def traincheck(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_traincheck", *words]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)


def result_of(place: Path) -> dict[str, Any]:
    return json.loads((place / "result.json").read_text())  # type: ignore[no-any-return]


def test_a_refactored_script_passes_in_a_comparison(tmp_path: Path) -> None:
    """Eight steps are two epochs: the evaluation behind the second is not reached."""
    for side, loop in (("golden", LOOP), ("candidate", TIDY)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "train.py").write_text(TRAIN + loop)
    sides = ("--golden", "golden", "--candidate", "candidate")
    words = ("--run", "python train.py", "--seeds", "0", "--seed-by", "probe", "--steps", "8")
    traincheck(tmp_path, "compare", *sides, *words, "--json", "result.json")
    passes(result_of(tmp_path))


def passes(result: dict[str, Any]) -> None:
    assert (result["verdict"], result["incidents"], result["errors"]) == ("pass", [], [])
    assert result["coverage"]["share"] == 1


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script with the golden of its first six steps."""
    place = tmp_path_factory.mktemp("learned")
    (place / "train.py").write_text(TRAIN + LOOP)
    (place / "traincheck.toml").write_text(CONFIGURATION)
    done = traincheck(place, "refresh")
    assert done.returncode == 0, done.stdout + done.stderr
    return place


def checked(learned: Path, tmp_path: Path, loop: str) -> dict[str, Any]:
    place = shutil.copytree(learned, tmp_path / "changed")
    (place / "train.py").write_text(TRAIN + loop)
    traincheck(place, "check", "--json", "result.json")
    return result_of(place)


def test_a_refactored_script_passes(learned: Path, tmp_path: Path) -> None:
    passes(checked(learned, tmp_path, TIDY))


@pytest.mark.parametrize(
    ("lost", "subject"),
    [
        pytest.param(
            "        scheduler.step()\n", "torch.optim.lr_scheduler.CosineAnnealingLR.step", marks=pytest.mark.sweep
        ),
        ("        optimizer.zero_grad()\n", "torch.optim.AdamW.zero_grad"),
        # Nothing would ever come to the limit.
        ("        optimizer.step()\n", "torch.optim.AdamW.step"),
    ],
)
def test_a_mistake_is_told(learned: Path, tmp_path: Path, lost: str, subject: str) -> None:
    result = checked(learned, tmp_path, LOOP.replace(lost, ""))
    assert result["verdict"] == "fail"
    assert [incident["subject"] for incident in result["incidents"]] == [subject]
