"""What `Replay` says: its rules, and the place where the golden run's result did not come."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pytest_traincheck.optimizer_label import BY_HAND
from pytest_traincheck.relations.base import Finding, listed
from pytest_traincheck.relations.meaning import Deviation
from pytest_traincheck.replay import Claim
from pytest_traincheck.replay.later import BATCH, INPUT, LOSS, UPDATE
from pytest_traincheck.trace.slots import argument, is_singular, part_of_batch, parts_of_batch

What = Literal[
    "module", "function", "batch", "together", "told", "loss", "gradient", "step", "variable", "initial", "later"
]
"""What a rule may be about, as in `Claim.what`."""

_RULES = {
    "module": "In the first steps, every module of `{subject}` returns the same as in the golden run if its inputs, "
    "parameters and random state are the same",
    "function": "In the first steps, functions called outside of every model return the same as in the golden run if "
    "their arguments are the same",
    "batch": "In the first steps, all tensors of a batch are those of the golden run if the batch holds the same "
    "examples",
    "together": "In the first steps, a batch with the same rows as in the golden run pairs them in the same way",
    "told": "In the first steps, `{subject}` is given the same numbers as in the golden run if everything before it is "
    "the same",
    "loss": "In the first steps, `{subject}` starts from the same loss as in the golden run if batch, parameters and "
    "random state are the same",
    "gradient": "In the first steps, `{subject}` leaves the same gradients as in the golden run if everything before "
    "it is the same",
    "given": "In the first steps, `{subject}` is given the same gradients as in the golden run if everything before it "
    "is the same",
    "step": "In the first steps, `{subject}` updates parameters as in the golden run if values and gradients are the "
    "same",
    "variable": "In the first steps, parameters and buffers have the same values after a training step as in the "
    "golden run if batch, gradients and updates are the same",
    "initial": "Parameters and buffers begin with the same values as in the golden run if the same random numbers are "
    "drawn",
    "later": "Behind the first steps, every training step is given the same batches and inputs and has the same loss, "
    "gradients and update as in the golden run as long as everything before it is the same to the last bit",
}


def rule(what: str, subject: str, when: str) -> str:
    """The sentence of a rule about `what`, as in `Claim`."""
    before_a_step = what == "gradient" and subject.endswith(".step")
    return _RULES["given" if before_a_step else what].format(subject=subject) + f"{when}."


def deviation(subject: str, claim: Claim, first_source: str) -> Finding:
    """What a claim that does not hold says; `first_source` is where in the user's code its first difference shows."""
    found = _DEVIATIONS[claim.what](subject, claim, f"; the first difference is at {first_source}" * bool(first_source))
    finite = claim.values is None or math.isfinite(claim.values[1])
    return found if finite else replace(found, deviation=Deviation.NOT_FINITE)


def _result(_subject: str, claim: Claim, place: str) -> Finding:
    what, does = (
        (claim.beside, "applies softmax to different scores")
        if claim.beside
        else ("result", "returns a different result")
    )
    if claim.names:
        does = f"returns a different {' and '.join(_part_of_result(name) for name in claim.names)}"
    return Finding(
        f"`{claim.name}` {does} than in the golden run, though inputs, parameters and random state are the "
        f"same{_here(claim)}{_inside(claim)}.",
        f"the recorded {what}, from the same inputs, parameters and random state",
        f"{what} {_apart(claim)}{place}",
    )


def _part_of_result(slot: str) -> str:
    """`out.1` as "`result[1]`"."""
    return argument(f"result.{slot.partition('.')[2]}")


def _batch(_subject: str, claim: Claim, _place: str) -> Finding:
    if not claim.beside:
        return _whole_batch(claim)
    kept, other = part_of_batch(claim.beside, claim.roles), parts_of_batch(claim.names, claim.roles)
    return Finding(
        f"`{claim.name}` returns a batch in which {kept} {_is([claim.beside], claim)} as in the golden run, but "
        f"{other} {_is(claim.names, claim)} different: made in another way, or of other examples.",
        f"{kept} with {other} as recorded",
        f"the same as recorded: {kept}; different: {other}",
    )


def _whole_batch(claim: Claim) -> Finding:
    whole = claim.names == ("out",)
    what = "the batch" if whole else parts_of_batch(claim.names, claim.roles)
    return Finding(
        f"`{claim.name}` returns {'a different batch' if whole else f'a batch with different {what}'} than in the "
        "golden run, though it is made of the same examples and with the same random numbers.",
        f"{what} as recorded",
        f"{what if whole else part_of_batch(claim.names[0], claim.roles)} "
        f"{f'{_share(claim.off)} off' if math.isfinite(claim.off) else 'not as recorded'}",
    )


