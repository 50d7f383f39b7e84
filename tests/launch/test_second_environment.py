"""Environments with other versions: made over an existing one, whole or not at all, never in its place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from pytest_traincheck.launch import second_environment as module
from pytest_traincheck.launch.console_scripts import write_console_scripts
from pytest_traincheck.launch.installation import Installation, read_installation
from pytest_traincheck.launch.progress import QuietProgress
from pytest_traincheck.launch.second_environment import MARK, Requirements, SecondEnvironment, second_environment
from pytest_traincheck.launch.sides import SideError


@pytest.fixture(scope="module")
def base() -> Installation:
    return read_installation(Path(sys.executable))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and nothing to install but what lies in `wheels`."""
    monkeypatch.setenv("TRAINCHECK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    return tmp_path / "cache" / "environments"


def wheel(directory: Path, name: str, version: str, *, requires: str = "") -> None:
    """A wheel as small as they come."""
    directory.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requires}"] if requires else []
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        archive.writestr(f"{info}/METADATA", "\n".join(lines) + "\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


def make(base: Installation, *texts: str) -> SecondEnvironment:
    return second_environment(base, Requirements.parse(texts), QuietProgress())


@pytest.mark.usefixtures("cache")
def test_a_layer_has_what_was_asked_for_and_all_that_the_base_has(base: Installation, tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "tinylib", "2.0", requires="tinydep")
    wheel(tmp_path / "wheels", "tinydep", "1.5")
    before = dict(read_installation(base.python).versions)
    made = make(base, "tinylib==2.0")
    assert dict(made.installation.versions) == {**before, "tinylib": "2.0", "tinydep": "1.5"}
    assert dict(read_installation(base.python).versions) == before
    mark = made.python.parent.parent / MARK
    first = mark.stat().st_ino
    assert make(base, "tinylib==2.0").python == made.python
    assert mark.stat().st_ino == first, "it was made again"
    # A command of the base runs with the versions of the layer.
    told = subprocess.run([made.python.parent / "pytest", "--version"], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("pytest ")
    assert str(made.python) in (made.python.parent / "pytest").read_text()


def test_what_cannot_be_installed_leaves_nothing(base: Installation, cache: Path, tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    with pytest.raises(SideError, match="cannot be installed over") as caught:
        make(base, "tinylib==9.9")
    assert "No matching distribution found for tinylib==9.9" in str(caught.value)
    assert [path for path in cache.iterdir() if not path.name.startswith(".")] == []


def test_a_half_made_layer_is_made_again(base: Installation, cache: Path, tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "tinylib", "2.0")
    made = make(base, "tinylib==2.0")
    directory = made.python.parent.parent
    (directory / MARK).write_text("{")
    (directory / "left-over").touch()
    again = make(base, "tinylib==2.0")
    assert again.installation.versions["tinylib"] == "2.0"
    assert not (directory / "left-over").exists()

    unused = cache / "old"
    unused.mkdir()
    (unused / MARK).write_text(json.dumps({"notes": []}))
    long_ago = time.time() - (module.KEPT_DAYS + 1) * 86_400
    os.utime(unused / MARK, (long_ago, long_ago))
    module._sweep(cache, keep=directory)
    assert not unused.exists()
    assert directory.exists()


@pytest.mark.parametrize("text", ["-r requirements.txt", "--index-url=http://x", "a b", "", "./dist/lib.whl"])
def test_only_requirements_reach_pip(text: str) -> None:
    with pytest.raises(SideError, match="is no requirement"):
        Requirements.parse([text])


def test_one_library_is_asked_for_once() -> None:
    with pytest.raises(SideError, match="both ask for tiny-lib"):
        Requirements.parse(["tiny_lib==1", "Tiny.Lib==2"])
    assert Requirements.parse(["b==1", "a>=2,<3"]).names == ("b", "a")


def test_console_scripts_are_written_for_names_that_are_safe(tmp_path: Path) -> None:
    python = tmp_path / "python"
    (tmp_path / "there").write_text("own")
    targets = {
        "tool": "package.module:Class.main",
        "there": "package:main",
        "../out": "package:main",
        "evil": "package:main; import os",
        "none": "package",
    }
    assert write_console_scripts(python, targets) == ("tool",)
    assert "from package.module import Class\nsys.exit(Class.main())\n" in (tmp_path / "tool").read_text()
    assert (tmp_path / "there").read_text() == "own"
    assert write_console_scripts(tmp_path / 'a"b' / "python", targets) == ()
