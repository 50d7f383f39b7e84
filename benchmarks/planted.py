"""The fixtures as the benchmarks use them: pipelines of `pipelines.toml`, bugs of `bugs.toml`, patched copies."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import FIXTURES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BUGS = FIXTURES / "bugs"
NUMBERS = FIXTURES / "numbers"
DRIFT = FIXTURES / "drift"


@dataclass(frozen=True)
class Pipeline:
    """A fixture: its folder, the command line, how a seed is passed, what it is an example of, and whether the
    relations were built with it in sight (`development`) or not (`hold-out`).
    """

    name: str
    folder: Path
    run: str
    seed_arg: str
    covers: str = ""
    part: str = "development"


@dataclass(frozen=True)
class Bug:
    """A patch that plants a mistake.

    `cause` are lower-case words of which one belongs into an incident that names the cause, `near` those of one that
    names a close symptom; `steps` are those, counted from 0, at one of which the first thing goes wrong.
    """

    name: str
    pipeline: str
    patch: Path
    cause: tuple[str, ...]
    steps: tuple[int, ...]
    near: tuple[str, ...] = ()
    part: str = "development"
    title: str = ""
    family: str = ""


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def load_pipelines() -> list[Pipeline]:
    """The pipelines in the order of the file, those left out that need a package which is not installed."""
    return [
        Pipeline(name, FIXTURES / name, table["run"], table["seed_arg"], table["covers"], table["part"])
        for name, table in _read(FIXTURES / "pipelines.toml")["pipelines"].items()
        if all(importlib.util.find_spec(package) for package in table.get("needs", ()))
    ]


def load_bugs() -> list[Bug]:
    """The planted bugs in the order of the file."""
    tables = _read(BUGS / "bugs.toml")
    return [_bug(table, BUGS) for table in (*tables["bug"], *tables["real_input"], *tables["corpus"])]


def load_number_bugs() -> list[Bug]:
    """The planted bugs that only numbers reveal, of pipelines whose packages are installed."""
    known = {pipeline.name for pipeline in load_pipelines()}
    tables = _read(NUMBERS / "numbers.toml")["bug"]
    return [_bug(table, NUMBERS) for table in tables if table["pipeline"] in known]


def _bug(table: dict[str, Any], folder: Path) -> Bug:
    return Bug(
        table["id"],
        table["pipeline"],
        folder / table["patch"],
        tuple(table["cause"]),
        tuple(table["step"]),
        tuple(table.get("near", ())),
        table.get("part", "development"),
        table["title"],
        table.get("class", ""),
    )


@dataclass(frozen=True)
class Drift:
    """A variation that changes nothing but rounding, order or names. `patch` is None for one of the environment alone;
    `same_data`: with the same seed the training is the same up to rounding.
    """

    name: str
    pipeline: str
    kind: str
    title: str
    patch: Path | None
    same_data: bool
    env: Mapping[str, str]


def load_drifts() -> list[Drift]:
    """The clean variations of `fixtures/drift`, of pipelines whose packages are installed."""
    known = {pipeline.name for pipeline in load_pipelines()}
    return [
        Drift(
            table["id"],
            table["pipeline"],
            table["kind"],
            table["title"],
            DRIFT / table["patch"] if "patch" in table else None,
            table["same_data"],
            table.get("env", {}),
        )
        for table in _read(DRIFT / "drift.toml")["variation"]
        if table["pipeline"] in known
    ]


def find_bug(name: str) -> Bug:
    """The bug of that name.

    Raises:
        SystemExit: if there is none; the names are listed.
    """
    bugs = {bug.name: bug for bug in load_bugs()}
    if name not in bugs:
        raise SystemExit(f"no planted bug is called {name!r} in {BUGS / 'bugs.toml'}; choose one of {', '.join(bugs)}")
    return bugs[name]


def tree_of(pipeline: Pipeline, into: Path) -> Path:
    """A clean copy of a fixture's folder."""
    shutil.copytree(pipeline.folder, into, ignore=shutil.ignore_patterns("__pycache__"))
    return into


def patched_copy(bug: Bug, into: Path) -> Path:
    """A copy of the bug's pipeline with the bug planted."""
    folder = next(each for each in load_pipelines() if each.name == bug.pipeline)
    apply_patch(bug.patch, tree_of(folder, into))
    return into


def apply_patch(patch: Path, tree: Path) -> None:
    """Applies a patch whose paths start at the fixture's folder; fuzz and failure are errors."""
    done = subprocess.run(
        ["git", "apply", "-p1", "--whitespace=nowarn", str(patch)],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{patch.name} does not apply to {tree.name}: {done.stderr.strip()}. Make the patch again.")
