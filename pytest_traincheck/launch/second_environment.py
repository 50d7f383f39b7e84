"""A second Python environment: a thin layer of other versions over the environment of an existing interpreter.

The layer is a virtual environment of its own whose import path goes on into the base's directories, so only what
differs is installed, and the base is not touched. Layers are kept below the user's cache directory.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from pytest_traincheck.launch.cache import VARIABLE, cache_directory
from pytest_traincheck.launch.console_scripts import write_console_scripts
from pytest_traincheck.launch.installation import (
    Installation,
    console_scripts,
    read_installation,
    version_changes,
)
from pytest_traincheck.launch.installer import Conflict, InstallFailed, install, make_virtual_environment
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.sides import SideError

MARK = "traincheck-environment.json"
"""Written last into a layer: without it the layer is half made, and is made again."""

KEPT_DAYS = 60
"""Layers that were not used for so long are removed when another one is made."""

_FORMAT = 1
_PATH_FILE = "zzz-traincheck-base.pth"


@dataclass(frozen=True)
class Requirements:
    """What the second environment must have, each as pip takes it: `transformers==4.51.3`."""

    texts: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Requirements:
        """Raises `SideError` for what is no requirement, so that nothing else ever reaches pip's command line."""
        found: dict[str, str] = {}
        for text in texts:
            try:
                requirement = Requirement(text)
            except InvalidRequirement as error:
                raise SideError(
                    f'`{text}` is no requirement: {str(error).splitlines()[0]}. Write it like "transformers==4.51.3".'
                ) from error
            name = canonicalize_name(requirement.name)
            if name in found:
                raise SideError(f"`{found[name]}` and `{text}` both ask for {name}. Give each library once.")
            found[name] = str(requirement)
        return cls(tuple(found.values()), tuple(found))


@dataclass(frozen=True)
class SecondEnvironment:
    """An environment that can be used: its interpreter, what is in it, and what pip had to say about it."""

    python: Path
    installation: Installation
    notes: tuple[str, ...] = ()


def second_environment(base: Installation, requirements: Requirements, progress: Progress) -> SecondEnvironment:
    """The layer of `requirements` over `base`, made now or earlier.

    Raises `SideError` when it cannot be made; then nothing of it is left.
    """
    root = cache_directory("environments")
    directory = root / _name(base, requirements)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(_lock(directory)):
            notes = _notes(directory)
            if notes is None:
                notes = _make(directory, base, requirements, progress)
                _sweep(root, keep=directory)
            os.utime(directory / MARK)
    except OSError as error:
        raise SideError(
            f"no environment can be made in {root}: {error.strerror or error}. "
            f"Make room, or set {VARIABLE} to a directory that can be written."
        ) from error
    python = _python(directory)
    return SecondEnvironment(python, read_installation(python), notes)


def _lock(directory: Path) -> Path:
    return directory.parent / f".{directory.name}.lock"


def _name(base: Installation, requirements: Requirements) -> str:
    """A readable name with a hash of everything that the content depends on."""
    content = [_FORMAT, base.identity, *map(str, base.directories), sorted(base.versions.items())]
    content += [sorted(requirements.texts), [_fingerprint(text) for text in sorted(requirements.texts)]]
    digest = hashlib.blake2b(json.dumps(content).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(requirements.texts)).strip("-.")[:60]
    return f"{readable}-{digest}"


def _fingerprint(text: str) -> list[float]:
    """Size and time of a local file that a requirement names, since it may be built again under its name."""
    url = Requirement(text).url or ""
    if not url.startswith("file://"):
        return []
    try:
        status = Path(url.removeprefix("file://").partition("#")[0]).stat()
    except OSError:
        return []
    return [status.st_size, status.st_mtime]


def _notes(directory: Path) -> tuple[str, ...] | None:
    """What was noted when a layer was made; None where there is no whole one."""
    try:
        content = json.loads((directory / MARK).read_text(encoding="utf-8"))
        notes = tuple(str(note) for note in content["notes"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # The Python that it was made from may have been removed since.
    return notes if _python(directory).exists() else None


def _make(directory: Path, base: Installation, requirements: Requirements, progress: Progress) -> tuple[str, ...]:
    shutil.rmtree(directory, ignore_errors=True)
    progress.start(f"installing {' '.join(requirements.texts)}")
    try:
        # A pip that the base has is seen from the layer as well, and making another takes longer than all the rest.
        make_virtual_environment(base.python, directory, progress.update, pip="pip" not in base.versions)
        _see(directory, base)
        conflicts = install(_python(directory), requirements.texts, progress.update)
        write_console_scripts(_python(directory), console_scripts(_python(directory)))
        notes = _about_changes(conflicts, base, read_installation(_python(directory)))
        content: Mapping[str, object] = {
            "format": _FORMAT,
            "requirements": list(requirements.texts),
            "base": str(base.python),
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "notes": list(notes),
        }
        (directory / MARK).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    except BaseException as error:
        shutil.rmtree(directory, ignore_errors=True)
        if isinstance(error, InstallFailed):
            raise SideError(
                f"{' '.join(requirements.texts)} cannot be installed over {base.python}, so there is no environment "
                "to compare with. Check the names and versions, or give the interpreter of another environment by "
                f"--python. {error.step} says:\n\n{error.output}"
            ) from error
        raise
    finally:
        progress.finish("")
    return notes


def _about_changes(conflicts: Sequence[Conflict], base: Installation, new: Installation) -> tuple[str, ...]:
    """The conflicts that the layer brought; those that the base has already are none of its business."""
    changed = {change.name for change in version_changes(base, new)}
    return tuple(
        f"in the second environment {conflict.text}" for conflict in conflicts if changed & set(conflict.names)
    )


def _see(directory: Path, base: Installation) -> None:
    """Let the layer import what the base has, after its own.

    `addsitedir` and not a plain path, since editable installs of the base are found by path files in its directories.
    """
    lines = [f"import site; site.addsitedir({str(entry)!r})" for entry in base.directories]
    for packages in directory.glob("lib/python*/site-packages"):
        (packages / _PATH_FILE).write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")


def _python(directory: Path) -> Path:
    return directory / "bin" / "python"


def _sweep(root: Path, keep: Path) -> None:
    """Remove layers that nobody has used for long; one that is being made or looked up is left alone."""
    oldest = time.time() - KEPT_DAYS * 86_400
    for mark in root.glob(f"*/{MARK}"):
        directory = mark.parent
        if directory == keep:
            continue
        try:
            with FileLock(_lock(directory), timeout=0):
                if mark.stat().st_mtime < oldest:
                    shutil.rmtree(directory, ignore_errors=True)
        except (Timeout, OSError):
            continue
