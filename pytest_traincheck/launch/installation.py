"""What is installed for an interpreter, as the interpreter itself says it, and how two of them differ."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from pytest_traincheck.launch.output import show_tail
from pytest_traincheck.launch.sides import SideError
from pytest_traincheck.scratch import scratch_directory

_TIMEOUT = 120.0
_MARK = "traincheck-installation:"

# These run in whatever Python the user has, so they need nothing but the standard library of the oldest one.
_PREPARE = r"""
import importlib.metadata as metadata, json, os, platform, site, sys
sys.path[:] = [entry for entry in sys.path if entry]
"""

_INSTALLED = r"""
directories = list(site.getsitepackages())
if site.ENABLE_USER_SITE:
    directories.append(site.getusersitepackages())
versions = {}
for item in metadata.distributions():
    versions.setdefault(item.metadata["Name"] or "", item.version or "")
versions.pop("", None)
answer = {
    "version": platform.python_version(), "implementation": sys.implementation.name,
    "platform": sys.platform + "-" + platform.machine(), "prefix": sys.prefix, "origin": sys.base_prefix,
    "directories": [entry for entry in directories if os.path.isdir(entry)], "versions": versions}
"""

_MODULES = r"""
found = set()
for name in sys.argv[1:]:
    try:
        item = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        continue
    found.update((item.read_text("top_level.txt") or "").split())
    for file in item.files or ():
        top, _, rest = str(file).partition("/")
        if rest.endswith((".py", ".so", ".pyd")) and top.isidentifier() and top != "__pycache__":
            found.add(top)
        elif not rest and top.endswith(".py"):
            found.add(top[:-3])
answer = {"modules": sorted(found)}
"""


_SCRIPTS = r"""
found = {}
for item in metadata.distributions():
    for entry in item.entry_points:
        if entry.group == "console_scripts":
            found.setdefault(entry.name, entry.value)
answer = {"scripts": found}
"""


@dataclass(frozen=True)
class Installation:
    """The environment of one interpreter. Names of distributions are canonical: `huggingface-hub`."""

    python: Path
    version: str
    identity: str
    """Implementation, version, platform and place: what must be the same for an environment to be used again."""
    directories: tuple[Path, ...]
    versions: Mapping[str, str]


@dataclass(frozen=True)
class VersionChange:
    """A distribution that differs between two environments; empty where it is not installed."""

    name: str
    old: str
    new: str
    asked: bool = False


def read_installation(python: Path) -> Installation:
    """Ask an interpreter what is installed for it. Raises `SideError` when it cannot say."""
    content = _ask(python, _INSTALLED)
    try:
        facts = [content[key] for key in ("implementation", "version", "platform", "prefix", "origin")]
        return Installation(
            python=python,
            version=str(content["version"]),
            identity=" ".join(map(str, facts)),
            directories=tuple(Path(entry) for entry in content["directories"]),
            versions={canonicalize_name(name): str(version) for name, version in content["versions"].items()},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise SideError(f"the interpreter `{python}` gives no answer that can be read: {error!r}. {_CURE}") from error


def top_level_modules(installation: Installation, names: Iterable[str]) -> frozenset[str]:
    """The modules and packages that some distributions of an environment are imported by. Raises `SideError`."""
    known = [name for name in names if name in installation.versions]
    answer = _ask(installation.python, _MODULES, known).get("modules", []) if known else []
    return frozenset(map(str, answer))


def console_scripts(python: Path) -> Mapping[str, str]:
    """The commands that the distributions of an environment bring, as `module:function`. Raises `SideError`."""
    found = _ask(python, _SCRIPTS).get("scripts", {})
    return {str(name): str(target) for name, target in found.items()} if isinstance(found, dict) else {}


_CURE = "Give the path of a working Python, for example .venv/bin/python."


def _ask(python: Path, question: str, words: Sequence[str] = ()) -> Mapping[str, Any]:
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    code = f"{_PREPARE}{question}print({_MARK!r} + json.dumps(answer))"
    try:
        # Elsewhere, since a file of the user's called like a standard module would answer in its place.
        with scratch_directory("nowhere") as nowhere:
            done = subprocess.run(
                [str(python), "-c", code, *words],
                cwd=nowhere,
                env=env,
                capture_output=True,
                timeout=_TIMEOUT,
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SideError(
            f"the interpreter `{python}` cannot be asked what is installed for it: {error}. {_CURE}"
        ) from error
    try:
        answer = json.loads(done.stdout.decode("utf-8", "replace").rpartition(_MARK)[2])
    except ValueError as error:
        said = show_tail(done.stderr.decode("utf-8", "replace"), 1) or f"exit status {done.returncode}"
        raise SideError(f"the interpreter `{python}` does not say what is installed for it: {said}. {_CURE}") from error
    return answer if isinstance(answer, dict) else {}


def version_changes(old: Installation, new: Installation, asked: Iterable[str] = ()) -> tuple[VersionChange, ...]:
    """Every distribution whose version differs, those `asked` for first and in any case.

    Then come those that both have, then what came or went with them, each by name. What serves installing alone changes
    no training and is left out.
    """
    first: list[str] = [canonicalize_name(name) for name in asked]
    names = sorted(({*old.versions, *new.versions} - _INSTALLERS) | set(first))

    def place(name: str) -> int:
        """A new torch brings a dozen libraries, and its own version is what a person looks for."""
        if name in first:
            return first.index(name)
        return len(first) + (name not in old.versions or name not in new.versions)

    ordered = sorted(names, key=place)
    changes = (
        VersionChange(name, old.versions.get(name, ""), new.versions.get(name, ""), name in first) for name in ordered
    )
    return tuple(change for change in changes if change.asked or change.old != change.new)


_INSTALLERS = frozenset({"pip", "setuptools", "wheel", "uv"})
