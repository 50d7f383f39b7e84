"""The registry of live modules."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from pytest_traincheck.frameworks.built_in import built_in  # noqa: E402
from pytest_traincheck.probe.modules import Modules  # noqa: E402
from pytest_traincheck.probe.symbols import Symbols  # noqa: E402
from pytest_traincheck.probe.wrappers import Wrappers  # noqa: E402
from pytest_traincheck.probe.writer import TraceWriter  # noqa: E402


def test_modules_stay_in_the_order_of_their_creation_when_others_have_died(tmp_path: Path) -> None:
    """A new object may get the id of one that has died; models are numbered in this order."""
    known = Modules(Symbols(TraceWriter(tmp_path)), [], Wrappers(built_in()))

    def made(count: int) -> list[torch.nn.Module]:
        modules: list[torch.nn.Module] = [torch.nn.Identity() for _ in range(count)]
        for module in modules:
            known.add(module)
        return modules

    first = made(40)
    freed = {id(module) for module in first[::2]}
    last = first[1::2]
    del first
    last += made(40)
    assert freed & {id(module) for module in last}, "no id came again, so this shows nothing"
    assert [id(module) for module in known.live()] == [id(module) for module in last]
