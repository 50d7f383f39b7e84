"""Which call of a candidate stands for which call of golden.

Modules are found by their path and their place among the calls of that path in a step; whatever a user calls the
functions around them, logs between them or inserts beside them does not matter. Functions are found by the call they
are made in, and only where both sides make as many of them there: with one more, nobody can say which is the new one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from pytest_traincheck.golden.recording import GRAD, TRAINING
from pytest_traincheck.replay.computed import Call, Computed

Key = tuple[object, ...]

_LAYERS = "torch.nn."
_WHOLE = ("autograd", "optimizer", "clip", "scaler", "scheduler", "data")
"""Kinds of calls that belong to a training step as a whole."""


def aligned(golden: Computed, candidate: Computed) -> dict[int, int]:
    """Golden call -> candidate call."""
    theirs = _by_key(candidate)
    found: dict[int, int] = {}
    for key, ours in _by_key(golden).items():
        for call, other in _in_place(golden, ours, theirs.get(key, [])):
            if _alike(golden.calls[call], candidate.calls[other]):
                found[call] = other
    found = dict(sorted(found.items()))
    _add_layers(golden, candidate, found)
    _add_functions(golden, candidate, found)
    return found


def _alike(golden: Call, candidate: Call) -> bool:
    """Whether two calls may be of one module: users rename their classes, layers of torch keep their names."""
    layers = golden.name.startswith(_LAYERS) and candidate.name.startswith(_LAYERS)
    return golden.kind != "module" or not layers or golden.name == candidate.name


def _by_key(side: Computed) -> Mapping[Key, list[int]]:
    """The key of every call but functions -> the calls that have it, in order."""
    calls: dict[Key, list[int]] = {}
    for call in side.calls.values():
        key = _key(call)
        if key is not None:
            calls.setdefault(key, []).append(call.index)
    return calls


def _in_place(golden: Computed, ours: Sequence[int], theirs: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Calls of one key by their place among them.

    What trains in eval mode looks like an evaluation without `no_grad`, and may follow one in its step: there places
    are counted from the last one on, so that an evaluation more does not move them.
    """
    if len(ours) != len(theirs) and any(_trained_in_eval(golden, call) for call in ours):
        return zip(reversed(ours), reversed(theirs), strict=False)
    return zip(ours, theirs, strict=False)


def _trained_in_eval(side: Computed, call: int) -> bool:
    """Whether a call is, or lies in, a forward pass of a model in eval mode that training goes through."""
    while call >= 0:
        if call in side.trained_in_eval:
            return True
        call = side.calls[call].parent
    return False


def _key(call: Call) -> Key | None:
    if call.kind == "module":
        return "module", call.window, call.module, call.flags & TRAINING, call.flags & GRAD
    if call.kind in _WHOLE:
        return call.kind, call.window, call.name if call.kind != "optimizer" else call.optimizer
    return None


def _add_layers(golden: Computed, candidate: Computed, found: dict[int, int]) -> None:
    """Layers of torch that hold nothing, as dropout and activations, under another name: no parameters say which is
    which. Known by what they are given and return, where one of each side is alike.
    """
    given = set(found.values())
    theirs = _layers(candidate, given)
    for key, calls in _layers(golden, found.keys()).items():
        others = theirs.get(key, [])
        if len(calls) == len(others) == 1:
            found[calls[0]] = others[0]


def _layers(side: Computed, known: Container[int]) -> Mapping[Key, list[int]]:
    """Calls of layers without parameters and buffers, by all that is known of each but its name."""
    calls: dict[Key, list[int]] = {}
    for call in side.calls.values():
        if call.kind != "module" or call.index in known or not call.name.startswith(_LAYERS):
            continue
        tensors = side.inputs.get(call.index), side.results.get(call.index)
        if not all(tensors) or side.below(call.module):
            continue
        content = tuple(
            (slot, tensor.dtype, tensor.shape, tensor.digest, tensor.norm, tensor.mean, tensor.projections)
            for each in tensors
            for slot, tensor in sorted((each or {}).items())
        )
        mode = call.flags & TRAINING, call.flags & GRAD
        calls.setdefault((call.window, call.name, *mode, call.arguments, call.autocast, content), []).append(call.index)
    return calls


def _add_functions(golden: Computed, candidate: Computed, found: dict[int, int]) -> None:
    """Functions within aligned calls, and those outside of every call, step by step."""
    counterpart = dict(found)
    for call in sorted(counterpart):
        _match(golden, golden.children.get(call, []), candidate, candidate.children.get(counterpart[call], []), found)
    ours, theirs = golden.children.get(-1, []), candidate.children.get(-1, [])
    for window in sorted({golden.calls[call].window for call in ours}):
        _match(
            golden,
            [call for call in ours if golden.calls[call].window == window],
            candidate,
            [call for call in theirs if candidate.calls[call].window == window],
            found,
        )


def _match(golden: Computed, ours: list[int], candidate: Computed, theirs: list[int], found: dict[int, int]) -> None:
    for name, calls in _functions(golden, ours).items():
        others = _functions(candidate, theirs).get(name, [])
        if len(calls) == len(others):
            found.update(zip(calls, others, strict=True))


def _functions(side: Computed, calls: list[int]) -> Mapping[str, list[int]]:
    named: dict[str, list[int]] = {}
    for call in calls:
        if side.calls[call].kind in ("function", "collective"):
            named.setdefault(side.calls[call].name, []).append(call)
    return named
