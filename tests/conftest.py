"""What all tests share. Its place puts `tests/` on the import path, where the trace builder lies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from training_story import Recorder


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """Writes training loops as traces; imported on use, since most tests need no analysis."""
    from training_story import Recorder

    return Recorder(tmp_path)
