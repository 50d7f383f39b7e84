"""Building this tree with what the tests are run with, and no network."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "https://code.example.org/team/pytest-traincheck"


@dataclass(frozen=True)
class Made:
    """Where the two files are, and the tree that the source distribution unpacks to."""

    sdist: Path
    wheel: Path
    tree: Path


def hatchling(tree: Path, target: str, into: Path, **environment: str) -> Path:
    """Build a `target` of a tree, and say which file it is."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(into)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True, env={**os.environ, **environment})
    (file,) = into.iterdir()
    return file
