"""Items of a golden file stay together under pytest-xdist, however it distributes the rest: a pipeline trains once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

_SCATTERING = ("load", "loadgroup", "worksteal")
"""Values of `--dist` with which items of one file may go to several workers."""


class Distribution:
    """The hook by which pytest-xdist asks who runs what. `goldens` are node ids of golden files."""

    def __init__(self, goldens: Collection[str]) -> None:
        self._goldens = frozenset(goldens)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """That of `--dist loadgroup`, with each golden file as a group; None where files stay together anyway."""
        if config.getoption("dist") not in _SCATTERING:
            return None
        from xdist.scheduler import LoadGroupScheduling

        goldens = self._goldens

        class Together(LoadGroupScheduling):  # type: ignore[misc]  # xdist has no types where it is not installed
            def _split_scope(self, nodeid: str) -> str:
                file = nodeid.partition("::")[0]
                return file if file in goldens else str(super()._split_scope(nodeid))

        return Together(config, log)
