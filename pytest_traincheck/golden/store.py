"""Golden files on disk: where they lie, how they are read and written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from pytest_traincheck.disk import write_remedy
from pytest_traincheck.golden.decode import decode
from pytest_traincheck.golden.encode import encode
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.locks import LOCK_NAME, writing
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.golden.transaction import PENDING, replace_all, settle

__all__ = [
    "LOCK_NAME",
    "SIZE_LIMIT",
    "SUFFIX",
    "GoldenError",
    "finish_interrupted",
    "golden_path",
    "has_content",
    "is_golden",
    "numbers_of",
    "read",
    "require_replaceable",
    "rules_of",
    "with_numbers",
    "write",
    "write_files",
]

SUFFIX = ".jsonl"

_BEGINNING = 1 << 20
_OWN_LINE = re.compile(
    rb'"format": \d+, "pipeline": "|"relation": "[^"]*", "subject": "|^version https://git-lfs', re.MULTILINE
)

SIZE_LIMIT = 64 * 1024 * 1024
"""Bytes of the largest file that is read."""


def golden_path(store: Path, pipeline: str) -> Path:
    """The file of a pipeline in a store. Raises `GoldenError` for a name that would lead out of the store."""
    if not pipeline or pipeline.startswith(".") or any(mark in pipeline for mark in "/\\\0\n"):
        raise GoldenError(
            f"The pipeline name {pipeline!r} cannot be the name of a file in {store}. "
            "Rename the pipeline: letters, digits, `_`, `-` and `.` inside the name are safe."
        )
    return store / f"{pipeline}{SUFFIX}"


def write(path: Path, golden: Golden) -> None:
    """Write a golden, and its numbers beside it; the same content gives the same bytes, and a file that has them
    already is not touched. Numbers of other platforms stay as they are.

    Several writers to one store wait for each other. Raises `GoldenError` when the store cannot be written; the files
    are as they were before then.
    """
    write_files(path.parent, {**numbers_of(path, golden), **rules_of(path, golden)})


def write_files(store: Path, files: Mapping[Path, bytes], *, locked: bool = False) -> None:
    """Write files of one store, all of them or none; see `write`. `locked`: the caller holds the lock of the store."""
    try:
        if all(has_content(file, data) for file, data in files.items()):
            return
        with nullcontext() if locked else writing(store):
            replace_all(store, {file: data for file, data in files.items() if not has_content(file, data)})
    except TimeoutError as error:
        raise GoldenError(
            f"Cannot write to {store}: {error}. Wait for the other `traincheck refresh`, or end it, and run again."
        ) from error
    except OSError as error:
        remedy = "Make the directory writable, or set `store` in [tool.traincheck] to a directory that is."
        raise GoldenError(
            f"Cannot write {_listed(files)}: {error.strerror or error}. {write_remedy(error, store, remedy)}"
        ) from error


def _listed(files: Mapping[Path, bytes]) -> str:
    return ", ".join(map(str, sorted(files, key=lambda path: (path.suffix != SUFFIX, path.name))))


def with_numbers(golden: Golden, path: Path, platform: str) -> Golden:
    """A golden that was read from `path` with the numbers of a platform; unchanged where there are none for it.

    Numbers that were learned from another command than the golden are none. Raises `GoldenError` for a file that
    cannot be used.
    """
    from pytest_traincheck.golden.numbers import numbers_path, read_numbers

    found = read_numbers(numbers_path(path, platform)) if platform else None
    if found is None or (found.platform, found.spec) != (platform, golden.spec):
        return golden
    return replace(golden, platform=platform, numbers=found.numbers, recording=found.recording)


def rules_of(path: Path, golden: Golden) -> dict[Path, bytes]:
    """The file of the rules, which is `path`, and its content. Raises `GoldenError` for what no file can hold."""
    return _limited({path: encode(golden)}, golden)


def numbers_of(path: Path, golden: Golden) -> dict[Path, bytes]:
    """The file of the numbers beside `path` and its content; nothing where a golden has none. Raises `GoldenError`."""
    if not golden.platform or not (golden.numbers or golden.recording):
        return {}
    # numpy is not needed to write rules alone.
    from pytest_traincheck.golden.numbers import NumbersFile, encode_numbers, numbers_path

    content = NumbersFile(golden.platform, golden.spec, golden.numbers, golden.recording)
    return _limited({numbers_path(path, golden.platform): encode_numbers(content)}, golden)


def _limited(files: dict[Path, bytes], golden: Golden) -> dict[Path, bytes]:
    for file, data in files.items():
        if len(data) > SIZE_LIMIT:
            raise GoldenError(
                f"The golden of {golden.pipeline!r} has {len(data)} bytes and the limit is {SIZE_LIMIT}; it was not "
                f"written to {file}. Shorten the run: fewer steps say the same."
            )
    return files


def finish_interrupted(store: Path) -> None:
    """Put the files to their places that a refresh had decided to write when it was killed; usually there is nothing.

    Raises `GoldenError` when that cannot be done.
    """
    if not (store / PENDING).is_dir():
        return
    try:
        with writing(store):
            settle(store)
    except (OSError, TimeoutError) as error:
        raise GoldenError(
            f"A refresh of {store} was interrupted and its last step could not be finished: {error}. Make the "
            f"directory writable and run again, or restore it from version control and delete {store / PENDING}."
        ) from error


def read(path: Path) -> Golden:
    """Read a golden, as untrusted data. Raises `GoldenError`, which names the line where there is one."""
    finish_interrupted(path.parent)
    return decode(_bytes_of(path), str(path))


def _bytes_of(path: Path) -> bytes:
    try:
        # A pipe or a device would block or never end, so look before opening.
        if not path.is_file():
            if path.exists():
                raise GoldenError(f"{path} is not a file. Give the path of a golden file, as `NAME{SUFFIX}`.")
            raise GoldenError(f"There is no golden at {path}. Run `traincheck refresh` to learn it.")
        with path.open("rb") as stream:
            data = stream.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise GoldenError(
            f"Cannot read the golden {path}: {error.strerror or error}. Check its permissions."
        ) from error
    if len(data) > SIZE_LIMIT:
        raise GoldenError(
            f"{path} is larger than {SIZE_LIMIT} bytes, which no golden is. "
            "Restore it from version control, or learn it again with `traincheck refresh`."
        )
    return data


def is_golden(path: Path) -> bool:
    """Whether a file was a golden once, as a writer may replace it: empty, or with a line that only a golden has.

    One that was damaged or half merged still is; anything else of the user's that lies in its place is not.
    """
    try:
        with path.open("rb") as stream:
            beginning = stream.read(_BEGINNING)
    except OSError:
        return False
    return not beginning.strip() or _OWN_LINE.search(beginning) is not None


def require_replaceable(path: Path) -> None:
    """Raise `GoldenError` where `path` is a file that was never a golden."""
    if path.is_file() and not is_golden(path):
        raise GoldenError(
            f"{path} is no golden and would be overwritten, so nothing was written. Move it away, or give another name."
        )


def has_content(path: Path, data: bytes) -> bool:
    """Whether a file holds just these bytes."""
    return path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data
