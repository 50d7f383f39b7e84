"""What all tests share. Its place puts `tests/` on the import path, where the trace builder lies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from faults_page import COLLECTED, write_page

from pytest_traincheck.launch import cache

if TYPE_CHECKING:
    from training_story import Recorder
    from warm_python import WarmPython


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-faults", type=Path, metavar="FILE", help="write docs/faults.md from the marks of all tests"
    )
    parser.addoption(
        "--identity",
        choices=("sample", "all"),
        default="sample",
        help="how much of the farm of tests/identity to run (default: sample)",
    )
    parser.addoption(
        "--check-mode",
        choices=("sample", "all"),
        default="sample",
        help="how many candidates of the fixtures to observe in check mode (default: sample)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before any are left out."""
    # `-m "not slow"` on the command line replaces `-m "not sweep"` of the configuration.
    quick = [item.nodeid for item in items if item.get_closest_marker("sweep") and not item.get_closest_marker("slow")]
    if quick:
        raise pytest.UsageError(f"what is for the sweep is slow too; mark it so: {', '.join(quick)}")
    config.stash[COLLECTED] = list(items)
    path = config.getoption("--write-faults")
    if path is not None:
        write_page(path, items)


@pytest.fixture(scope="session", autouse=True)
def _cache_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing that the developer's own cache holds decides a test, and no test leaves anything there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(cache.VARIABLE, str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def warm_python() -> Iterator[WarmPython]:
    """Runs scripts without importing torch anew for each."""
    from warm_python import WarmPython

    with WarmPython() as warm:
        yield warm


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """Writes training loops as traces; imported on use, since most tests need no analysis."""
    from training_story import Recorder

    return Recorder(tmp_path)
