"""Before a merge: a branch against the commit where it left main, in a real repository, without a stored golden."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from pytest_traincheck.launch.cache import VARIABLE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

TRAIN = """\
import argparse
import os
from pathlib import Path

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
torch.manual_seed(parser.parse_args().seed)
with open(os.environ["RUNS_LOG"], "a") as log:
    log.write(f"{Path.cwd()}\\n")
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 6)), torch.randint(3, (16,)))
    loss.backward()
    optimizer.step()
"""

# The body of the loop in a function of its own, and something printed.
TIDY = TRAIN.partition("for step")[0] + """\

def train_step(inputs, targets):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


for number in range(4):
    print(number, train_step(torch.randn(16, 6), torch.randint(3, (16,))))
"""  # fmt: skip

CONFIG = """\
[tool.traincheck]
golden = "merge-base:main"

[tool.traincheck.pipelines.net]
run = "python train.py"
seed_arg = "--seed {seed}"
seeds = [0]
"""


def plugin() -> list[str]:
    """The plugin named where the package is importable but not installed."""
    installed = any(entry.name == "traincheck" for entry in entry_points(group="pytest11"))
    return [] if installed else ["-p", "pytest_traincheck.plugin"]


class Repository:
    """A repository with `main`, and a log of where its training script ran."""

    def __init__(self, top: Path) -> None:
        self.path = top / "project"
        self.path.mkdir()
        self.log = top / "runs.log"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTEST_", "COV_"))}
        python_path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        own = {"RUNS_LOG": str(self.log), VARIABLE: str(top / "cache"), "COLUMNS": "80", "OMP_NUM_THREADS": "1"}
        self.environment = {**kept, **own, "PYTHONPATH": python_path}
        (self.path / "pyproject.toml").write_text(CONFIG)
        (self.path / ".gitignore").write_text("__pycache__/\n.pytest_cache/\n")
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "Ada")
        self.git("config", "user.email", "ada@localhost")
        self.write(TRAIN, "Train a network")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.path, check=True, capture_output=True, text=True, env=self.environment
        )
        return done.stdout

    def write(self, script: str, message: str) -> None:
        (self.path / "train.py").write_text(script)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=self.path,
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=300,
            check=False,
        )

    def type(self, command: str) -> subprocess.CompletedProcess[str]:
        """A command as it was printed, the program being that of this interpreter."""
        program, *words = shlex.split(command)
        assert program == "traincheck"
        return self.call("pytest_traincheck", *words)

    def runs(self) -> tuple[int, int]:
        """How often the script ran in a worktree of the golden commit and in the working tree, since last asked."""
        places = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        here = sum(Path(place).samefile(self.path) for place in places if Path(place).exists())
        return len(places) - here, here


def test_a_branch_from_its_first_check_to_its_exception(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.git("checkout", "--quiet", "-b", "tidy")
    repository.write(TIDY, "Tidy up the loop")

    clean = repository.call("pytest_traincheck", "check")
    assert clean.returncode == 0, clean.stdout + clean.stderr
    assert repository.runs() == (2, 1), "the first seed is run twice, to see whether it repeats"

    repository.write(TIDY.replace("    optimizer.zero_grad()\n", ""), "Tidy up more")
    junit, document = tmp_path / "junit.xml", tmp_path / "result.json"
    failed = repository.call(
        "pytest", "-q", *plugin(), "--traincheck", f"--junitxml={junit}", f"--traincheck-json={document}"
    )
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert repository.runs() == (0, 1), "the golden commit was trained again"
    result = json.loads(document.read_text())
    assert "zero_grad" in result["incidents"][0]["title"]
    assert result["golden"]["commit"] == repository.git("rev-parse", "main").strip()
    assert "came from the cache" in " ".join(failed.stdout.split())

    # The commands stand in the text of one failed item, and work as they are printed.
    texts = "\n".join(case.text or "" for case in ET.parse(junit).getroot().iter("failure"))
    (reproduce,) = re.findall(r"^reproduce: (.*)$", texts, re.MULTILINE)
    (accept,) = re.findall(r"^if intended: (.*)$", texts, re.MULTILINE)
    assert result["commands"] == {"reproduce": reproduce, "accept": accept}
    again = repository.type(reproduce)
    assert again.returncode == 1, again.stdout + again.stderr
    assert repository.runs() == (0, 1)
    said = " ".join(again.stdout.replace("\\\n", " ").split())
    assert result["incidents"][0]["title"].split(";")[0][:60] in said
    assert f"if intended: {accept}" in said

    accepted = repository.type(accept.replace('"..."', '"gradients are meant to add up"'))
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    repository.git("commit", "--quiet", "--all", "--message", "Accept it")
    passed = repository.call("pytest_traincheck", "check")
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert repository.runs() == (0, 1)
    assert len(repository.git("worktree", "list").splitlines()) == 1
