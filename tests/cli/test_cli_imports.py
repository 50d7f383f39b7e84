"""A command imports what it needs itself, and not what others need."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pytest_traincheck.cli.main import COMMANDS
from pytest_traincheck.cli.moments import MOMENTS

PROGRAM = """
import json, sys
from pytest_traincheck.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""

PACKAGE = "pytest_traincheck.cli."
MODULES = {PACKAGE + name for name in COMMANDS if name not in ("list", "status")} | {PACKAGE + "listing"}


def imported(*words: str) -> set[str]:
    """What a process has imported that runs `traincheck` with these words."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    ("words", "module"),
    [
        ("check --help", "check"),
        ("audit --help", "audit"),
        ("collect --help", "collect"),
        ("list --help", "listing"),
        ("status --help", "listing"),
        ("schema config", "schema"),
    ],
)
def test_a_command_imports_no_other(words: str, module: str) -> None:
    assert imported(*words.split()) & MODULES == {PACKAGE + module}


@pytest.mark.parametrize("words", ["--version", "doctor --help"])
def test_numbers_and_pages_are_imported_where_they_are_needed(words: str) -> None:
    assert not imported(*words.split()) & {"numpy", "jinja2", "yaml", "tomlkit"}


def test_the_version_is_no_command() -> None:
    assert not imported("--version") & MODULES


@pytest.mark.parametrize("words", ["--help", "nonsense", ""])
def test_what_speaks_of_all_commands_imports_all(words: str) -> None:
    found = imported(*words.split())
    assert found >= MODULES
    # Torch is imported by the training, and not by whoever looks at it.
    assert "torch" not in found


def test_names_are_those_of_the_help() -> None:
    listed = [name for names in MOMENTS.values() for name in names]
    assert sorted(COMMANDS) == sorted([*listed, "status"])


def test_a_wrong_command_is_told_of_all() -> None:
    words = [sys.executable, "-m", "pytest_traincheck", "nonsense"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert all(repr(name) in done.stderr for name in COMMANDS)
