"""What `Replay` says: its rules, and the place where golden's result did not come."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from pytest_traincheck.relations.base import Finding, listed
from pytest_traincheck.relations.meaning import Deviation
from pytest_traincheck.replay import Claim
from pytest_traincheck.trace.slots import argument, part_of_batch, parts_of_batch

What = Literal["module", "function", "batch", "together", "told", "loss", "gradient", "step", "variable", "initial"]
"""What a rule may be about, as in `Claim.what`."""

_RULES = {
    "module": "In the first steps, every module of `{subject}` returns what it did in golden where inputs, parameters "
    "and random state are the same",
    "function": "In the first steps, functions called outside of every model return what they did in golden where they "
    "are given the same",
    "batch": "In the first steps, a batch that holds golden's examples is golden's as a whole",
    "together": "In the first steps, a batch of golden's rows has the same rows side by side as in golden",
    "told": "In the first steps, `{subject}` is told the same numbers as in golden where everything before it is the "
    "same",
    "loss": "In the first steps, `{subject}` starts from the same loss as in golden where batch, parameters and random "
    "state are the same",
    "gradient": "In the first steps, `{subject}` leaves the same gradients as in golden where everything before it is "
    "the same",
    "given": "In the first steps, `{subject}` is given the same gradients as in golden where everything before it is "
    "the same",
    "step": "In the first steps, `{subject}` updates parameters as in golden where values and gradients are the same",
    "variable": "In the first steps, a training step leaves the same parameters and buffers as in golden where batch, "
    "gradients and updates are the same",
    "initial": "Parameters and buffers begin with the same values as in golden where the same random numbers are drawn",
}


def rule(what: str, subject: str, when: str) -> str:
    """The sentence of a rule about `what`, as in `Claim`."""
    before_a_step = what == "gradient" and subject.endswith(".step")
    return _RULES["given" if before_a_step else what].format(subject=subject) + f"{when}."


def deviation(subject: str, claim: Claim, first_source: str) -> Finding:
    """What a claim that does not hold says; `first_source` is where in the user's code its first difference shows."""
    found = _DEVIATIONS[claim.what](
        subject, claim, f"; the first difference shows at {first_source}" * bool(first_source)
    )
    finite = claim.values is None or math.isfinite(claim.values[1])
    return found if finite else replace(found, deviation=Deviation.NOT_FINITE)


def _result(_subject: str, claim: Claim, place: str) -> Finding:
    what, does = (claim.beside, "weighs other scores") if claim.beside else ("result", "returns something else")
    return Finding(
        f"`{claim.name}` {does} than in golden, though inputs, parameters and random state are the "
        f"same{_inside(claim)}.",
        f"{what} as recorded, from the same inputs, parameters and random state",
        f"{what} {_apart(claim)}{place}",
    )


def _batch(_subject: str, claim: Claim, _place: str) -> Finding:
    kept, other = part_of_batch(claim.beside), parts_of_batch(claim.names)
    return Finding(
        f"`{claim.name}` returns a batch with golden's {kept}, but another {other}: what belongs together no longer "
        "does.",
        f"{kept} with {other} as recorded",
        f"the same {kept} with another {other}",
    )


def _together(_subject: str, claim: Claim, _place: str) -> Finding:
    kept, other = part_of_batch(claim.beside), parts_of_batch(claim.names)
    return Finding(
        f"`{claim.name}` returns a batch with golden's rows of {kept} and of {other}, but other rows side by side: "
        "what belongs together no longer does.",
        f"each row of {kept} beside its own of {other}",
        f"rows of {kept} beside those of others",
    )


def _told(_subject: str, claim: Claim, _place: str) -> Finding:
    names = ", ".join(argument(name) for name in claim.names)
    golden, candidate = _values(claim)
    numbers = f", {candidate} instead of {golden}" if candidate else " than in golden"
    return Finding(
        f"`{claim.name}` is told another {names}{numbers}, though everything before it is the same.",
        f"{names} {golden or 'as recorded'}",
        f"{names} {candidate or _apart(claim)}",
    )


def _loss(_subject: str, claim: Claim, _place: str) -> Finding:
    golden, candidate = _values(claim)
    numbers = f", {candidate} instead of {golden}" if candidate else " than in golden"
    return Finding(
        f"`backward` starts from another loss{numbers}, though batch, parameters and random state are the same"
        f"{_inside(claim)}.",
        f"loss {golden or 'as recorded'} of the same batch and parameters",
        f"loss {candidate}, {_apart(claim)}" if candidate else f"loss {_apart(claim)}",
    )


def _gradient(_subject: str, claim: Claim, _place: str) -> Finding:
    if claim.name.endswith(".step"):
        title = (
            f"`{claim.name}` is given other gradients than in golden, though `backward` left the same: "
            f"{listed(claim.names)}."
        )
    else:
        title = (
            f"`{claim.name}` leaves other gradients than in golden, though the loss and everything before it are the "
            f"same: {listed(claim.names)}."
        )
    return Finding(title, "gradients as recorded", _off(claim, "gradient"), variables=claim.names)


def _step(subject: str, claim: Claim, _place: str) -> Finding:
    return Finding(
        f"`{subject}` updates {listed(claim.names)} otherwise than in golden, though values, gradients and "
        "hyperparameters are the same.",
        "update as recorded",
        _off(claim, "update"),
        variables=claim.names,
    )


def _variable(_subject: str, claim: Claim, _place: str) -> Finding:
    return Finding(
        f"{listed(claim.names)} {'has' if len(claim.names) == 1 else 'have'} other values than in golden after a "
        "training step, though its batch, gradients and updates are the same.",
        "change as recorded",
        _off(claim, "change"),
        variables=claim.names,
    )


def _initial(_subject: str, claim: Claim, _place: str) -> Finding:
    return Finding(
        f"{listed(claim.names)} {'begins' if len(claim.names) == 1 else 'begin'} with other values than in golden, "
        "though the same random numbers are drawn.",
        "initial values as recorded",
        f"`{claim.names[0]}` {_apart(claim)}",
        variables=claim.names,
    )


_DEVIATIONS: Mapping[str, Callable[[str, Claim, str], Finding]] = {
    "module": _result,
    "function": _result,
    "batch": _batch,
    "together": _together,
    "told": _told,
    "loss": _loss,
    "gradient": _gradient,
    "step": _step,
    "variable": _variable,
    "initial": _initial,
}


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
    return f"{_share(claim.off)} off, where rounding explains {_share(claim.allowed)}"


def _share(value: float) -> str:
    """0.0012 as `0.12 %`."""
    if value > 10:
        return f"{value:.3g} times golden's size" if value < 1e6 else "beyond comparison"
    if value >= 0.0995:
        return f"{100 * value:.0f} %"
    return f"{100 * value:.2g} %" if value >= 1e-6 else "less than 0.0001 %"
