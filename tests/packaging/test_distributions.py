"""What is uploaded: the source distribution is this tree, the wheel the package, and both tell the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path, PurePosixPath

import pytest
from building import REPOSITORY, ROOT, Made, hatchling

pytestmark = pytest.mark.slow


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def _said(made: Made) -> tuple[Message, Message]:
    """The metadata of the source distribution and of the wheel."""
    with tarfile.open(made.sdist) as archive:
        (name,) = (name for name in archive.getnames() if name.count("/") == 1 and name.endswith("/PKG-INFO"))
        member = archive.extractfile(name)
        assert member is not None
        of_sdist = message_from_bytes(member.read())
    with zipfile.ZipFile(made.wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return of_sdist, message_from_bytes(archive.read(name))


def test_both_can_be_uploaded(made: Made) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", str(made.sdist), str(made.wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_source_distribution_is_what_git_tracks(made: Made) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this tree is no clone")
    tracked = {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}
    with tarfile.open(made.sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames() if not name.endswith("/")}
    assert tracked - held == set()
    assert "PKG-INFO" in held
    built = [name for name in held if name.endswith((".so", ".pyc", ".whl")) or "/.venv" in name]
    assert built == []


def test_the_wheel_is_the_package_and_nothing_else(made: Made) -> None:
    names = _names(made.wheel)
    assert {PurePosixPath(name).parts[0].partition("-")[0] for name in names} == {"pytest_traincheck"}
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "pytest_traincheck").rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".so")
    }
    assert package - names == set()
    extra = {name for name in names - package if ".dist-info/" not in name}
    assert extra - {"pytest_traincheck/probe/core/_core.abi3.so"} == {"pytest_traincheck/_version.py"}


def test_one_wheel_serves_every_python_of_a_platform(made: Made) -> None:
    compiled = "pytest_traincheck/probe/core/_core.abi3.so" in _names(made.wheel)
    assert ("-cp310-abi3-" in made.wheel.name) == compiled
    assert made.wheel.name.endswith("-py3-none-any.whl") != compiled


def test_a_wheel_without_the_core_is_for_every_platform(made: Made, tmp_path: Path) -> None:
    wheel = hatchling(made.tree, "wheel", tmp_path, TRAINCHECK_CORE="python")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in _names(wheel) if name.endswith(".so")]


def test_both_say_the_same_of_themselves(made: Made) -> None:
    of_sdist, of_wheel = _said(made)
    assert of_sdist.get_payload() == of_wheel.get_payload()
    assert of_sdist.items() == of_wheel.items()


def test_the_page_leads_to_the_repository(made: Made) -> None:
    page = str(_said(made)[1].get_payload())
    assert re.search(rf"!\[[^\]]+\]\({REPOSITORY}/raw/\w+/docs/idea\.svg\)", page)
    targets = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL))
    assert [target for target in targets if not target.startswith("https://")] == []
    links = _said(made)[1].get_all("Project-URL", [])
    assert f"Source, {REPOSITORY}" in links


def test_the_package_of_a_wheel_knows_its_version(made: Made, tmp_path: Path) -> None:
    """Without metadata beside it, as in an interpreter that only trains."""
    with zipfile.ZipFile(made.wheel) as archive:
        archive.extractall(tmp_path, [name for name in archive.namelist() if ".dist-info/" not in name])
    code = "import pytest_traincheck; print(pytest_traincheck.__version__)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == _said(made)[1]["Version"]
    assert made.wheel.name.split("-")[1] == _said(made)[1]["Version"]
