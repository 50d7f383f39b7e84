"""What changed, sorted by whether it can be behind an incident: what the candidate did not read or run is not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from pytest_traincheck.check.blocks import Block, ChangedFile
from pytest_traincheck.check.ran import Ran, words_of
from pytest_traincheck.check.unreached import Unreached

_PACKAGING = re.compile(r"(pyproject\.toml|setup\.(py|cfg)|tox\.ini|traincheck\.toml|[\w-]*requirements[\w-]*\.txt)$")
"""Files for tools that make environments and start programs."""


_RELEASE = re.compile(r"""(_*version_*\s*[=:]\s*)?["']?v?\d+(\.\w+)+["']?,?$""", re.IGNORECASE)
"""A line that gives the number of a release and nothing else."""


@dataclass(frozen=True)
class Place:
    """One changed block of one file."""

    file: ChangedFile
    block: Block


@dataclass(frozen=True)
class Known:
    """What is known of the candidate beside its changes, with paths as incidents have them.

    `ran` is None where nobody knows what ran. `sources` are texts of its own files that were imported. `renamed` has
    the golden paths of files by those that they have now.
    """

    ran: Ran | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def renamed_modules(self) -> list[tuple[str, str]]:
        """Golden and candidate names of modules, from the first folder on that is not the same."""
        return [
            _from_difference(PurePosixPath(old).with_suffix("").parts, PurePosixPath(new).with_suffix("").parts)
            for new, old in sorted(self.renamed.items())
            if new.endswith(".py")
        ]


@dataclass(frozen=True)
class Standing:
    """Changed blocks. `likely` are those that nothing speaks against, `unlikely` those of files that nothing shows to
    be read, and numbers of releases, `unreached` those of code that did not run.
    """

    likely: tuple[Place, ...]
    unlikely: tuple[Place, ...] = ()
    unreached: tuple[Place, ...] = ()

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return len(self.likely) + len(self.unlikely) + len(self.unreached)

    @property
    def best(self) -> tuple[Place, ...]:
        """The first of these that there are: something that changed does it, so where nothing else changed, that."""
        return self.likely or self.unlikely or self.unreached


def _from_difference(old: Sequence[str], new: Sequence[str]) -> tuple[str, str]:
    same = 0
    while same < min(len(old), len(new)) - 1 and old[same] == new[same]:
        same += 1
    return ".".join(old[same:]), ".".join(new[same:])


def sort_out(files: Sequence[ChangedFile], known: Known) -> Standing:
    """All blocks of some files. Without knowledge of what ran only a file's name speaks against it."""
    ran = known.ran
    unread = {file.path for file in files if _is_unread(file, files, ran, known.sources)}
    places = [Place(file, block) for file in files for block in file.blocks]
    likely = [place for place in places if place.file.path not in unread and not _is_release(place)]
    unlikely = tuple(place for place in places if place not in likely)
    if ran is None or len(likely) < 2:
        return Standing(tuple(likely), unlikely)
    told = Unreached(ran, known.sources)
    idle = [told.never_ran(place.file, place.block) for place in likely]
    return Standing(
        tuple(place for place, is_idle in zip(likely, idle, strict=True) if not is_idle),
        unlikely,
        tuple(place for place, is_idle in zip(likely, idle, strict=True) if is_idle),
    )


def _is_release(place: Place) -> bool:
    """Whether a block replaces the number of a release by another one."""
    old, new = place.file.removed(place.block), place.file.added(place.block)
    # A file of data has numbers in many lines, and one that is more than a number is no release.
    named = place.file.is_python or len(place.file.new) == 1
    return named and len(old) == len(new) == 1 and all(_RELEASE.match(line.strip()) for line in (*old, *new))


def _is_unread(file: ChangedFile, files: Sequence[ChangedFile], ran: Ran | None, sources: Mapping[str, str]) -> bool:
    """Whether nothing shows that a file is read: it is not imported, and nothing names it."""
    path = PurePosixPath(file.path)
    if _PACKAGING.match(path.name):
        return True
    word = path.parent.name if path.stem == "__init__" else path.stem
    if ran is None or file.path in ran.imported or word in ran.words:
        return False
    others = [other for other in files if other is not file]
    if file.is_python:
        # What is gone was imported by code that is gone as well.
        return bool(file.new) or word not in words_of(line for other in others for line in other.old)
    if file.old:
        return False
    # Reports and records of earlier runs lie about in many trees.
    texts = (*sources.values(), *("\n".join(other.new) for other in others))
    settings = (line for other in others if not other.is_python for line in other.new)
    return not any(path.name in text for text in texts) and word not in words_of(settings)
