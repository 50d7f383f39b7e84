"""Several runs at a time give what one at a time gives: goldens to the byte, and reports but for the seconds."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# With an update by hand: what the first optimizer of a process imports takes as long as all the rest.
TRAIN = """\
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=6)
args = parser.parse_args()
torch.manual_seed(args.seed)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
for step in range(args.steps):
    loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 6)), torch.randint(3, (16,)))
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
    print("step", step, loss.item(), flush=True)
"""

CONFIGURATION = """
[tool.traincheck.pipelines.first]
run = "python train.py"
seed_arg = "--seed {seed}"
seeds = [0]

[tool.traincheck.pipelines.second]
run = "python other.py --steps 4"
seed_arg = "--seed {seed}"
seeds = [0]
"""


def _traincheck(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest_traincheck", *words],
        cwd=directory,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def _timeless(content: Any) -> Any:
    """A document without what differs between any two runs."""
    if isinstance(content, dict):
        return {key: _timeless(value) for key, value in content.items() if key != "timing"}
    return [_timeless(item) for item in content] if isinstance(content, list) else content


def _files(directory: Path) -> list[str]:
    found = (path.relative_to(directory).as_posix() for path in directory.rglob("*"))
    return sorted({re.sub(r"proc-\d+-\d+", "proc", path) for path in found})


@pytest.mark.slow
def test_two_at_a_time_are_as_one_after_another(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(TRAIN)
    (project / "other.py").write_text(TRAIN)
    (project / "pyproject.toml").write_text(CONFIGURATION)
    seen = []
    for jobs in ("1", "2"):
        shutil.rmtree(project / "golden_invariants", ignore_errors=True)
        done = _traincheck(project, "refresh", "--jobs", jobs)
        assert done.returncode == 0, done.stderr
        goldens = {path.name: path.read_bytes() for path in (project / "golden_invariants").glob("*.jsonl")}
        seen.append((done.stdout, done.stderr, goldens))
    assert seen[0] == seen[1]

    (project / "other.py").write_text(TRAIN.replace("            parameter.grad = None\n", ""))
    seen = []
    for jobs in ("1", "auto"):
        kept = tmp_path / "kept"
        done = _traincheck(project, "check", "-j", jobs, "--json", "../result.json", "--artifacts", str(kept))
        assert done.returncode == 1, done.stderr
        document = _timeless(json.loads((tmp_path / "result.json").read_text()))
        seen.append((re.sub(r"\d+\.\d+ s\b", "s", done.stdout), done.stderr, document, _files(kept)))
        shutil.rmtree(kept)
    assert seen[0] == seen[1]
