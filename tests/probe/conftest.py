"""The `run` fixture of the probe's tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from probe_runs import Run, runner


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a script: `run(text, probe=True, launcher=[...], ok=True)`."""
    return runner(tmp_path)
