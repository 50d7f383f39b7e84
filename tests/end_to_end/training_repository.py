"""A small real training script in a real git repository, for tests that run the real commands."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from small_training import TRAIN

ROOT = Path(__file__).parents[2]

CONFIG = """\
[tool.traincheck.pipelines.net]
run = "python train.py --steps 6"
cwd = "training"
seed_arg = "--seed {seed}"
seeds = [0]
timeout = 120
"""


class TrainingRepository:
    """`training/train.py`, its configuration, and a commit of both."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.script = path / "training" / "train.py"
        self.script.parent.mkdir(parents=True)
        self.script.write_text(TRAIN)
        (path / "pyproject.toml").write_text(CONFIG)
        (path / ".gitignore").write_text("__pycache__/\n.pytest_cache/\n")
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("The pipeline")

    def git(self, *arguments: str) -> str:
        names = ("-c", "user.name=A. Person", "-c", "user.email=person@example.invalid", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *names, *arguments], cwd=self.path, check=True, capture_output=True, text=True, env=environment()
        )
        return done.stdout.strip()

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def change(self, old: str, new: str) -> None:
        text = self.script.read_text()
        assert old in text, f"the script has no {old!r}"
        self.script.write_text(text.replace(old, new))

    def call(self, *arguments: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        """`python -m ...`, at 80 columns."""
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=cwd or self.path,
            capture_output=True,
            text=True,
            env={**environment(), **variables},
            timeout=600,
            check=False,
        )


@dataclass(frozen=True)
class FailedJob:
    """The repository, what pytest printed, and the files it wrote."""

    repository: TrainingRepository
    process: subprocess.CompletedProcess[str]
    summary: Path
    artifacts: Path
    json: Path


def environment() -> dict[str, str]:
    """That of the test, without what a CI service or a git hook adds to it."""
    foreign = ("GIT_", "GITHUB_", "PYTEST_", "COV_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "COLUMNS": "80", "GIT_CONFIG_GLOBAL": os.devnull}
