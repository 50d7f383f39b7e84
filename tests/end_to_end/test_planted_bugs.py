"""The whole promise on every reference pipeline: a real repository, a stored golden, `pytest --traincheck` on a branch.

Silent on other seeds and on a refactor; red on each planted bug, with the cause on top, in the terminal and in JUnit.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
PIPELINES = tomllib.loads((ROOT / "traincheck.toml").read_text(encoding="utf-8"))["pipelines"]
BUGS = tomllib.loads((FIXTURES / "bugs" / "bugs.toml").read_text(encoding="utf-8"))
ALWAYS = {"gan"}
"""Two models that train against each other. The others are for the sweep."""


class Repository:
    """A throw-away repository that holds one reference pipeline in its top directory, and its configuration."""

    def __init__(self, path: Path, pipeline: str, run: str) -> None:
        self.path = path
        self.pipeline = pipeline
        self.run_command = run
        shutil.copytree(FIXTURES / pipeline, path, ignore=shutil.ignore_patterns("__pycache__"))
        (path / ".gitignore").write_text("__pycache__/\n.pytest_cache/\n", encoding="utf-8")
        self.configure(seeds=[0, 1, 2])
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("the pipeline")

    @classmethod
    def copied(cls, learned: Repository, path: Path) -> Repository:
        """One of its own for a test."""
        shutil.copytree(learned.path, path)
        copy = cls.__new__(cls)
        copy.path, copy.pipeline, copy.run_command = path, learned.pipeline, learned.run_command
        return copy

    def configure(self, seeds: list[int]) -> None:
        lines = [
            f"[pipelines.{self.pipeline}]",
            f"run = {json.dumps(self.run_command)}",
            'seed_arg = "--seed {seed}"',
            f"seeds = {seeds}",
        ]
        text = "\n".join([*lines, ""])
        (self.path / "traincheck.toml").write_text(text, encoding="utf-8")

    def git(self, *arguments: str) -> None:
        names = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *names, *arguments], cwd=self.path, check=True, capture_output=True, env=_environment())

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def apply(self, patch: Path) -> None:
        self.git("apply", str(patch))
        self.commit(f"apply {patch.stem}")

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=self.path,
            capture_output=True,
            text=True,
            env=_environment(),
            timeout=900,
            check=False,
        )

    @property
    def golden(self) -> Path:
        return self.path / "golden_invariants" / f"{self.pipeline}.jsonl"


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTEST_", "COV_"))}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return {**kept, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": path, "COLUMNS": "120"}


def _pytest_arguments() -> list[str]:
    """With the plugin named where the package is importable but not installed."""
    from importlib.metadata import entry_points

    installed = any(entry.name == "traincheck" for entry in entry_points(group="pytest11"))
    return ["pytest", "-q", *([] if installed else ["-p", "pytest_traincheck.plugin"])]


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Repository]:
    """A reference pipeline with its golden, which is learned once; to be copied."""

    @cache
    def learn(pipeline: str) -> Repository:
        path = tmp_path_factory.mktemp(pipeline) / "repository"
        repository = Repository(path, pipeline, PIPELINES[pipeline]["run"])
        done = repository.call("pytest_traincheck", "refresh")
        assert done.returncode == 0, done.stdout + done.stderr
        repository.commit("the golden")
        return repository

    return learn


@pytest.mark.parametrize(
    "pipeline", [pytest.param(name, marks=[] if name in ALWAYS else pytest.mark.sweep) for name in sorted(PIPELINES)]
)
def test_reference_pipeline(pipeline: str, learned: Callable[[str], Repository], tmp_path: Path) -> None:
    repository = Repository.copied(learned(pipeline), tmp_path / "repository")

    for seed in (3, 4, 5):
        repository.configure(seeds=[seed])
        clean = repository.call("pytest_traincheck", "check")
        assert clean.returncode == 0, f"seed {seed}\n{clean.stdout}{clean.stderr}"
    repository.git("checkout", "--quiet", "--", ".")

    repository.git("checkout", "--quiet", "-b", "refactor")
    repository.apply(FIXTURES / "refactors" / f"{pipeline}.patch")
    document = tmp_path / "refactored.json"
    refactored = repository.call("pytest_traincheck", "check", "--json", str(document))
    assert refactored.returncode == 0, refactored.stdout + refactored.stderr
    counts = json.loads(document.read_text(encoding="utf-8"))["invariants"]
    assert counts["checked"] >= 0.9 * counts["golden"]  # a check that checks nothing must not be green

    for bug in (bug for bug in BUGS["bug"] if bug["pipeline"] == pipeline):
        repository.git("checkout", "--quiet", "-b", bug["id"], "main")
        repository.apply(FIXTURES / "bugs" / bug["patch"])
        _is_found(repository, bug)


def _is_found(repository: Repository, bug: dict[str, Any]) -> None:
    junit = repository.path.parent / f"{bug['id']}.xml"
    document = repository.path.parent / f"{bug['id']}.json"
    failed = repository.call(
        *_pytest_arguments(), "--traincheck", f"--junitxml={junit}", f"--traincheck-json={document}"
    )
    assert failed.returncode == 1, f"{bug['id']}\n{failed.stdout}{failed.stderr}"
    assert "Traceback" not in failed.stdout

    result = json.loads(document.read_text(encoding="utf-8"))
    assert result["verdict"] == "fail"
    top = result["incidents"][0]
    said = f"{top['title']} {top['subject']}".lower()
    assert any(word in said for word in bug["cause"]), f"{bug['id']}: {said}"
    assert top["step"] in bug["step"]
    assert top["source"].partition(":")[0].endswith(".py")
    assert len(result["incidents"]) == 1, [incident["title"] for incident in result["incidents"]]
    # A title may be wrapped and its ends cut off by the width of the terminal; its first words are there.
    assert failed.stdout.index("= traincheck =") < failed.stdout.index(" ".join(top["title"].split()[:4]))

    cases = ET.parse(junit).getroot().iter("testcase")
    broken = [case for case in cases if case.find("failure") is not None]
    properties = {item.get("name"): item.get("value") for case in broken for item in case.iter("property")}
    assert set(top["invariants"]) & set((properties.get("traincheck_invariants") or "").replace(",", " ").split())


@pytest.mark.sweep  # so does that of a smaller pipeline, in `tests/cli/test_cli_end_to_end.py` and `test_jobs.py`
def test_second_refresh_writes_the_identical_file(learned: Callable[[str], Repository], tmp_path: Path) -> None:
    """Wherever the repository lies."""
    first = learned("gan")
    repository = Repository.copied(first, tmp_path / "repository")
    repository.git("checkout", "--quiet", "HEAD~1")  # which the golden names
    assert not repository.golden.exists()
    assert repository.call("pytest_traincheck", "refresh").returncode == 0
    assert repository.golden.read_bytes() == first.golden.read_bytes()


@pytest.mark.sweep
def test_hugging_face_trainer(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    repository = Repository(tmp_path / "repository", "hf_gpt2", "python train.py --steps 8")
    learned = repository.call("pytest_traincheck", "refresh")
    assert learned.returncode == 0, learned.stdout + learned.stderr
    repository.commit("the golden")
    repository.configure(seeds=[3])
    clean = repository.call("pytest_traincheck", "check")
    assert clean.returncode == 0, clean.stdout + clean.stderr
    repository.git("checkout", "--quiet", "--", ".")
    for bug in BUGS["real_input"]:
        repository.git("checkout", "--quiet", "-b", bug["id"], "main")
        repository.apply(FIXTURES / "bugs" / bug["patch"])
        _is_found(repository, bug)


@pytest.mark.sweep  # `tests/cli/test_cli_end_to_end.py` compares two commits of a smaller pipeline always
@pytest.mark.parametrize("name", ["01-missing-zero-grad", "03-raw-module"])
def test_compare_between_two_refs(name: str, tmp_path: Path) -> None:
    bug = next(bug for bug in BUGS["bug"] if bug["id"] == name)
    repository = Repository(tmp_path / "repository", bug["pipeline"], PIPELINES[bug["pipeline"]]["run"])
    repository.git("checkout", "--quiet", "-b", "candidate")
    repository.apply(FIXTURES / "bugs" / bug["patch"])
    repository.git("checkout", "--quiet", "main")
    document = tmp_path / "result.json"
    compared = repository.call(
        "pytest_traincheck", "compare", "--golden", "main", "--candidate", "candidate",
        "--run", repository.run_command, "--seed-arg", "--seed {seed}", "--seeds", "0,1", "--json", str(document),
    )  # fmt: skip
    assert compared.returncode == 1, compared.stdout + compared.stderr
    top = json.loads(document.read_text(encoding="utf-8"))["incidents"][0]
    assert any(word in f"{top['title']} {top['subject']}".lower() for word in bug["cause"])
    assert top["diff"]["file"] == top["source"].partition(":")[0]
    assert any(line.startswith("-") for line in top["diff"]["hunk"].splitlines())
    worktrees = subprocess.run(
        ["git", "worktree", "list"], cwd=repository.path, capture_output=True, text=True, check=True, env=_environment()
    )
    assert len(worktrees.stdout.splitlines()) == 1
