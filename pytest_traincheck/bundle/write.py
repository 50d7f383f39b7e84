"""Writes a bundle: a directory that is there as a whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from pytest_traincheck.bundle.errors import BundleError
from pytest_traincheck.bundle.manifest import FILE_NAME, MANIFEST, File, Manifest

SIZE_LIMIT = 256 * 2**20
"""Bytes of all files of a bundle together."""


def digest_of(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def write_bundle(directory: Path, content: Path, manifest: Callable[[dict[str, File]], Manifest]) -> None:
    """Make `directory` a bundle of the files below `content`, in place of one that is there.

    `manifest` is called with the files. Raises `BundleError` when they are too large and `OSError` when the directory
    cannot be written.
    """
    files: dict[str, File] = {}
    for path in sorted(content.rglob("*")):
        name = path.relative_to(content).as_posix()
        if path.is_file() and FILE_NAME.fullmatch(name):
            files[name] = File(path.stat().st_size, digest_of(path.read_bytes()))
    total = sum(file.size for file in files.values())
    if total > SIZE_LIMIT:
        raise BundleError(
            f"The bundle {directory} would have {total} bytes and the limit is {SIZE_LIMIT}; it was not written. "
            "Shorten the steps of the pipeline, or keep the whole trace that lies beside it."
        )
    text = manifest(files).to_text()
    directory.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}-"))
    try:
        # `mkdtemp` makes it private; an artifact is read by whoever may read its neighbours.
        fresh.chmod(directory.parent.stat().st_mode & 0o777)
        for name in files:
            target = fresh / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(content / name, target)
        (fresh / MANIFEST).write_text(text, encoding="utf-8")
        discard_bundle(directory)
        fresh.rename(directory)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def discard_bundle(directory: Path) -> None:
    """Remove a bundle of an earlier check. A directory that is no bundle stays. Raises `OSError`."""
    if (directory / MANIFEST).is_file() and not directory.is_symlink():
        shutil.rmtree(directory)
