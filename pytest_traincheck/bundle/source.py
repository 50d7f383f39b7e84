"""Where the files of a bundle come from: a directory, or a zip archive such as a CI service hands out."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pytest_traincheck.bundle.errors import BundleError
from pytest_traincheck.bundle.manifest import MANIFEST, damaged

ARCHIVE_LIMIT = 2**30
"""Bytes of the largest archive that is looked into."""

ENTRIES_LIMIT = 100_000
"""Files of the largest archive that is looked into: it may hold more than the bundle."""


class Source(Protocol):
    """The files of one bundle."""

    def read(self, name: str, limit: int) -> bytes:
        """At most `limit` bytes of a file. Raises `BundleError` when there is more, or no such file."""


def is_bundle(path: Path) -> bool:
    """Whether a path can be that of a bundle at all: a directory or a zip archive."""
    return path.is_dir() or zipfile.is_zipfile(path)


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """The files of the bundle at `path`. Raises `BundleError` when there is none."""
    if path.is_dir():
        if not (path / MANIFEST).is_file():
            raise BundleError(
                f"There is no bundle in {path}: it has no {MANIFEST}. "
                "Give the directory `bundle` that `--artifacts DIR` left in DIR/PIPELINE, or a zip archive of it."
            )
        yield _Directory(path)
        return
    if not path.is_file():
        raise BundleError(f"There is no bundle at {path}. Give the directory, or a zip archive of it.")
    if path.stat().st_size > ARCHIVE_LIMIT:
        raise BundleError(
            f"The archive {path} is larger than {ARCHIVE_LIMIT} bytes. Unpack it and give the directory of the bundle."
        )
    try:
        with zipfile.ZipFile(path) as archive:
            yield _Archive(archive, _prefix(archive, path), str(path))
    except zipfile.BadZipFile as error:
        raise BundleError(
            f"{path} is neither a directory nor a zip archive ({error}). Give the directory of a bundle, or an "
            "archive of it."
        ) from error


def _prefix(archive: zipfile.ZipFile, path: Path) -> str:
    """Where in an archive the bundle lies; the archive may hold other artifacts of the same job."""
    entries = archive.infolist()
    if len(entries) > ENTRIES_LIMIT:
        raise BundleError(f"The archive {path} holds too many files. Unpack it and give the directory of the bundle.")
    found = [entry.filename for entry in entries if entry.filename.rpartition("/")[2] == MANIFEST]
    if not found:
        raise BundleError(
            f"There is no bundle in the archive {path}: it has no {MANIFEST}. "
            "Give an archive of the directory `bundle`."
        )
    if len(found) > 1:
        raise BundleError(
            f"The archive {path} holds {len(found)} bundles: {', '.join(sorted(found)[:5])}. "
            "Unpack it and give the directory of one."
        )
    return found[0].removesuffix(MANIFEST)


@dataclass(frozen=True)
class _Directory:
    path: Path

    def read(self, name: str, limit: int) -> bytes:
        file = self.path / name
        # A link could lead anywhere, and a pipe or a device would block or never end.
        if file.resolve() != self.path.resolve() / name or not file.is_file():
            raise damaged(str(self.path), f"{name} is not a file in it")
        with file.open("rb") as stream:
            return _limited(stream.read(limit + 1), limit, str(self.path), name)


@dataclass(frozen=True)
class _Archive:
    archive: zipfile.ZipFile
    prefix: str
    place: str

    def read(self, name: str, limit: int) -> bytes:
        try:
            entry = self.archive.getinfo(self.prefix + name)
            with self.archive.open(entry) as stream:
                return _limited(stream.read(limit + 1), limit, self.place, name)
        except KeyError as error:
            raise damaged(self.place, f"{name} is not a file in it") from error
        except (zlib.error, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, OSError) as error:
            # RuntimeError: the entry is encrypted.
            raise damaged(self.place, f"{name} cannot be unpacked ({error})") from error


def _limited(data: bytes, limit: int, place: str, name: str) -> bytes:
    if len(data) > limit:
        raise damaged(place, f"{name} is larger than {limit} bytes")
    return data
