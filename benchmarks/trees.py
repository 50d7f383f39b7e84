"""Trees of commits out of clones, and what is put into them."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def checkout(clone: Path, commit: str, paths: Sequence[str], into: Path) -> None:
    """Writes what a commit has below `paths` into a directory.

    Raises:
        SystemExit: if the clone does not have the commit.
    """
    command = ["git", "-C", str(clone), "archive", "--format=tar", commit, "--", *paths]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"git cannot write commit {commit} of {clone.name}: {done.stderr.decode(errors='replace').strip()}. "
            "Fetch the whole history of the clone (`git fetch --unshallow`) and try again."
        )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        # Pythons of 3.10 and 3.11 got filters late.
        safely: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(into, **safely)


def put(driver: Path, into: Path) -> None:
    """Copies a driver, a file or a whole stand-in package, into a tree."""
    if driver.is_dir():
        shutil.copytree(driver, into / driver.name, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(driver, into / driver.name)
