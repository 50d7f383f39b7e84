"""Replay: what is given the same gives the same, or the first place where not.

The condition is part of the rule: only a call whose inputs, parameters and random state are golden's, within rounding,
owes golden's result. Another seed, other data or another order of random draws meet it nowhere, so nothing is claimed.
After the first deviation the inputs are golden's no more, so that the root is told and not what follows. What was
recorded, how calls are matched and how far apart two results may be is in the package `replay`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pytest_traincheck.golden.model import Invariant, Kind, Scope
from pytest_traincheck.golden.recording import Recording
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, listed
from pytest_traincheck.replay import Claim, Comparison, compare, record, settled
from pytest_traincheck.trace import Run
from pytest_traincheck.trace.labels import Ints

_SENTENCES = {
    "module": "In the first steps, every part of `{subject}` that is given what golden's was gives what golden's gave",
    "function": "In the first steps, functions outside of every model that are given the same give the same",
    "batch": "In the first steps, batches of which the largest part is golden's are golden's in all",
    "together": "In the first steps, batches of golden's rows have golden's rows side by side",
    "told": "In the first steps, `{subject}` is told golden's numbers where all that came before is golden's",
    "loss": "In the first steps, `{subject}` starts from golden's loss where batch, parameters and random state are "
    "golden's",
    "gradient": "In the first steps, `{subject}` leaves golden's gradients where all that came before is golden's",
    "given": "In the first steps, `{subject}` is given golden's gradients where all that came before is golden's",
    "step": "In the first steps, `{subject}` moves parameters as in golden where values and gradients are golden's",
    "variable": "In the first steps, a step leaves golden's parameters and buffers where all that it did is golden's",
    "initial": "Parameters and buffers begin with golden's numbers where the random numbers drawn are golden's",
}
_OUTSIDE = "torch.nn.Parameter"


class Replay:
    """Calls of modules and functions, losses, gradients, updates and initial values, each where its condition holds."""

    name = "Replay"

    def layer(self, claim: Mapping[str, Any]) -> int:
        # Gradients and updates are what ranks have agreed upon: that they do not agree comes first.
        return 5 if claim["of"] in ("gradient", "step", "variable") else 4

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        recorded = record(run)
        if recorded is None:
            return
        # Against itself a run meets every condition that can be met.
        found = compare(recorded.recording, recorded, run.platform)
        for what, subject in dict.fromkeys((claim.what, claim.subject) for claim in found.claims):
            claim = {"of": what, "what": subject} if subject else {"of": what}
            yield Hypothesis(self.name, _subject(what, subject), claim, Kind.NUMERIC, Scope.PINNED)

    def recording(self, runs: Sequence[Run]) -> Recording | None:
        """What the first run computed, without the places where another was given the same and gave something else."""
        first, *others = runs
        return first.memo("settled", lambda: _settled(first, others))

    def examples(self, claim: Mapping[str, Any], run: Run) -> Examples:
        claims = _claims(claim, run)
        if not claims:
            return EMPTY
        return Examples(
            np.array([item.holds for item in claims]),
            np.array([item.process for item in claims]),
            np.array([item.row for item in claims]),
            np.zeros(len(claims), dtype=np.int64),
        )

    def sentence(self, claim: Mapping[str, Any], subject: str, when: str) -> str:
        before_a_step = claim["of"] == "gradient" and subject.endswith(".step")
        return _SENTENCES["given" if before_a_step else claim["of"]].format(subject=subject) + f"{when}."

    def finding(self, invariant: Invariant, run: Run, examples: Examples, broken: Ints) -> Finding:
        claims = _claims(invariant.claim, run)
        return _finding(invariant.subject, claims[int(broken[0])], run)


def comparison(recording: Recording, run: Run) -> Comparison | None:
    """A run against a recording; None where nothing was sketched in it."""
    recorded = record(run)
    if recorded is None:
        return None
    return run.memo(("replayed", id(recording)), lambda: compare(recording, recorded, run.platform))


def _claims(claim: Mapping[str, Any], run: Run) -> list[Claim]:
    found = comparison(claim["numbers"], run)
    wanted = claim["of"], claim.get("what", "")
    return [item for item in found.claims if (item.what, item.subject) == wanted] if found is not None else []


def _settled(first: Run, others: Sequence[Run]) -> Recording | None:
    recorded = record(first)
    if recorded is None:
        return None
    repeated = [found for run in others if (found := record(run)) is not None]
    return settled(recorded.recording, repeated, first.platform)


def _subject(what: str, subject: str) -> str:
    if what == "step":
        return f"{subject.partition('[')[0]}.step"
    if what == "loss":
        return "torch.autograd.backward"
    if what in ("batch", "together"):
        return "torch.utils.data.DataLoader"
    return subject or _OUTSIDE


def _place(run: Run, claim: Claim) -> str:
    """Where in the user's code the first difference shows."""
    if claim.first is None or claim.first_row < 0:
        return ""
    source = run.processes[claim.process].source(claim.first_row)
    return f"; the first difference shows at {source}" if source else ""


