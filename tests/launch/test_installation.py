"""What is installed for an interpreter, and how two environments differ."""

from __future__ import annotations

import platform
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from pytest_traincheck.launch.installation import (
    Installation,
    VersionChange,
    read_installation,
    top_level_modules,
    version_changes,
)
from pytest_traincheck.launch.sides import SideError


def test_an_interpreter_says_what_is_installed_for_it() -> None:
    found = read_installation(Path(sys.executable))
    assert found.version == platform.python_version()
    assert found.versions["pytest"] == version("pytest")
    assert found.versions["importlib-metadata" if "importlib-metadata" in found.versions else "packaging"]
    assert top_level_modules(found, ["pytest", "not-installed"]) >= {"pytest", "_pytest"}


@pytest.mark.parametrize("program", ["/bin/true", "/bin/sh", "/no/such/python"])
def test_what_is_no_python_is_refused(program: str) -> None:
    with pytest.raises(SideError, match="the interpreter"):
        read_installation(Path(program))


def installation(**versions: str) -> Installation:
    names = {name.replace("_", "-"): value for name, value in versions.items()}
    return Installation(Path("python"), "3.11.7", "cpython", (), names)


def test_what_was_asked_for_comes_first_and_installers_do_not_count() -> None:
    old = installation(transformers="4.45.2", tokenizers="0.20.3", numpy="2.0", accelerate="1.0", pip="23.0")
    new = replace(
        old, versions={"transformers": "5.0", "tokenizers": "0.22", "numpy": "2.0", "hf-xet": "1.1", "pip": "25.0"}
    )
    assert version_changes(old, new, ["Transformers"]) == (
        VersionChange("transformers", "4.45.2", "5.0", asked=True),
        VersionChange("tokenizers", "0.20.3", "0.22"),
        VersionChange("accelerate", "1.0", ""),
        VersionChange("hf-xet", "", "1.1"),
    )


def test_a_new_torch_stands_before_the_libraries_that_it_brings() -> None:
    changes = version_changes(installation(torch="2.13.0"), installation(torch="2.15.0", cuda_toolkit="13.2"))
    assert [change.name for change in changes] == ["torch", "cuda-toolkit"]


def test_what_was_asked_for_is_shown_even_where_its_version_is_the_same() -> None:
    same = installation(tinylib="1.0")
    assert version_changes(same, same, ["tinylib"]) == (VersionChange("tinylib", "1.0", "1.0", asked=True),)
    assert version_changes(same, same) == ()
