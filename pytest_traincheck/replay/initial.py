"""What parameters and buffers begin with, before the first training step."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_traincheck.replay.computed import Call, Computed, Tensor, apart, are_other_parts
from pytest_traincheck.replay.point import Point
from pytest_traincheck.replay.tolerance import allowance, epsilon


def initial_values(ours: Computed, theirs: Computed) -> Iterator[Point]:
    """Parameters and buffers as they begin, where the same random numbers were drawn.

    All that is there when the first forward pass begins; where it was seeded otherwise after the first of them were
    looked at (a model that runs while it is made), those alone. Values that agree although other numbers were drawn
    agree all the same.
    """
    for looks in ((ours.begun, theirs.begun), (ours.first_look, theirs.first_look)):
        call, other = _around(ours, looks[0]), _around(theirs, looks[1])
        if all(looks) and call is not None and other is not None:
            seeded = _seeded_alike(ours, theirs, looks)
            points = [point for point in _compared(ours, theirs, call, other) if seeded or point.holds]
            if seeded or points:
                yield from points
                return


def _compared(ours: Computed, theirs: Computed, call: Call, other: Call) -> Iterator[Point]:
    # What is tracked only later, a copy of parameters say, does not begin here.
    first, begun = (
        {
            name: tensors[0]
            for name, tensors in side.values.items()
            if name[0] in ("parameter", "buffer") and tensors[0].at <= side.inside(around)
        }
        for side, around in ((ours, call), (theirs, other))
    )
    off = {
        name: apart(tensor, begun[name])
        for name, tensor in first.items()
        if name in begun and not are_other_parts(tensor, begun[name])
    }
    allowed = {name: allowance(epsilon(first[name].dtype) or epsilon("float32"), 1, 1) for name in off}
    wrong = sorted((name for name in off if off[name] > allowed[name]), key=lambda name: first[name].at)
    if any(_found_elsewhere(begun[name], name, first) for name in wrong):
        return  # The same numbers were drawn for other parameters: layers made in another order.
    worst = max(off, key=lambda name: off[name] - allowed[name], default=None)
    if worst is not None:
        yield Point("initial", call, other, off[worst], allowed[worst], tuple(name for _, name in wrong))


def _seeded_alike(golden: Computed, candidate: Computed, until: tuple[float, float]) -> bool:
    """Whether both drew the same from the beginning on, whatever the generators held before they were seeded."""
    (draws, moved), (others, states) = golden.drawn(0, until[0]), candidate.drawn(0, until[1])
    seeded, counterpart = (
        {name: [move.after for move in found] for name, found in each.items()} for each in (moved, states)
    )
    return draws == others and seeded == counterpart


def _found_elsewhere(value: Tensor, name: tuple[str, str], first: dict[tuple[str, str], Tensor]) -> bool:
    return any(other != name and tensor.norm and apart(tensor, value) == 0 for other, tensor in first.items())


def _around(side: Computed, at: float) -> Call | None:
    """The call in which variables were first looked at, or the first one after that."""
    inside = [call for call in side.calls.values() if call.begin < at <= call.end]
    later = [call for call in side.calls.values() if call.begin >= at]
    return inside[-1] if inside else later[0] if later else None
