"""A repository in which what the documentation says to type works: names, branches and files are those of the pages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SCRIPT = """\
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--output")
parser.add_argument("--backend")
args = parser.parse_args()
torch.manual_seed(args.seed)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(args.steps):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 6)), torch.randint(3, (16,)))
    loss.backward()
    optimizer.step()
"""
BUG = ("    optimizer.zero_grad()\n", "")

CONFIGURATION = """\
[tool.traincheck]
store = "golden_invariants"

[tool.traincheck.pipelines.mnist]
run = "python train.py --steps 8"
seed_arg = "--seed {seed}"
seeds = [0]
timeout = 300
"""


def environment(home: Path) -> dict[str, str]:
    """That of a reader: the commands of this environment are found first, and nothing is written into a real home."""
    beside = str(Path(sys.executable).parent)
    path = os.pathsep.join([beside, os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "HOME": str(home), "OMP_NUM_THREADS": "1"}


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a line as a reader would."""
    home = cwd.parent / "home"
    (home / ".local" / "share" / "bash-completion" / "completions").mkdir(parents=True, exist_ok=True)
    return subprocess.run(
        ["bash", "-c", line], cwd=cwd, env=environment(home), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip


def make(root: Path) -> Path:
    """The repository, with its golden learned and committed on `main`, and a branch that has lost a line."""
    root.mkdir(parents=True)
    for name in ("train.py", "pipeline.py", "train_a.py", "train_b.py", "train_c.py", "old/train.py", "new/train.py"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(SCRIPT, encoding="utf-8")
    (root / "new" / "train.py").write_text(SCRIPT.replace(*BUG), encoding="utf-8")
    (root / "pyproject.toml").write_text(CONFIGURATION, encoding="utf-8")
    (root / ".gitignore").write_text("runs/\nkept/\n*.json\n*.html\n*.sarif\n*.xml\n*.parquet\n", encoding="utf-8")
    _must(root, "git init -q -b main && git config user.name Ada && git config user.email ada@example.org")
    _must(root, "git add . && git commit -qm 'Train' && git tag v1.2")
    _must(root, "traincheck refresh")
    _must(root, "git add . && git commit -qm 'Learn the golden' && git branch my-branch && git branch feature")
    _must(root, "mkdir -p old && cp golden_invariants/mnist.jsonl old/ && git add . && git commit -qm 'Keep it'")
    return root


def copy(made: Path, to: Path) -> Path:
    """A repository of its own for one page."""
    shutil.copytree(made, to, symlinks=True)
    return to


def _must(cwd: Path, line: str) -> None:
    done = shell(line, cwd)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
