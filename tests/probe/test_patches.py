"""Attributes that are replaced, put back for a while, and replaced again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_traincheck.probe.patch import Patches  # noqa: E402


class Owner:
    """What somebody's library has."""

    def work(self) -> list[str]:
        return ["theirs"]


def noting(original: Callable[..., list[str]]) -> Callable[..., list[str]]:
    def wrapper(*args: Any) -> list[str]:
        return ["ours", *original(*args)]

    return wrapper


@pytest.fixture
def owner() -> Any:
    """A class of its own for each test."""
    return type("Owned", (), {"work": Owner.work})


@pytest.fixture
def patches(owner: Any) -> Any:
    found = Patches()
    found.replace(owner, "work", noting, alias=False)
    yield found
    found.remove()


def test_aside_for_a_while(patches: Patches, owner: Any) -> None:
    assert owner().work() == ["ours", "theirs"]
    with patches.pristine():
        assert owner().work() == ["theirs"]
    assert owner().work() == ["ours", "theirs"]
    patches.remove()
    assert owner.work is Owner.work


def test_what_another_replaces_meanwhile_is_wrapped_too(patches: Patches, owner: Any) -> None:
    """Dynamo replaces `torch.nn.Module.__init__` in its first compilation, and never puts it back."""
    with patches.pristine():
        current = owner.work

        def another(self: Any) -> list[str]:
            return ["another", *current(self)]

        owner.work = another
    assert owner().work() == ["ours", "another", "theirs"]
    with patches.pristine():
        assert owner().work() == ["another", "theirs"]
    assert patches.original(owner.work) is another
    patches.remove()
    assert owner.work is another


def test_what_another_took_away_stays_away(patches: Patches, owner: Any) -> None:
    with patches.pristine():
        del owner.work
    assert not hasattr(owner, "work")