def _together(_subject: str, claim: Claim, _place: str) -> Finding:
    kept, other = part_of_batch(claim.beside, claim.roles), parts_of_batch(claim.names, claim.roles)
    return Finding(
        f"`{claim.name}` returns a batch with the same rows of {kept} and of {other} as in the golden run, but pairs "
        "them differently: parts of the same example no longer belong together.",
        f"each row of {kept} beside its own row of {other}",
        f"rows of {kept} beside rows of {other} that belong to other examples",
    )


def _is(paths: Sequence[str], claim: Claim) -> str:
    return "is" if is_singular(paths, claim.roles) else "are"


def _scheduled(_subject: str, claim: Claim, _place: str) -> Finding:
    names = ", ".join(argument(name) for name in claim.names)
    golden, candidate = _values(claim)
    numbers = f", {candidate} instead of {golden}" if candidate else " than in the golden run"
    return Finding(
        f"`{claim.name}` is given a different {names}{numbers}, though everything before it is the same{_here(claim)}.",
        f"{names} {golden or 'as recorded'}",
        f"{names} {candidate or _apart(claim)}",
    )


def _loss(_subject: str, claim: Claim, _place: str) -> Finding:
    golden, candidate = _values(claim)
    numbers = f", {candidate} instead of {golden}" if candidate else " than in the golden run"
    if claim.first is not None and claim.first.of_parameters:
        return Finding(
            f"`backward` starts from a different loss{numbers}: parameters have been written to differently than in "
            f"the golden run since the step began{_inside(claim)}.",
            f"loss {golden or 'as recorded'}",
            f"loss {candidate}, {_apart(claim)}" if candidate else f"loss {_apart(claim)}",
        )
    return Finding(
        f"`backward` starts from a different loss{numbers}, though batch, parameters and random state are the same"
        f"{_here(claim)}{_inside(claim)}{_weights(claim)}.",
        f"loss {golden or 'as recorded'}, from the same batch and parameters",
        f"loss {candidate}, {_apart(claim)}" if candidate else f"loss {_apart(claim)}",
    )


_BEHIND = ", behind a call that returns something else"


def _gradient(_subject: str, claim: Claim, _place: str) -> Finding:
    if claim.name.endswith(".step"):
        title = (
            f"`{claim.name}` is given different gradients of {listed(claim.names)} than in the golden run, though "
            f"`backward` computed the same{_here(claim)}."
        )
    else:
        same = f", though the loss and everything before it are the same{_here(claim)}"
        title = (
            f"`{claim.name}` leaves different gradients of {listed(claim.names)} than in the golden run"
            f"{_BEHIND if claim.behind else same}."
        )
    return Finding(title, "gradients as recorded", _off(claim, "gradient"), variables=claim.names)


def _step(subject: str, claim: Claim, _place: str) -> Finding:
    by_hand = subject == f"{BY_HAND}.step"
    groups = "" if by_hand else ", and so are the hyperparameters of its groups"
    same = f", though values and gradients are the same{groups}"
    if claim.behind:
        same = _BEHIND
    if claim.factor is not None:
        why = ", as another learning rate does" if by_hand else ""
        return Finding(
            f"`{subject}` moves {listed(claim.names)} {claim.factor:.3g} times as far as in the golden run{why}{same}.",
            "update as recorded",
            f"update {claim.factor:.3g} times as large, of all parameters alike",
            variables=claim.names,
        )
    return Finding(
        f"`{subject}` updates {listed(claim.names)} differently than in the golden run{same}.",
        "update as recorded",
        _off(claim, "update"),
        variables=claim.names,
    )


def _variable(_subject: str, claim: Claim, _place: str) -> Finding:
    same = f", though the batch, gradients and updates of the step are the same{_here(claim)}"
    return Finding(
        f"{listed(claim.names)} {'has' if len(claim.names) == 1 else 'have'} different values than in the golden run "
        f"after a training step{_BEHIND if claim.behind else same}.",
        "change as recorded",
        _off(claim, "change"),
        variables=claim.names,
    )


def _initial(_subject: str, claim: Claim, _place: str) -> Finding:
    if claim.step:
        return Finding(
            f"{listed(claim.names)} {'has' if len(claim.names) == 1 else 'have'} different values than in the golden "
            "run where training goes on, though all parameters that are trained are the same: not restored, or made "
            "again.",
            "values as recorded",
            f"`{claim.names[0]}` {_apart(claim)}",
            variables=claim.names,
        )
    return Finding(
        f"{listed(claim.names)} {'begins' if len(claim.names) == 1 else 'begin'} with different values than in the "
        "golden run, though the same random numbers are drawn.",
        "initial values as recorded",
        f"`{claim.names[0]}` {_apart(claim)}",
        variables=claim.names,
    )


