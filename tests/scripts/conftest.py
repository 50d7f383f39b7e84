"""A repository of its own for each test."""

from __future__ import annotations

from pathlib import Path

import pytest
from repositories import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)
