"""Style, types and layers: what a machine can say about the code before it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

CHECKS = {
    "lint": ("ruff", "check", "."),
    "format": ("ruff", "format", "--check", "."),
    "layers": ("lint-imports",),
    "types": ("mypy",),
}


@pytest.mark.parametrize("name", CHECKS)
def test_static(name: str) -> None:
    program, *arguments = CHECKS[name]
    # Beside this interpreter first: the versions that belong to this environment.
    found = shutil.which(program, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    assert found is not None, f"{program} is not installed: pip install -e '.[test]'"
    done = subprocess.run(
        [found, *arguments], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{program} {' '.join(arguments)}\n{done.stdout}{done.stderr}"
