"""The probe's own quiet place."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from pytest_traincheck.probe.context import ThreadState, left_in_the_middle, quiet  # noqa: E402


def test_a_quiet_place_that_was_left_in_the_middle_leaves_nothing_behind() -> None:
    """As when a signal arrives between two instructions of its beginning: what would undo it is never called."""
    state = ThreadState()
    weight = torch.ones(2, requires_grad=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiled:
        with torch.autocast("cpu", torch.bfloat16):
            quiet(state).__enter__()
            left_in_the_middle(state, True)
            assert torch.is_autocast_enabled("cpu")
        assert (weight * 2).requires_grad
    assert not state.busy
    assert "aten::mul" in {event.name for event in profiled.events()}
