"""A script that takes neither a seed nor a number of steps, compared without a change of it."""

from __future__ import annotations

import json
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


def compared(tmp_path: Path, candidate: str, steps: int) -> dict[str, Any]:
    for side, loop in (("golden", LOOP), ("candidate", candidate)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "train.py").write_text(TRAIN + loop)
    command = [
        sys.executable,
        "-m",
        "pytest_traincheck",
        "compare",
        "--golden",
        "golden",
        "--candidate",
        "candidate",
    ]
    command += ["--run", "python train.py", "--seeds", "0,1", "--seed-by", "probe", "--steps", str(steps)]
    subprocess.run([*command, "--json", "result.json"], cwd=tmp_path, capture_output=True, text=True, check=False)
    return json.loads((tmp_path / "result.json").read_text())  # type: ignore[no-any-return]


# Eight steps are two epochs: the evaluation behind the second is not reached.
@pytest.mark.parametrize("steps", [6, 8])
def test_a_refactored_script_passes(tmp_path: Path, steps: int) -> None:
    result = compared(tmp_path, TIDY, steps)
    assert (result["verdict"], result["incidents"], result["errors"]) == ("pass", [], [])
    assert result["coverage"]["share"] == 1


@pytest.mark.parametrize(
    ("lost", "subject"),
    [
        ("        scheduler.step()\n", "torch.optim.lr_scheduler.CosineAnnealingLR.step"),
        ("        optimizer.zero_grad()\n", "torch.optim.AdamW.zero_grad"),
        # Nothing would ever come to the limit.
        ("        optimizer.step()\n", "torch.optim.AdamW.step"),
    ],
)
def test_a_mistake_is_told(tmp_path: Path, lost: str, subject: str) -> None:
    result = compared(tmp_path, LOOP.replace(lost, ""), steps=6)
    assert result["verdict"] == "fail"
    assert [incident["subject"] for incident in result["incidents"]] == [subject]
