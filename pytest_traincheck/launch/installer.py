"""Makes virtual environments and installs into them. pip decides what is needed; uv, where there is one, fetches it."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from pytest_traincheck.launch.environment import RUN_ID
from pytest_traincheck.launch.output import read_tail, show_tail
from pytest_traincheck.launch.process import run_tree
from pytest_traincheck.scratch import scratch_directory

LINES_SHOWN = 8
_TIMEOUT = 3600.0
_PIP = ("--no-input", "--disable-pip-version-check")
# What would send an installation elsewhere than into the environment that was made for it.
_MISLEADING = (
    "PIP_PREFIX",
    "PIP_PYTHON",
    "PIP_ROOT",
    "PIP_TARGET",
    "PIP_USER",
    "PYTHONHOME",
    "PYTHONPATH",
    "VIRTUAL_ENV",
)
_CONFLICT = re.compile(r"^((\S+) \S+ (?:has requirement|requires) .+, but you have (\S+) .+)$", re.MULTILINE)
_NOISE = re.compile(r"^(?:WARNING|DEPRECATION|\[notice\]|Looking in )")

Report = Callable[[float], None]


@dataclass(frozen=True)
class Conflict:
    """Two distributions that do not go together, in pip's words."""

    names: tuple[str, str]
    text: str


class InstallFailed(Exception):
    """A step that went wrong: `step` names the program, `output` are its last lines."""

    def __init__(self, step: str, output: str) -> None:
        super().__init__(f"{step}: {output}")
        self.step = step
        self.output = output


def make_virtual_environment(python: Path, directory: Path, report: Report, *, pip: bool) -> None:
    """A virtual environment, with a pip of its own or without. Raises `InstallFailed`."""
    options = [] if pip else ["--without-pip"]
    status, output = _run([str(python), "-m", "venv", *options, str(directory)], directory.parent, report)
    if status:
        raise InstallFailed("python -m venv", output)


def install(python: Path, requirements: Sequence[str], report: Report) -> tuple[Conflict, ...]:
    """Install into the environment of `python`; returns the conflicts that pip sees afterwards.

    Raises `InstallFailed`.
    """
    if not _install_with_uv(python, requirements, report):
        status, output = _run([str(python), "-m", "pip", "install", *_PIP, *requirements], python.parent, report)
        if status:
            raise InstallFailed("pip", output)
    _, said = _run([str(python), "-m", "pip", "check", *_PIP], python.parent, report, lines=1000)
    return tuple(
        Conflict((canonicalize_name(first), canonicalize_name(second)), text)
        for text, first, second in _CONFLICT.findall(said)
    )


def _install_with_uv(python: Path, requirements: Sequence[str], report: Report) -> bool:
    """Whether uv did it. uv does not see what the layer borrows from its base, so it gets the list that pip makes.

    Where it cannot fetch that (pip alone knows the index, an archive that must be built), pip does it all.
    """
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if uv is None:
        return False
    with scratch_directory("plan") as scratch:
        plan = scratch / "plan.json"
        command = [str(python), "-m", "pip", "install", *_PIP, "--dry-run", "--report", str(plan), *requirements]
        status, output = _run(command, python.parent, report)
        if status:
            if "no such option" in output:
                return False
            raise InstallFailed("pip", output)
        wanted = _planned(plan)
        if wanted is None:
            return False
        if not wanted:
            return True
        listing = scratch / "requirements.txt"
        listing.write_text("\n".join(wanted) + "\n", encoding="utf-8")
        fetch = [uv, "pip", "install", "--quiet", "--python", str(python), "--no-deps", "--requirement", str(listing)]
        status, _ = _run(fetch, python.parent, report)
        return status == 0


def _planned(plan: Path) -> list[str] | None:
    """The distributions of pip's installation report by their address, or None where one has none that can be used."""
    try:
        items = json.loads(plan.read_text(encoding="utf-8"))["install"]
        found = [(str(item["metadata"]["name"]), str(item["download_info"]["url"])) for item in items]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # pip hides passwords in what it reports.
    if any("****" in url or any(character.isspace() for character in url) for _, url in found):
        return None
    return [f"{name} @ {url}" for name, url in found]


def _run(command: Sequence[str], cwd: Path, report: Report, lines: int = LINES_SHOWN) -> tuple[int, str]:
    """Exit status and last lines of both outputs, without warnings."""
    env = {name: value for name, value in os.environ.items() if name not in _MISLEADING}
    env |= {RUN_ID: uuid.uuid4().hex, "PYTHONNOUSERSITE": "1", "PIP_NO_COLOR": "1", "NO_COLOR": "1"}
    with tempfile.TemporaryFile() as output:
        ended = run_tree(command, cwd=cwd, env=env, stdout=output, stderr=output, timeout=_TIMEOUT, progress=report)
        text = read_tail(output)
    kept = [line for line in text.splitlines() if line.strip() and not _NOISE.match(line)]
    shown = show_tail("\n".join(kept), lines)
    if ended.timed_out:
        return 1, f"{shown}\nstopped after {_TIMEOUT:g} s".lstrip()
    return ended.exit_code or 0, shown
