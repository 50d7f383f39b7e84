"""The fixtures of the probe's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from probe_runs import Run, Trace, runner


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a script: `run(text, probe=True, launcher=[...], ok=True)`."""
    return runner(tmp_path)


@pytest.fixture
def seeded() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)


@pytest.fixture
def watched(tmp_path: Path) -> Callable[[Callable[[], Any]], Trace]:
    """Runs something under the probe, in this process, and reads the trace."""
    from measuring import only

    from pytest_traincheck.probe import observe

    def watch(something: Callable[[], Any]) -> Trace:
        with observe(tmp_path / "run"):
            something()
        return only(tmp_path / "run")

    return watch


@pytest.fixture(params=[16, 32, 64])
def registers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Bytes of the largest registers that loops over numbers may use; a machine that has smaller ones uses those."""
    core = pytest.importorskip("pytest_traincheck.probe.core._core")
    before = core.use_registers(request.param)
    yield
    core.use_registers(before)
