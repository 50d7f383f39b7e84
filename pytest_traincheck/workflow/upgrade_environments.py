"""The two environments of an upgrade: the configured interpreter's, and one with other versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_traincheck.config import Config
from pytest_traincheck.launch.command import CommandError, resolve_interpreter
from pytest_traincheck.launch.installation import (
    Installation,
    VersionChange,
    read_installation,
    top_level_modules,
    version_changes,
)
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.second_environment import Requirements, second_environment
from pytest_traincheck.launch.sides import SideError


@dataclass(frozen=True)
class Environments:
    """The two environments, what differs between them, and what is to be known about the new one.

    `options` are those of `traincheck upgrade` that name it: option and value in turn.
    """

    old: Installation
    new: Installation
    changes: tuple[VersionChange, ...]
    notes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def modules(self) -> frozenset[str]:
        """Top-level modules of what was upgraded: of the libraries asked for, or of all that differ."""
        names = {change.name for change in self.changes if change.asked} or {change.name for change in self.changes}
        return top_level_modules(self.new, names) | top_level_modules(self.old, names)


def find_environments(config: Config, wanted: Sequence[str], python: str | None, progress: Progress) -> Environments:
    """The configured interpreter's environment, and one with `wanted` over it or, without, that of `python`.

    Raises `SideError` when one cannot be had, and when they do not differ: then there is nothing to compare.
    """
    requirements = Requirements.parse(wanted)
    old = read_installation(_interpreter(config.golden_python or config.python))
    if python is None:
        made = second_environment(old, requirements, progress)
        new, notes = made.installation, made.notes
    else:
        new, notes = read_installation(_interpreter(python)), ()
    changes = version_changes(old, new, requirements.names)
    if old.version == new.version and not any(change.old != change.new or _by_address(wanted) for change in changes):
        what = f"{' '.join(requirements.texts)} is what {old.python} has" if wanted else f"{new.python} has the same"
        raise SideError(f"the environments do not differ: {what}. Ask for another version.")
    if old.version != new.version:
        changes = (VersionChange("python", old.version, new.version), *changes)
    options = tuple(word for text in wanted for word in ("--with", text))
    return Environments(old, new, changes, notes, options if python is None else ("--python", python))


def _by_address(wanted: Sequence[str]) -> bool:
    """A file or an address may hold another build of the same version."""
    return any("@" in text for text in wanted)


def _interpreter(python: str | None) -> Path:
    try:
        return resolve_interpreter(python)
    except CommandError as error:
        raise SideError(f"{error}: {error.remedy}.") from error
