"""Where two runs of one command and one seed went apart: the first step that is given something else, and why.

That a run went another way shows in the forward pass: most of its calls are given other inputs, parameters or random
numbers than golden's. A call that was rewritten, moved or renamed has no counterpart or other arguments; that parts
nothing.
Why it parted is looked for before that place, and the earliest difference is named: what begins otherwise, draws that
golden does not make, a batch, what a model is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_traincheck.golden.recording import ENTRY
from pytest_traincheck.replay.calls import Calls, Compared, Status
from pytest_traincheck.replay.computed import Call, Computed, State, apart
from pytest_traincheck.replay.roles import roles_of_batch
from pytest_traincheck.replay.tolerance import agreement, allowance, epsilon
from pytest_traincheck.trace.slots import argument, is_singular, parts_of_batch

_STRUCTURE = ("arguments", "result")
"""Reasons why a call cannot be compared that say how it is written, not what it is given."""

_NEXT_TO = 1.5
"""Times between the state that a draw left and the draw itself."""


@dataclass(frozen=True)
class Parting:
    """The first place where a run went another way: what is different there, in words.

    `step` and `at`, the number of an event, are the candidate's.
    """

    what: str
    process: int
    step: int
    at: float
    trained: bool = False
    """Whether all that was given is golden's but what earlier steps have made of the parameters."""


@dataclass(frozen=True)
class _Cause:
    """A difference, and the candidate's time and step in which it shows."""

    at: float
    step: int
    what: str
    trained: bool = False


def parting(calls: Calls, process: int) -> Parting | None:
    """Where one process went apart; None where its steps are given what golden's are."""
    symptom = _symptom(calls)
    if symptom is None:
        return None
    causes = [*_beginning(calls, symptom), *_random(calls, symptom), *_batches(calls, symptom), _given(calls, symptom)]
    first = min(causes, key=lambda cause: cause.at)
    return Parting(first.what, process, first.step, first.at, first.trained)


def _symptom(calls: Calls) -> Compared | None:
    """The first call that is given something else, in the first step of which that is true for most calls."""
    by_window: dict[int, list[Compared]] = {}
    for found in calls.compared.values():
        if found.why not in _STRUCTURE or _unseen(calls, found):
            by_window.setdefault(found.golden.window, []).append(found)
    for _, telling in sorted(by_window.items()):
        lost = [item for item in telling if item.status is Status.NOT_COMPARABLE and item.why not in _STRUCTURE]
        drawn = any(found.why == "random" and found.golden.flags & ENTRY for found in lost)
        if drawn or 2 * len(lost) > len(telling):
            return min(lost, key=lambda found: (found.golden.begin, -found.golden.end))
    return None


def _unseen(calls: Calls, found: Compared) -> bool:
    """Whether a call was given golden's inputs, and what it returned was looked at in neither run."""
    given, results = calls.golden.inputs, (calls.golden.results, calls.candidate.results)
    return (
        found.why == "result"
        and found.golden.index in given
        and not any(call.index in known for call, known in zip((found.golden, found.candidate), results, strict=True))
    )


def _given(calls: Calls, symptom: Compared) -> _Cause:
    """The place itself."""
    call, why, trained = symptom.golden, symptom.why, False
    name = f"`{call.module or call.name}`"
    if why == "random":
        what = f"random numbers: {name} draws different ones"
    elif f"in.{why}" not in calls.golden.inputs.get(call.index, {}):
        what, trained = f"parameters: {name} has a different `{why}`", call.window > 0
    elif _in_another_order(calls, symptom):
        what = f"model input: {name} is given the same {argument(why)} in a different order"
    else:
        what = f"model input: {name} is given a different {argument(why)}"
    return _Cause(symptom.candidate.begin, symptom.candidate.window, what, trained)


def _in_another_order(calls: Calls, symptom: Compared) -> bool:
    """Whether a module is given what golden's is given in another place of the same step."""
    call, slot = symptom.golden, f"in.{symptom.why}"
    given = calls.candidate.inputs[symptom.candidate.index][slot]
    others = (
        other for other in calls.golden.calls.values() if (other.module, other.window) == (call.module, call.window)
    )
    inputs = (calls.golden.inputs.get(other.index, {}).get(slot) for other in others if other.index != call.index)
    return any(tensor is not None and apart(tensor, given) == 0 for tensor in inputs)


def _beginning(calls: Calls, symptom: Compared) -> Iterator[_Cause]:
    """Parameters and buffers that begin with other values, before the first batch is drawn."""
    ours, theirs = calls.golden, calls.candidate
    if ours.since:
        return  # a later phase begins with what training has left
    other = []
    for (kind, name), values in ours.values.items():
        counterpart = theirs.values.get((kind, name))
        if kind not in ("parameter", "buffer") or counterpart is None or values[0].at > ours.inside(symptom.golden):
            continue
        if apart(values[0], counterpart[0]) > allowance(epsilon(values[0].dtype) or epsilon("float32"), 1, 1):
            other.append((values[0].at, name, counterpart[0].at))
    if other:
        _, name, looked = min(other)
        loaded = [call.begin for call in theirs.calls.values() if call.kind == "data"]
        more = f" and {len(other) - 1} more" if len(other) > 1 else ""
        begin = "begins" if len(other) == 1 else "begin"
        yield _Cause(min([looked, *loaded]) - 0.5, 0, f"initial values: `{name}`{more} {begin} with different ones")


