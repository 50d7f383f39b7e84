"""Golden files on disk: where they lie, how they are read and written."""

from __future__ import annotations

from pathlib import Path

import filelock

from pytest_traincheck.golden.atomic import make_directory, replace_file
from pytest_traincheck.golden.decode import decode
from pytest_traincheck.golden.encode import encode
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden

__all__ = ["LOCK_NAME", "SIZE_LIMIT", "SUFFIX", "GoldenError", "golden_path", "read", "write"]

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
    """Write a golden; the same content gives the same bytes, and a file that has them already is not touched.

    Several writers to one store wait for each other. Raises `GoldenError` when the store cannot be written; the file
    is as it was before then.
    """
    data = encode(golden)
    if len(data) > SIZE_LIMIT:
        raise GoldenError(
            f"The golden of {golden.pipeline!r} has {len(data)} bytes and the limit is {SIZE_LIMIT}; it was not "
            f"written to {path}. Shorten the run: fewer steps say the same."
        )
    lock_path = path.parent / LOCK_NAME
    try:
        make_directory(path.parent)
        if _has_content(path, data):
            return
        with filelock.FileLock(lock_path, timeout=LOCK_TIMEOUT_S):
            replace_file(path, data)
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