def _later(_subject: str, claim: Claim, _place: str) -> Finding:
    """A step behind those that are recorded call by call."""
    step, names = claim.step, listed(claim.names)
    so_far = f"though all steps before it are the golden run's to the last bit{_here(claim)}"
    if claim.beside == INPUT:
        return Finding(
            f"In step {step} {names} is given something else than in the golden run, {so_far} and the same random "
            "numbers are drawn: the input is made otherwise, or from something that is kept from step to step.",
            "the golden run's input",
            "another one",
        )
    if claim.beside == BATCH:
        return Finding(
            f"In step {step} another batch is loaded than in the golden run, {so_far} and the same random numbers are "
            "drawn.",
            "the golden run's batch",
            "another one",
        )
    if claim.beside == UPDATE:
        return Finding(
            f"`{claim.name}` leaves other values of {names} in step {step} than in the golden run, though all steps "
            "before it, the gradients and the learning rate are the golden run's to the last bit.",
            "the golden run's values after the step",
            f"other ones, with which the next loss is {_share(claim.off)} off",
            variables=claim.names,
        )
    golden, candidate = _values(claim)
    if claim.beside == LOSS:
        why = _behind(claim)
        return Finding(
            f"In step {step} `backward` starts from a different loss, {candidate} instead of {golden}, {so_far} and "
            f"it is given the same{why}.",
            f"loss {golden}",
            f"loss {candidate}, {_apart(claim)}",
            variables=claim.names,
        )
    return Finding(
        f"In step {step} `{claim.name}` is given different gradients of {names}, their norm {candidate} instead of "
        f"{golden}, {so_far}{'' if claim.among else ' and the loss is the same'}.",
        f"gradients of norm {golden}",
        f"gradients of norm {candidate}, {_apart(claim)}",
        variables=claim.names,
    )


def _behind(claim: Claim) -> str:
    """What else is different where a loss is."""
    if claim.weighed is not None:
        return _weights(claim)
    if claim.names:
        have = "has" if len(claim.names) == 1 else "have"
        return f"; {listed(claim.names)} {have} other values from step {claim.since} on"
    if claim.same:
        return f"; {listed(claim.same)} returned the same: a weight of a term, or another term, is different"
    return f"; the first number that differs is what `{claim.function}` returns" if claim.function else ""


def _weights(claim: Claim) -> str:
    """The weights of terms that are other ones."""
    if claim.weighed is None:
        return ""
    pairs = [(f"{golden:.4g}", f"{candidate:.4g}") for golden, candidate in claim.weighed.pairs]
    whole, many = claim.weighed.terms == 1, len(pairs) > 1
    changed = " and ".join(f"{candidate} instead of {golden}" for golden, candidate in list(dict.fromkeys(pairs))[:3])
    return f"; {'it is' if whole else 'terms of it are' if many else 'a term of it is'} multiplied by {changed}"


_DEVIATIONS: Mapping[str, Callable[[str, Claim, str], Finding]] = {
    "module": _result,
    "function": _result,
    "batch": _batch,
    "together": _together,
    "told": _scheduled,
    "loss": _loss,
    "gradient": _gradient,
    "step": _step,
    "variable": _variable,
    "initial": _initial,
    "later": _later,
}


def _here(claim: Claim) -> str:
    """Of several ranks it is the one that is spoken of: others may have been given something else."""
    return " on this rank" if claim.among else ""


def _inside(claim: Claim) -> str:
    return f"; {claim.first.text}" if claim.first is not None else ""


def _values(claim: Claim) -> tuple[str, str]:
    """What both were, where it is one number."""
    if claim.values is None:
        return "", ""
    golden, candidate = claim.values
    return f"{golden:.6g}", f"{candidate:.6g}"


def _off(claim: Claim, what: str) -> str:
    return f"{what} of `{claim.names[0]}` {_apart(claim)}"


def _apart(claim: Claim) -> str:
    return f"differs by {_share(claim.off)}, where rounding explains {_share(claim.allowed)}"


def _share(value: float) -> str:
    """0.0012 as `0.12 %`."""
    if value > 10:
        return f"{value:.3g} times the golden run's size" if value < 1e6 else "more than a million times its size"
    if value >= 0.0995:
        return f"{100 * value:.0f} %"
    return f"{100 * value:.2g} %" if value >= 1e-6 else "less than 0.0001 %"
