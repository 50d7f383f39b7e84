"""A package that extends this one: installed by pip, found by its entry point, and made of the public API alone."""

from __future__ import annotations

import ast
import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from saving_script import SCRIPT

EXAMPLE = Path(__file__).parent / "example"
MODULES = sorted(EXAMPLE.rglob("*.py"))
PACKAGE = "pytest_traincheck"
API = f"{PACKAGE}.api"

SAVING = SCRIPT.splitlines()[-1]


def foreign(path: Path) -> list[str]:
    """What a module imports of this package beside its API."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [item.name for item in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += (
                [node.module or ""] if node.module != PACKAGE else [f"{PACKAGE}.{item.name}" for item in node.names]
            )
    return [name for name in found if name.split(".")[0] == PACKAGE and name != API]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_the_example_needs_nothing_but_the_api(path: Path) -> None:
    assert not foreign(path)


def test_the_test_above_can_fail(tmp_path: Path) -> None:
    assert len(MODULES) == 5
    module = tmp_path / "module.py"
    module.write_text(f"import {PACKAGE}.trace\nfrom {PACKAGE} import config, api\nfrom {API} import Run\n")
    assert foreign(module) == [f"{PACKAGE}.trace", f"{PACKAGE}.config"]


@pytest.mark.slow
def test_a_relation_and_a_reporter_of_an_installed_package_are_used(
    with_example: dict[str, str], tmp_path: Path
) -> None:
    for side, script in {
        "golden": SCRIPT,
        "candidate": SCRIPT.replace(SAVING, "").replace("for step", f"{SAVING}\nfor step"),
    }.items():
        (tmp_path / side).mkdir()
        (tmp_path / side / "train.py").write_text(script)
    command = [sys.executable, "-m", PACKAGE, "compare", "--golden", "golden", "--candidate", "candidate"]
    command += ["--run", "python train.py", "--seed-env", "SEED", "--seeds", "0"]
    command += ["--json", "out.json", "--write", "csv=out.csv"]
    done = subprocess.run(command, cwd=tmp_path, env=with_example, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    (incident,) = json.loads((tmp_path / "out.json").read_text())["incidents"]
    assert incident["relation"] == "SavedLast"
    assert incident["golden"] == "saved after the last step"
    with (tmp_path / "out.csv").open() as stream:
        (row,) = csv.DictReader(stream)
    assert row["id"] == incident["id"]
    assert row["title"] == incident["title"]


@pytest.mark.sweep
@pytest.mark.slow
def test_a_mistake_of_an_installed_package_is_planted_and_found(with_example: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "traincheck.toml").write_text(
        "[pipelines.net]\nrun = 'python train.py'\nseed_env = 'SEED'\nseeds = [0]\n"
    )
    command = [sys.executable, "-m", PACKAGE, "selftest", "net", "--kinds", "checkpoints", "--json", "out.json"]
    done = subprocess.run(command, cwd=tmp_path, env=with_example, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (mutant,) = json.loads((tmp_path / "out.json").read_text())["mutants"]
    assert (mutant["kind"], mutant["fate"], mutant["applied"]) == ("checkpoint-skipped", "killed", 1)
    assert mutant["incident"]["relation"] == "SavedLast"


def test_the_option_is_wrong_use_before_anything_runs(with_example: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", PACKAGE, "check", "--write", "cvs=out.csv"]
    done = subprocess.run(command, cwd=tmp_path, env=with_example, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no format of report is named 'cvs'. Did you mean 'csv'? There are: csv" in done.stderr
