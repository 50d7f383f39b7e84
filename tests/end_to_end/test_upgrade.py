"""A library is upgraded: was it the library, the code, or only both together?"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from upgrade_story import AT_ONE_TIME, TRAIN, build_wheels, make_repository

pytestmark = pytest.mark.slow

CHANGED_IN_2 = TRAIN.replace("tinylib.loss(", "tinylib.batch_loss(")
WITHOUT_ZERO_GRAD = TRAIN.replace("        optimizer.zero_grad()\n", "")


@dataclass(frozen=True)
class Shell:
    """A terminal in which the tinylib wheels are all there is to install, with tinylib 1.0 in the environment."""

    python: Path
    env: dict[str, str]

    def upgrade(self, repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pytest_traincheck", "upgrade", *words],
            cwd=repository,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )

    def checked(self, repository: Path) -> tuple[int, str, dict[str, Any]]:
        """Exit status, output and JSON of the upgrade to 2.0; repositories differ, the environment is made once."""
        report = repository.parent / f"{repository.name}.json"
        done = self.upgrade(repository, "tiny", "--with", "tinylib==2.0", "--json", str(report))
        assert report.exists(), done.stderr
        return done.returncode, done.stdout, json.loads(report.read_text())


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """The base environment is itself a layer, with 1.0 in it, over the one that runs the tests."""
    from pytest_traincheck.launch.installation import read_installation
    from pytest_traincheck.launch.progress import QuietProgress
    from pytest_traincheck.launch.second_environment import Requirements, second_environment

    root = tmp_path_factory.mktemp("upgrade")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(build_wheels(root / "library")))
        patch.setenv("TRAINCHECK_CACHE_DIR", str(root / "cache"))
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("COLUMNS", "80")
        patch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
        here = read_installation(Path(sys.executable))
        base = second_environment(here, Requirements.parse(["tinylib==1.0"]), QuietProgress())
        return Shell(base.python, dict(os.environ))


def in_base(shell: Shell, repository: Path) -> Path:
    """The repository, whose runs take place in the environment with 1.0."""
    file = repository / "pyproject.toml"
    file.write_text(f'[tool.traincheck]\npython = "{shell.python}"\n\n{file.read_text()}')
    git = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org"]
    commit = [*git, "commit", "--quiet", "--all", "-m", "Name the interpreter"]
    subprocess.run(commit, cwd=repository, env={**os.environ, **AT_ONE_TIME}, check=True)
    return repository


@pytest.mark.sweep
def test_the_library_alone(shell: Shell, tmp_path: Path) -> None:
    repository = in_base(shell, make_repository(tmp_path / "project", CHANGED_IN_2))
    status, text, report = shell.checked(repository)
    assert status == 1, text
    assert "The library alone broke it." in text
    assert [(cell["code"], cell["libraries"]) for cell in report["upgrade"]["cells"]] == [("golden", "new")]
    broken = report["upgrade"]["broken_by"][0]
    assert broken["cause"] == "library"
    assert broken["library_call"]["api"] == "tinylib.batch_loss"
    assert report["upgrade"]["versions"] == [{"name": "tinylib", "old": "1.0", "new": "2.0", "asked": True}]
    assert "reduction" in report["incidents"][0]["title"]
    assert all(len(line) <= 80 for line in text.splitlines())
    told = text[text.index("reproduce: ") :].replace("\\\n", " ").splitlines()
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, check=True, capture_output=True, text=True)
    commit = head.stdout[:12]
    assert " ".join(told[0].split()) == f"reproduce: traincheck upgrade tiny --with tinylib==2.0 --golden {commit}"
    # What is accepted holds for the next upgrade check, and for every other.
    words = shlex.split(told[1].removeprefix("if intended: ").replace('"..."', '"sums are meant"'))
    done = subprocess.run([sys.executable, "-m", "pytest_traincheck", *words[1:]], cwd=repository, env=shell.env)
    assert done.returncode == 0
    subprocess.run(["git", "checkout", "--quiet", "."], cwd=repository, check=True)


@pytest.mark.sweep
def test_neither(shell: Shell, tmp_path: Path) -> None:
    repository = in_base(shell, make_repository(tmp_path / "project", TRAIN))
    status, text, report = shell.checked(repository)
    assert status == 0, text
    assert report["verdict"] == "pass"
    assert report["upgrade"]["share"]["valid_and_applicable"] == 1.0


@pytest.mark.sweep
def test_the_code_alone(shell: Shell, tmp_path: Path) -> None:
    repository = in_base(shell, make_repository(tmp_path / "project", TRAIN))
    (repository / "train.py").write_text(WITHOUT_ZERO_GRAD)
    status, text, report = shell.checked(repository)
    assert status == 1, text
    assert "The code alone broke it." in text
    verdicts = {(cell["code"], cell["libraries"]): cell["verdict"] for cell in report["upgrade"]["cells"]}
    assert verdicts == {("golden", "new"): "pass", ("candidate", "old"): "fail", ("candidate", "new"): "fail"}
    assert {broken["cause"] for broken in report["upgrade"]["broken_by"]} == {"code"}


def test_only_both_together(shell: Shell, tmp_path: Path) -> None:
    repository = in_base(shell, make_repository(tmp_path / "project", TRAIN))
    (repository / "train.py").write_text(CHANGED_IN_2)
    status, text, report = shell.checked(repository)
    assert status == 1, text
    assert "Only both together broke it" in text
    broken = report["upgrade"]["broken_by"][0]
    assert broken["cause"] == "both together"
    assert broken["library_call"]["api"] == "tinylib.batch_loss"
    assert report["incidents"][0]["diff"]["file"] == "train.py"


def test_what_cannot_be_installed_is_one_error(shell: Shell, tmp_path: Path) -> None:
    repository = in_base(shell, make_repository(tmp_path / "project", TRAIN))
    done = shell.upgrade(repository, "tiny", "--with", "tinylib==3.0", "--json", str(tmp_path / "result.json"))
    assert done.returncode == 2
    assert "No matching distribution found for tinylib==3.0" in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads((tmp_path / "result.json").read_text())["verdict"] == "error"
    made = Path(shell.env["TRAINCHECK_CACHE_DIR"]) / "environments"
    assert not [path for path in made.iterdir() if path.name.startswith("tinylib-3.0")]
