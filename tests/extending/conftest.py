"""The example package, installed as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = Path(__file__).parent / "example"


@pytest.fixture(scope="session")
def example_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory into which pip has installed the example, to be put on the import path."""
    site = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(site), str(EXAMPLE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return site


@pytest.fixture(scope="session")
def with_example(example_site: Path) -> dict[str, str]:
    """An environment in which the example is installed beside this package."""
    former = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(example_site), str(ROOT), *([former] if former else [])])}