def _finding(subject: str, claim: Claim, run: Run) -> Finding:
    off, allowed = _share(claim.off), _share(claim.allowed)
    apart = f"{off} off, where rounding explains {allowed}"
    inside = f"; {claim.first.text}" if claim.first is not None else ""
    names = listed(claim.names)
    if claim.what in ("module", "function"):
        return Finding(
            f"`{claim.name}` is given what golden's was and gives something else{inside}.",
            "result as recorded, from the same inputs, parameters and random state",
            f"result {apart}{_place(run, claim)}",
        )
    if claim.what == "batch":
        other = listed(claim.names)
        return Finding(
            f"`{claim.name}` gives another {other} with golden's `{claim.beside}`: what belongs together has changed.",
            f"`{claim.beside}` with {other} as recorded",
            f"the same `{claim.beside}` with another {other}",
        )
    if claim.what == "together":
        return Finding(
            f"`{claim.name}` gives golden's `{claim.beside}` and golden's {names}, but other rows of them side by "
            "side: what belongs together has changed.",
            f"each row of `{claim.beside}` with its own of {names}",
            f"rows of `{claim.beside}` with those of others",
        )
    golden, candidate = ("", "")
    if claim.values is not None:
        golden, candidate = (f"{value:.6g}" for value in claim.values)
    if claim.what == "told":
        numbers = f", {candidate} instead of {golden}" if candidate else ""
        return Finding(
            f"`{claim.name}` is told another {names}{numbers}, though all that came before is golden's.",
            f"{names} {golden or 'as recorded'}",
            f"{names} {candidate or apart}",
        )
    if claim.what == "loss":
        numbers = f", {candidate} instead of {golden}" if claim.values is not None else ""
        return Finding(
            f"`backward` starts from another loss{numbers}, though batch, parameters and random state are golden's"
            f"{inside}.",
            f"loss {golden or 'as recorded'} of the same batch and parameters",
            f"loss {candidate}, {apart}" if candidate else f"loss {apart}",
        )
    if claim.what == "gradient" and claim.name.endswith(".step"):
        return Finding(
            f"`{claim.name}` is given other gradients, though those that `backward` left are golden's: {names}.",
            "gradients as recorded",
            f"gradient of `{claim.names[0]}` {apart}",
            variables=claim.names,
        )
    if claim.what == "gradient":
        return Finding(
            f"`{claim.name}` leaves other gradients, though the loss and all that came before are golden's: {names}.",
            "gradients as recorded",
            f"gradient of `{claim.names[0]}` {apart}",
            variables=claim.names,
        )
    if claim.what == "step":
        return Finding(
            f"`{subject}` moves {names} otherwise than in golden, though value, gradient and hyper-parameters are the "
            "same.",
            "update as recorded",
            f"update of `{claim.names[0]}` {apart}",
            variables=claim.names,
        )
    if claim.what == "variable":
        return Finding(
            f"{names} {'is' if len(claim.names) == 1 else 'are'} not golden's after a step whose batch, gradients and "
            "updates are.",
            "change as recorded",
            f"change of `{claim.names[0]}` {apart}",
            variables=claim.names,
        )
    return Finding(
        f"{names} {'begins' if len(claim.names) == 1 else 'begin'} with other numbers, though the random numbers drawn "
        "are golden's.",
        "initial numbers as recorded",
        f"`{claim.names[0]}` {apart}",
        variables=claim.names,
    )


def _share(value: float) -> str:
    """0.0012 as `0.12 %`."""
    if value > 10:
        return f"{value:.3g} times golden's size" if value < 1e6 else "beyond comparison"
    if value >= 0.0995:
        return f"{100 * value:.0f} %"
    return f"{100 * value:.2g} %" if value >= 1e-6 else "less than 0.0001 %"
