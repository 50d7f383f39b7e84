"""Golden files on disk: where they lie, how they are read and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import filelock

from pytest_traincheck.golden.atomic import make_directory, replace_files
from pytest_traincheck.golden.decode import decode
from pytest_traincheck.golden.encode import encode
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden

__all__ = [
    "LOCK_NAME",
    "SIZE_LIMIT",
    "SUFFIX",
    "GoldenError",
    "golden_path",
    "numbers_file",
    "read",
    "with_numbers",
    "write",
    "write_numbers",
]

SUFFIX = ".jsonl"

LOCK_NAME = ".traincheck.lock"
"""File in the store that writers lock; it stays behind, empty, and belongs into `.gitignore`."""

SIZE_LIMIT = 64 * 1024 * 1024
"""Bytes of the largest file that is read."""

LOCK_TIMEOUT_S = 60.0


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
    # The numbers first: those of a rule that is not in the golden yet are not looked at.
    _replace(path, {**_numbers_file(path, golden), path: encode(golden)}, golden)


def write_numbers(path: Path, golden: Golden) -> Path | None:
    """Write the numbers of a golden alone; the file, or None where it held them already or there are none.

    Raises `GoldenError` as `write` does.
    """
    files = _numbers_file(path, golden)
    return numbers_file(path, golden) if _replace(path, files, golden) else None


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


def numbers_file(path: Path, golden: Golden) -> Path | None:
    """Where `write` puts the numbers of a golden; None where it has none."""
    return next(iter(_numbers_file(path, golden)), None)


def _numbers_file(path: Path, golden: Golden) -> dict[Path, bytes]:
    if not golden.platform or not (golden.numbers or golden.recording):
        return {}
    # numpy is not needed to write rules alone.
    from pytest_traincheck.golden.numbers import NumbersFile, encode_numbers, numbers_path

    content = NumbersFile(golden.platform, golden.spec, golden.numbers, golden.recording)
    return {numbers_path(path, golden.platform): encode_numbers(content)}


def _replace(path: Path, files: Mapping[Path, bytes], golden: Golden) -> bool:
    """Whether any file had to be written."""
    for file, data in files.items():
        if len(data) > SIZE_LIMIT:
            raise GoldenError(
                f"The golden of {golden.pipeline!r} has {len(data)} bytes and the limit is {SIZE_LIMIT}; it was not "
                f"written to {file}. Shorten the run: fewer steps say the same."
            )
    lock_path = path.parent / LOCK_NAME
    try:
        make_directory(path.parent)
        if all(_has_content(file, data) for file, data in files.items()):
            return False
        with filelock.FileLock(lock_path, timeout=LOCK_TIMEOUT_S):
            replace_files({file: data for file, data in files.items() if not _has_content(file, data)})
    except filelock.Timeout as error:
        raise GoldenError(
            f"Cannot write {path}: another process has held {lock_path} for {LOCK_TIMEOUT_S:.0f} seconds. "
            "Wait for the other `traincheck refresh`, or end it, and run again."
        ) from error
    except OSError as error:
        raise GoldenError(
            f"Cannot write {path}: {error.strerror or error}. Make the directory writable, or set `store` in "
            "[tool.traincheck] to a directory that is."
        ) from error
    return True


def read(path: Path) -> Golden:
    """Read a golden, as untrusted data. Raises `GoldenError`, which names the line where there is one."""
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


def _has_content(path: Path, data: bytes) -> bool:
    return path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data
