"""Packs on disk: those that ship, and those of a company's own."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from pytest_traincheck.atomic import replace_file
from pytest_traincheck.disk import write_remedy
from pytest_traincheck.packs.decode import decode
from pytest_traincheck.packs.encode import encode
from pytest_traincheck.packs.errors import PackError
from pytest_traincheck.packs.model import Pack

SUFFIX = ".jsonl"

SHIPPED = Path(__file__).resolve().parent
"""Where the packs lie that come with the package."""

SIZE_LIMIT = 16 * 1024 * 1024
"""Bytes of the largest file that is read."""

_OWN_LINE = re.compile(rb'^\{"format": \d+, "pack": "')


def shipped() -> tuple[str, ...]:
    """Names of the packs that come with the package."""
    return tuple(sorted(path.name.removesuffix(SUFFIX) for path in SHIPPED.glob(f"*{SUFFIX}")))


def shipped_pack(name: str) -> Pack:
    """A pack that comes with the package. Raises `PackError` where there is none of this name."""
    if name not in shipped():
        known = ", ".join(shipped()) or "none"
        raise PackError(
            f"There is no pack {name!r}: no such file, and those that come with pytest-traincheck are {known}. "
            "Give one of these names, or the path of a file."
        )
    return _read_shipped(name)


@cache
def _read_shipped(name: str) -> Pack:
    return read(SHIPPED / f"{name}{SUFFIX}")


def read(path: Path) -> Pack:
    """Read a pack, as untrusted data. Raises `PackError`, which names the line where there is one."""
    try:
        # A pipe or a device would block or never end, so look before opening.
        if not path.is_file():
            what = "is not a file" if path.exists() else "does not exist"
            raise PackError(f"The pack {path} {what}. Give the path of a file that `traincheck infer` wrote.")
        with path.open("rb") as stream:
            data = stream.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise PackError(f"Cannot read the pack {path}: {error.strerror or error}. Check its permissions.") from error
    if len(data) > SIZE_LIMIT:
        raise PackError(f"{path} is larger than {SIZE_LIMIT} bytes, which no pack is. Restore it.")
    return decode(data, str(path))


def write(path: Path, pack: Pack) -> None:
    """Write a pack in one step; the same content gives the same bytes. Raises `PackError`."""
    data = encode(pack)
    if len(data) > SIZE_LIMIT:
        raise PackError(
            f"The pack {pack.name!r} has {len(data)} bytes and the limit is {SIZE_LIMIT}; it was not written to "
            f"{path}. Learn it from fewer programs."
        )
    require_replaceable(path)
    try:
        if not (path.is_file() and path.read_bytes() == data):
            replace_file(path, data)
    except OSError as error:
        remedy = write_remedy(error, path, "Give a path that can be written.")
        raise PackError(f"Cannot write the pack {path}: {error.strerror or error}. {remedy}") from error


def require_replaceable(path: Path) -> None:
    """Raise `PackError` where `path` is a file that was never a pack."""
    if not path.is_file():
        return
    try:
        with path.open("rb") as stream:
            beginning = stream.read(256)
    except OSError as error:
        raise PackError(f"Cannot read {path}: {error.strerror or error}. Give another name.") from error
    if beginning.strip() and not _OWN_LINE.match(beginning):
        raise PackError(
            f"{path} is no pack and would be overwritten, so nothing was written. Move it away, or give another name."
        )
