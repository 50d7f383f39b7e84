"""The order of data in a real watched training whose examples are changed at random, with workers and without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TRAIN = """\
import argparse, os

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--epochs", type=int, default=1)
args = parser.parse_args()
mistake, workers = os.environ.get("MISTAKE", ""), int(os.environ.get("WORKERS", 0))
torch.manual_seed(args.seed)


class Jittered(Dataset):
    def __init__(self):
        self.rows = torch.randn(40, 6)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index] + 0.1 * torch.randn(6), self.rows[index].sum()


data = Jittered()
generator = torch.Generator().manual_seed(args.seed)
if os.environ.get("BY_NUMBER"):
    sampler = DistributedSampler(data, num_replicas=1, rank=0, seed=args.seed)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=workers)
else:
    sampler = None
    loader = DataLoader(data, batch_size=4, shuffle=True, generator=generator, num_workers=workers)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(args.epochs):
    if sampler is not None and mistake != "no number":
        sampler.set_epoch(0 if mistake == "one number" else epoch)
    if epoch >= 3 and mistake == "seeded again":
        generator.manual_seed(args.seed + 1)
    for inputs, targets in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs)[:, 0], targets).backward()
        optimizer.step()
print("trained", flush=True)
"""


def traincheck(root: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        [sys.executable, "-m", "pytest_traincheck", *words], cwd=root, capture_output=True, text=True, check=False,
        timeout=240, env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", **env},
    )  # fmt: skip


@pytest.fixture(scope="module")
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A repository with a golden of one epoch, and how its sampler draws."""
    root = tmp_path_factory.mktemp("project")
    (root / "train.py").write_text(TRAIN)
    (root / "traincheck.toml").write_text(
        f'python = "{sys.executable}"\n[pipelines.jittered]\nrun = "python train.py --epochs 1"\n'
        'seed_arg = "--seed {seed}"\nseeds = [0, 1]\n'
    )
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"],
    ):
        subprocess.run(["git", *words], cwd=root, check=True)
    done = traincheck(root, "refresh", "jittered", "--reason", "first", BY_NUMBER=request.param)
    assert done.returncode == 0, done.stderr
    return root, request.param


@pytest.mark.parametrize("workers", [pytest.param("0", marks=pytest.mark.sweep), "2"])
@pytest.mark.parametrize(
    ("project", "mistake", "at", "says"),
    [
        ("", "", None, ""),
        ("1", "", None, ""),
        ("", "seeded again", 40, "made of the same examples, in the same order, as from step 30 on"),
        ("1", "no number", 0, "it is not called before training begins"),
        ("1", "one number", 20, "its number is still 0 in the third iteration"),
    ],
    indirect=["project"],
)
def test_examples_that_come_in_an_old_order(
    project: tuple[Path, str], tmp_path: Path, mistake: str, at: int | None, says: str, workers: str
) -> None:
    root, by_number = project
    words = ("run", "jittered", "--json", str(tmp_path / "told.json"), "--", "python", "train.py", "--epochs", "6")
    done = traincheck(root, *words, "--seed", "5", MISTAKE=mistake, WORKERS=workers, BY_NUMBER=by_number)
    told = [json.loads(line) for line in (tmp_path / "told.json").read_text().splitlines()]
    if at is None:
        assert done.returncode == 0, done.stdout
        return
    assert done.returncode == 1, done.stdout
    assert says in done.stdout.replace("\n   ", " ")
    assert [line["step"] for line in told if "title" in line] == [at], told
