"""The first thing within a call, or a step, that is different from the golden run: where to look for the reason."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_traincheck.replay.calls import Calls, Status
from pytest_traincheck.replay.computed import Call, Computed
from pytest_traincheck.trace.slots import argument


@dataclass(frozen=True)
class Difference:
    """A call of the candidate and in words what is different about it."""

    call: Call
    text: str
    of_parameters: bool = False
    """Whether it is that parameters, golden's when the step began, are not so any more."""


def first_within(calls: Calls, golden: Call) -> Difference | None:
    """The first difference among what a call calls."""
    inside = [call for call in calls.golden.calls.values() if golden.begin < call.begin < golden.end]
    found = _first(calls, inside)
    return found or _other_calls(calls, golden)


def first_after(calls: Calls, golden: Call) -> Difference | None:
    """The first call in a step that is given something else, after one whose result is golden's in part."""
    after = [c for c in calls.golden.calls.values() if c.window == golden.window and c.begin > golden.end]
    return _first(calls, after)


def first_within_step(calls: Calls, backward: Call) -> Difference | None:
    """The first difference in a step up to a backward pass."""
    same = [c for c in calls.golden.calls.values() if c.window == backward.window and c.end < backward.begin]
    return _first(calls, same) or _other_functions(calls, backward)


def _first(calls: Calls, among: Iterable[Call]) -> Difference | None:
    for golden in sorted(among, key=lambda call: call.begin):
        found = calls.compared.get(golden.index)
        if found is None or found.status is not Status.NOT_COMPARABLE or found.why in ("result", ""):
            continue
        name = _name(golden)
        if found.why == "arguments":
            changed = _changed(golden.arguments, found.candidate.arguments)
            return Difference(found.candidate, f"`{name}` is called with {changed or 'different arguments'}")
        if found.why == "random":
            return Difference(found.candidate, f"`{name}` draws different random numbers")
        if f"in.{found.why}" in calls.golden.inputs.get(golden.index, {}):
            return Difference(
                found.candidate, f"the first call with a different input is `{name}` ({argument(found.why)})"
            )
        text = f"the first call with different parameters is `{name}` (`{found.why}`)"
        return Difference(found.candidate, text, of_parameters=True)
    return None


def _other_calls(calls: Calls, golden: Call) -> Difference | None:
    """Functions and modules that only one side calls within a call."""
    candidate = calls.candidate.calls[calls.pairs[golden.index]]
    return _differing(candidate, "it", _called(calls.golden, golden), _called(calls.candidate, candidate))


def _other_functions(calls: Calls, backward: Call) -> Difference | None:
    """Functions outside of every model that only one side calls in a step on the way to a backward pass."""
    candidate = calls.candidate.calls[calls.pairs[backward.index]]
    ours, theirs = _on_the_way(calls.golden, backward), _on_the_way(calls.candidate, candidate)
    return _differing(candidate, "the candidate", ours, theirs)


def _differing(candidate: Call, who: str, ours: Counter[str], theirs: Counter[str]) -> Difference | None:
    gone, new = list(ours - theirs), list(theirs - ours)
    if not gone and not new:
        return None
    parts = []
    if gone:
        parts.append(f"does not call {_listed(gone)}")
    if new:
        parts.append(f"calls {_listed(new)}, which the golden run did not")
    return Difference(candidate, f"{who} {' and '.join(parts)}")


def _on_the_way(side: Computed, backward: Call) -> Counter[str]:
    outside = (side.calls[call] for call in side.children.get(-1, []))
    return Counter(
        call.name
        for call in outside
        if call.kind == "function" and call.window == backward.window and call.end < backward.begin
    )


def _called(side: Computed, call: Call) -> Counter[str]:
    return Counter(_name(side.calls[child]) for child in side.children.get(call.index, []))


def _listed(names: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def _name(call: Call) -> str:
    return call.module if call.kind == "module" else call.name


def _changed(golden: str, candidate: str) -> str:
    """Arguments that are not tensors and differ: `eps` 0.001 instead of 1e-05."""
    try:
        ours, theirs = json.loads(golden or "{}"), json.loads(candidate or "{}")
    except ValueError:
        return ""
    changed = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    return ", ".join(f"`{name}` {_shown(theirs, name)} instead of {_shown(ours, name)}" for name in changed[:2])


def _shown(values: dict[str, object], name: str) -> str:
    return json.dumps(values[name]) if name in values else "not given"
