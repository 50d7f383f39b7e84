"""Workflow commands of GitHub Actions: a line each, escaped as its documentation says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_MESSAGE_LIMIT = 4000


@dataclass(frozen=True)
class Place:
    """Where a pipeline ran: the top of the repository, and the directory that its source lines are relative to."""

    top: Path
    cwd: Path


def position(source: str, place: Place | None) -> dict[str, str]:
    """File and line from the top of the repository; nothing for a file outside of it, for code that has
    no file (`<string>`), or where no place is known.
    """
    file, _, line = source.rpartition(":")
    if place is None or not file or not line.isdecimal() or file.startswith("<"):
        return {}
    path = (place.cwd / file).resolve()
    top = place.top.resolve()
    return {"file": str(PurePosixPath(path.relative_to(top))), "line": line} if path.is_relative_to(top) else {}


def command(name: str, properties: Mapping[str, str], message: str) -> str:
    """A workflow command on one line. In properties a colon and a comma end something, so they are escaped as well."""
    escaped = ",".join(
        f"{key}={_escaped(value).replace(':', '%3A').replace(',', '%2C')}" for key, value in properties.items()
    )
    return f"::{name} {escaped}::{_escaped(message[:_MESSAGE_LIMIT])}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
