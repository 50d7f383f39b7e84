"""A golden of the small language model, learned once, and what records and judges."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def record(tmp_path: Any) -> Any:
    from replays import recorder

    return recorder(tmp_path)


@pytest.fixture
def judge(tmp_path: Any) -> Any:
    from replays import Judge

    return Judge(tmp_path)


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from replays import golden_of, recorder

    return golden_of(recorder(tmp_path_factory.mktemp("golden")))
