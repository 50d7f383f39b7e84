"""A script that reads untracked data and writes checkpoints: learned and checked without a trace in the user's tree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from training_repository import TrainingRepository

pytestmark = pytest.mark.slow

SCRIPT = """\
import argparse
import pathlib
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--output", default="runs")
parser.add_argument("--seed", type=int, default=0)
arguments = parser.parse_args()
torch.manual_seed(arguments.seed)
output = pathlib.Path(arguments.output)
output.mkdir(exist_ok=True)
inputs = torch.load("data/inputs.pt")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    model(inputs[step * 4 : step * 4 + 4]).pow(2).mean().backward()
    optimizer.step()
    torch.save(model.state_dict(), output / "last.pt")
    torch.save(model.state_dict(), str(output / f"step{step}.pt"))
"""

CONFIG = """\
[tool.traincheck.pipelines.net]
run = "python train.py --output {tmp}/run"
cwd = "training"
seed_arg = "--seed {seed}"
seeds = [0]
timeout = 120
link = ["training/data"]
"""


@pytest.fixture
def written(tmp_path: Path) -> TrainingRepository:
    import torch

    repository = TrainingRepository(tmp_path / "repo")
    repository.script.write_text(SCRIPT)
    (repository.path / "pyproject.toml").write_text(CONFIG)
    (repository.path / ".gitignore").write_text("__pycache__/\ndata/\nruns/\n")
    (repository.script.parent / "data").mkdir()
    torch.save(torch.randn(16, 4), repository.script.parent / "data" / "inputs.pt")
    (repository.script.parent / "runs").mkdir()
    (repository.script.parent / "runs" / "last.pt").write_text("days of training")
    repository.commit("A script that writes")
    (tmp_path / "temporary files").mkdir()
    return repository


def state(repository: TrainingRepository) -> dict[str, bytes]:
    found = {str(path.relative_to(repository.path)): path for path in sorted(repository.path.rglob("*"))}
    kept = {name: path for name, path in found.items() if not name.startswith(".git/") and "__pycache__" not in name}
    return {name: path.read_bytes() for name, path in kept.items() if path.is_file()}


def test_nothing_is_written_into_the_tree(written: TrainingRepository, tmp_path: Path) -> None:
    """With a single seed every argument is the same in all runs, and a path that changes would break a rule."""
    before = state(written)
    place = {"TMPDIR": str(tmp_path / "temporary files"), "TRAINCHECK_CACHE_DIR": str(tmp_path / "cache")}
    for arguments in (("refresh",), ("check",), ("check", "--golden", "HEAD"), ("check", "--golden", "HEAD")):
        done = written.call(
            "pytest_traincheck", *arguments, *(["--json", "../out.json"] * (arguments[0] == "check")), **place
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "were written" not in done.stdout
    golden = written.path / "golden_invariants" / "net.jsonl"
    assert "traincheck-" not in golden.read_text()
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["candidate"]["command"] == "python train.py --output {tmp}/run"
    left = state(written)
    assert {name: data for name, data in left.items() if not name.startswith("golden_invariants")} == before
    assert list((tmp_path / "temporary files").glob("traincheck-*")) == []


@pytest.mark.sweep
def test_what_would_be_overwritten_is_named_once(written: TrainingRepository, tmp_path: Path) -> None:
    (written.path / "pyproject.toml").write_text(CONFIG.replace(" --output {tmp}/run", "").replace("[0]", "[0, 1]"))
    done = written.call("pytest_traincheck", "refresh", TRAINCHECK_CACHE_DIR=str(tmp_path / "cache"))
    said = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stdout + done.stderr
    assert said.count("were written: created `training/runs/step0.pt`") == 1
    assert "changed `training/runs/last.pt`. Where that is the pipeline's doing, let it write to `{tmp}`" in said
    done = written.call("pytest", "--traincheck", "-p", "no:cacheprovider")
    said = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stdout + done.stderr
    assert said.count("changed `training/runs/last.pt`") == 1