def _random(calls: Calls, symptom: Compared) -> Iterator[_Cause]:
    """Generators that are in another state when the calls are made, each at the first state that golden never had."""
    for name, ours in calls.golden.random.items():
        theirs = calls.candidate.random.get(name, [])
        until, other = (
            _until(symptom, calls.golden, symptom.golden),
            _until(symptom, calls.candidate, symptom.candidate),
        )
        states = [state for state in ours if state.at <= until and not state.aside]
        others = [state for state in theirs if state.at <= other and not state.aside]
        if not states or not others or states[-1].digest == others[-1].digest:
            continue
        kept = {state.digest: place for place, state in enumerate(others)}
        last = max((place for place, state in enumerate(states) if state.digest in kept), default=-1)
        place = kept[states[last].digest] if last >= 0 else -1
        golden = states[last + 1] if last + 1 < len(states) else None
        candidate = others[place + 1] if place + 1 < len(others) else None
        at = candidate.at if candidate is not None else others[place].at
        drawn = {_draw(*left) for left in ((calls.golden, golden), (calls.candidate, candidate)) if left[1] is not None}
        seeded = last < 0 or not drawn or None in drawn
        what = "the generator is seeded differently" if seeded else _draws(calls, golden, candidate)
        yield _Cause(at, _window(calls.candidate, at), f"random numbers of {_generator(name)}: {what}")


def _until(symptom: Compared, side: Computed, call: Call) -> float:
    """Up to when draws matter: the beginning of the call, or its end where it draws otherwise itself."""
    return call.end if symptom.why == "random" else side.inside(call)


def _draws(calls: Calls, golden: State | None, candidate: State | None) -> str:
    ours, theirs = _draw(calls.golden, golden), _draw(calls.candidate, candidate)
    if theirs is None:
        assert ours is not None
        return f"{ours.who} does not draw, as it does in the golden run"
    if ours is None:
        return f"{theirs.who} draws where the golden run draws nothing more"
    if ours.who != theirs.who:
        return f"{theirs.who} draws where {ours.who} does in the golden run"
    if ours.size != theirs.size and ours.size and theirs.size:
        return f"{theirs.who} draws {theirs.size} numbers, in the golden run {ours.size}"
    return f"{theirs.who} draws different numbers"


@dataclass(frozen=True)
class _Draw:
    """A function that drew, or the place where something did, in words; and how many numbers, 0 where nobody knows."""

    who: str
    size: int = 0


def _draw(side: Computed, state: State | None) -> _Draw | None:
    """The draw that left a state, or the place where it was drawn; None where it was set."""
    if state is None:
        return None
    for at, name, size in side.draws:
        if state.at < at <= state.at + _NEXT_TO:
            return _Draw(f"`{name}`", size)
    before = _found_by(side, state)
    if before is not None and state.words:
        return _Draw(f"the code before `{before.module or before.name}`", state.words)
    calls = (call for call in side.calls.values() if call is not before)
    around = [call for call in calls if call.begin < state.at <= call.end + _NEXT_TO]
    return _Draw(f"`{around[-1].module or around[-1].name}`") if around else None


def _found_by(side: Computed, state: State) -> Call | None:
    """The call that found a state when it began: the one that says so, or a model before which parameters were looked
    at, if nothing had happened in it.
    """
    for call in side.calls.values():
        if state.at == call.begin - 0.5:
            return call
        begins = call.flags & ENTRY and side.children.get(call.index)
        if begins and call.begin < state.at <= side.inside(call) - 1:
            return call
    return None


def _generator(name: str) -> str:
    return {"torch": "torch", "numpy": "numpy", "python": "`random`", "cuda": "the GPU"}.get(name, name)


def _batches(calls: Calls, symptom: Compared) -> Iterator[_Cause]:
    """The first batch that is not golden's."""
    ours, theirs = calls.golden, calls.candidate
    batches = [call for call in ours.calls.values() if call.kind == "data" and call.begin < symptom.golden.end]
    for number, batch in enumerate(sorted(batches, key=lambda call: call.begin)):
        other = calls.pairs.get(batch.index)
        parts, made = ours.results.get(batch.index, {}), theirs.results.get(other, {}) if other is not None else {}
        if other is None or parts.keys() != made.keys():
            continue
        differ = [slot for slot in parts if apart(parts[slot], made[slot]) > agreement(epsilon(parts[slot].dtype))]
        if differ:
            call = theirs.calls[other]
            roles = roles_of_batch(ours, batch)
            yield _Cause(call.begin, call.window, f"{_place_of_batch(number)}: {_parts(differ, list(parts), roles)}")
            return


def _place_of_batch(number: int) -> str:
    return "first batch" if not number else f"batch {number + 1}"


def _parts(differ: Sequence[str], parts: Sequence[str], roles: Mapping[str, str]) -> str:
    wrong, kept = ([slot.removeprefix("out.") for slot in parts if (slot in differ) is side] for side in (True, False))
    if wrong == ["out"]:
        return "it differs from the golden run's"
    text = f"{parts_of_batch(wrong, roles)} {'differs' if is_singular(wrong, roles) else 'differ'}"
    are = "is" if is_singular(kept, roles) else "are"
    return f"{text}, {parts_of_batch(kept, roles)} {are} as in the golden run" if kept else text


def _window(side: Computed, at: float) -> int:
    """The step in which something happens."""
    return next((call.window for call in side.calls.values() if call.end >= at), 0)
