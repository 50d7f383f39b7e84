"""Rules about how something is computed, where replay shows that the same comes out.

A function may be told what it does by default, or in other words (`scale=1/sqrt(d)`, a sum that is divided afterwards);
an initialisation may take another way to the same numbers. When the very call, loss or initial numbers that a broken
rule is about were computed from golden's inputs and are golden's to the last digits, nothing has changed.
"""

from __future__ import annotations

from pytest_traincheck.golden.model import Invariant, Kind
from pytest_traincheck.relations import Examples, vocabulary
from pytest_traincheck.relations.quantities import ACTIVATION, LOSS
from pytest_traincheck.replay import Claim, Comparison
from pytest_traincheck.trace import Run
from pytest_traincheck.trace.labels import Ints

LAST_DIGITS = 2.0**-20
"""Relative distance up to which a result is golden's; far less than rounding is allowed elsewhere, since a changed
`eps` must not pass.
"""

_FUNCTIONS = (vocabulary.F, vocabulary.MASKING, "torch.Tensor.masked_fill")
"""Functions that one can write in other words. What is between `backward` and the step is not among them."""

_OF_THE_LOSS = ("LossScale", "LossTerms", "DataFlow")


def excuse(invariant: Invariant, run: Run, examples: Examples, broken: Ints, replayed: Comparison) -> str:
    """Why a broken rule is none, in words; empty where nothing speaks for it. `broken` is in order of time."""
    about_losses = invariant.relation in _OF_THE_LOSS or invariant.claim.get("quantity") in (LOSS, ACTIVATION)
    if invariant.kind is Kind.CONFIG:
        return ""
    if invariant.relation == "Initialised":
        return "the initial numbers are golden's" if _is_golden(replayed, "initial", 0, "") else ""
    if invariant.relation in ("Count", "EventContain") and _names_a_function(invariant):
        return "all results are golden's" if _all_hold(replayed) else ""
    moved_border = invariant.relation == "Replay" and invariant.claim["of"] in ("module", "function")
    of_a_call = moved_border or (invariant.relation == "APIArg" and "argument" in invariant.claim)
    if not of_a_call and not about_losses:
        return ""
    # Each module the first time: later steps were not compared, and do there what they did in the first.
    first: dict[tuple[int, str], int] = {}
    for position in broken.tolist():
        process, row = int(examples.process[position]), int(examples.row[position])
        first.setdefault((process, run.processes[process].module_name(row)), row)
    excused = all(_excused(run, replayed, process, module, row) for (process, module), row in first.items())
    return "the result is golden's" if excused else ""


def _names_a_function(invariant: Invariant) -> bool:
    """Whether a rule says that a function is called which one can write in other words."""
    named = (invariant.subject, *invariant.claim.values())
    return any(isinstance(item, str) and item.startswith(_FUNCTIONS) for item in named)


def _all_hold(replayed: Comparison) -> bool:
    """Whether losses and gradients were compared in two steps, and nothing that was compared deviates."""
    steps = {claim.step for claim in replayed.claims if claim.what == "loss"}
    later = {claim.step for claim in replayed.claims if claim.what == "gradient"}
    return len(steps & later) > 1 and all(claim.holds for claim in replayed.claims)


def _excused(run: Run, replayed: Comparison, process: int, module: str, row: int) -> bool:
    step = run.processes[process].step_number(row)
    if module and _is_golden(replayed, "module", step, module, process):
        return True
    return all(_is_golden(replayed, what, step, "", process) for what in ("loss", "gradient"))


def _is_golden(replayed: Comparison, what: str, step: int, module: str, process: int | None = None) -> bool:
    """Whether a result was compared in a step, and every time it was golden's."""
    found = [claim for claim in replayed.claims if _concerns(claim, what, module) and process in (None, claim.process)]
    here = [claim for claim in found if claim.step == step]
    return bool(here) and all(claim.holds and claim.off <= LAST_DIGITS for claim in found)


def _concerns(claim: Claim, what: str, module: str) -> bool:
    return claim.what == what and (not module or claim.name == module)
