"""Markers to select by with `-m`: one for everything that trains, one for each pipeline."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

TRAINS = "traincheck"
"""Marker of every item of a pipeline, and of the tests that use the fixtures."""


def of_pipeline(name: str) -> str:
    """The marker of a pipeline. A name of its own could be that of a marker which means something: `skip`, `slow`."""
    return f"{TRAINS}_{name}"


def register(config: pytest.Config, pipelines: Iterable[str]) -> None:
    """Make the markers of pipelines known, so that `--strict-markers` has nothing against them."""
    for name in pipelines:
        config.addinivalue_line("markers", f"{of_pipeline(name)}: checks of the pipeline {name} (pytest-traincheck)")


def mark(item: pytest.Item, pipeline: str) -> None:
    """Give an item the markers of its pipeline."""
    item.add_marker(getattr(pytest.mark, TRAINS)(pipeline=pipeline))
    item.add_marker(of_pipeline(pipeline))
