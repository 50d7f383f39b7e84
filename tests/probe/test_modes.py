"""Which calls of `train` and `eval` are told: the one that a program makes, not those that it makes of its children."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from probe_runs import Trace  # noqa: E402
from torch import nn  # noqa: E402

Watch = Callable[[Callable[[], Any]], Trace]


class Doing(nn.Module):
    """Does something whenever it is put into a mode, before or after it is."""

    def __init__(self, before: Callable[[], Any] = int, after: Callable[[], Any] = int) -> None:
        super().__init__()
        self.below = nn.Sequential(nn.Linear(2, 2))
        self.before, self.after = before, after

    def train(self, mode: bool = True) -> Doing:
        self.before()
        super().train(mode)
        self.after()
        return self


def nested(*modules: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(0.1), *modules), nn.Linear(2, 2))


def told(trace: Trace) -> list[tuple[str | None, str | None, Any, bool]]:
    """Of each call: the model and the part of it that was put into a mode, the mode, and whether it raised."""
    calls = trace.called("torch.nn.Module.train")
    return [(call.root, call.path, call.args["mode"], bool(call.flags & 1)) for call in calls]


def test_the_outermost_call_alone_is_told(watched: Watch) -> None:
    def train() -> None:
        model = nested(nn.BatchNorm1d(2))
        for mode in (True, False, True):
            model.train(mode)
            model[1].eval()

    whole, part = ("Sequential", ""), ("Sequential", "1")
    modes = [(*whole, True), (*part, False), (*whole, False), (*part, False), (*whole, True), (*part, False)]
    assert told(watched(train)) == [(*mode, False) for mode in modes]


def test_what_a_class_does_beside_is_told_where_nothing_encloses_it(watched: Watch) -> None:
    def train() -> None:
        norm = nn.BatchNorm1d(2)
        frozen = Doing(before=norm.train, after=norm.eval)
        frozen.train()
        nn.Sequential(nn.Linear(2, 2), frozen).train()

    trace = watched(train)
    assert told(trace) == [
        ("BatchNorm1d", "", True, False),
        ("Doing", "", True, False),
        ("BatchNorm1d", "", False, False),
        ("Sequential", "", True, False),
    ]
    assert all(call.parent == 0 for call in trace.called("torch.nn.Module.train"))


def test_what_comes_after_an_exception_is_told(watched: Watch) -> None:
    def train() -> None:
        def refuse() -> None:
            raise ValueError("not now")

        for place in ("before", "after"):
            model = nested(Doing(**{place: refuse}))
            with pytest.raises(ValueError, match="not now"):
                model.train()
            with pytest.raises(ValueError, match="boolean"):
                model.train("yes")
            nested().eval()

    found = [(mode, raised) for _, _, mode, raised in told(watched(train))]
    assert found == 2 * [(True, True), ("yes", True), (False, False)]


def test_another_thread_is_not_within_the_call_of_this_one(watched: Watch) -> None:
    def train() -> None:
        def elsewhere() -> None:
            thread = threading.Thread(target=nested(nn.ReLU()).eval)
            thread.start()
            thread.join()

        nested(Doing(before=elsewhere, after=elsewhere)).train()

    trace = watched(train)
    assert [mode for _, _, mode, _ in told(trace)] == [True, False, False]
    first, *others = trace.called("torch.nn.Module.train")
    assert all(first.seq < call.seq < call.end < first.end and call.parent == 0 for call in others)


def test_a_call_within_another_function_within_the_call_is_not_told(watched: Watch) -> None:
    def train() -> None:
        other = Doing()
        model = Doing(after=lambda: other(torch.ones(1)))
        other.forward = lambda x: other.eval() and x  # type: ignore[method-assign]
        nested(model).train()
        model.train()

    assert told(watched(train)) == [
        ("Sequential", "", True, False),
        ("Doing", "", True, False),
        ("Doing", "", False, False),
    ]
