"""How rules about random draws, and what breaks them, are put into words."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_traincheck.relations.base import Finding, listed
from pytest_traincheck.relations.drawn_beside import BESIDE, LEAST, MOST, WITH
from pytest_traincheck.relations.drawn_claims import (
    WORDS,
    AnyClaim,
    DrawnAbout,
    DrawnAtAll,
    DrawnBeside,
    DrawnByEvaluation,
    DrawnByExample,
    DrawnByStep,
    DrawnInCalls,
    at_a_time,
    key,
)
from pytest_traincheck.relations.drawn_places import elsewhere
from pytest_traincheck.relations.draws import BY_KERNEL
from pytest_traincheck.relations.given import largest_by_step
from pytest_traincheck.relations.meaning import Deviation
from pytest_traincheck.text import plural
from pytest_traincheck.trace import Process


def rule(claim: AnyClaim, when: str) -> str:
    """The rule in plain English."""
    who = WORDS[claim.generator]
    if isinstance(claim, DrawnInCalls):
        return f"`{claim.api}` draws random numbers in training{when}."
    if isinstance(claim, (DrawnByStep, DrawnByEvaluation)) and claim.generator == BY_KERNEL:
        doing = (
            "Each of the first training steps draws"
            if isinstance(claim, DrawnByStep)
            else "Models that are called without gradients after the last step draw"
        )
        return f"{doing} random numbers from {who} where the golden runs did, and nowhere else{when}."
    if isinstance(claim, DrawnByStep):
        return f"Each of the first training steps draws as many numbers from {who} as in the golden runs{when}."
    if isinstance(claim, DrawnByEvaluation):
        return (
            f"Models that are called without gradients after the last step draw as many numbers from {who} as in the "
            f"golden runs{when}."
        )
    if isinstance(claim, DrawnByExample):
        return f"Workers draw as many numbers from {who} for each example as in the golden runs{when}."
    if isinstance(claim, DrawnBeside):
        return f"Training steps draw more numbers from {who} than those that are as many in all golden runs{when}."
    if isinstance(claim, DrawnAbout):
        return f"Training steps draw about as many numbers from {who} as in the golden runs{when}."
    doing = "Training steps draw" if claim.within == "steps" else "Workers that make batches draw"
    return f"{doing} random numbers from {who}{when}."


def of_step(claim: DrawnByStep, process: Process, step: int, seen: int) -> Finding:
    """A step that draws another number than golden's."""
    numbers = claim.numbers
    who = WORDS[claim.generator]
    wanted = int(numbers.low[numbers.position[key(process, step)]])
    if (found := _of_other_batches(claim, process, step, seen, wanted)) is not None:
        return found
    known = elsewhere(process, step, numbers, wanted) if claim.generator == "torch" else None
    here = seen if known is None else known.numbers
    deviation = Deviation.LACKING if not here else Deviation.FEWER if seen < wanted else Deviation.DIFFERENT
    if known is not None:
        return Finding(
            known.title, known.golden, known.candidate, place=known.source, value=known.candidate, deviation=deviation
        )
    # What a closure draws is counted for the step that comes next.
    when = " before its optimizer step began" if _goes_backward_within(process, step) else ""
    return Finding(
        f"In the golden run step {step} drew {_worded(claim, wanted)} from {who}{when}; in the candidate "
        f"{_short(claim, seen)}.",
        f"{_worded(claim, wanted)} drawn for the step",
        f"{_worded(claim, seen)} drawn",
        value=str(seen),
        deviation=deviation,
    )


def _goes_backward_within(process: Process, step: int) -> bool:
    """Whether the backward pass of a step lies in a closure of its optimizer."""
    backward = process.rows_of_type("autograd")
    backward = backward[process.inside("optimizer")[backward]]
    return bool((process.window[backward] == step).any())


def _of_other_batches(claim: DrawnByStep, process: Process, step: int, seen: int, wanted: int) -> Finding | None:
    """A step that draws more or less as batches are larger or smaller than golden's: that comes first."""
    place = claim.numbers.position.get(at_a_time(process, step))
    size = largest_by_step(process).get(step, 0)
    usual = int(claim.numbers.low[place]) if place is not None else size
    if (size > usual) != (seen > wanted) or (size < usual) != (seen < wanted):
        return None
    return Finding(
        f"In the golden run models were given {plural(usual, 'example')} at a time in step {step}; in the candidate "
        f"{size}, so that {'more' if seen > wanted else 'fewer'} numbers were drawn from {WORDS[claim.generator]}: "
        f"{seen} instead of {wanted}.",
        f"{plural(usual, 'example')} at a time, {_count(wanted)}",
        f"{plural(size, 'example')}, {_count(seen)}",
        value=str(size),
    )


def of_evaluation(claim: DrawnByEvaluation, process: Process, row: int, seen: int) -> Finding:
    """An evaluation that does."""
    step = process.step_number(row)
    wanted = int(claim.numbers.low[claim.numbers.position[key(process, step)]])
    return Finding(
        f"In the golden run models that were called without gradients after {plural(step, 'step')} drew "
        f"{_worded(claim, wanted)} from {WORDS[claim.generator]}; in the candidate {_short(claim, seen)}.",
        f"{_worded(claim, wanted)} drawn",
        f"{_worded(claim, seen)} drawn",
        value=str(seen),
        deviation=Deviation.LACKING if not seen else Deviation.FEWER if seen < wanted else Deviation.DIFFERENT,
    )


def _count(numbers: int) -> str:
    return "no random number" if not numbers else "1 random number" if numbers == 1 else f"{numbers} random numbers"


def _worded(claim: DrawnByStep | DrawnByEvaluation, numbers: int) -> str:
    """So many random numbers; of those that a GPU draws that there were any."""
    return "random numbers" if numbers and claim.generator == BY_KERNEL else _count(numbers)


def _short(claim: DrawnByStep | DrawnByEvaluation, numbers: int) -> str:
    """The same, where it is known what is counted."""
    return "none" if not numbers else "some" if claim.generator == BY_KERNEL else str(numbers)


def of_examples(claim: DrawnByExample, broken: Sequence[str]) -> Finding:
    """Examples for which workers draw another number."""
    who = WORDS[claim.generator]
    known = [f"{rate:g}" for rate in claim.rates if rate]
    wanted, seen = " or ".join(known), " and ".join(rate for rate in broken if rate not in known)
    if not seen and set(broken) == set(known) and 0 not in claim.rates:
        return Finding(
            f"In the golden run workers drew {wanted} random numbers from {who} for each example; in the candidate "
            "none.",
            f"{wanted} random numbers for each example",
            "none",
            deviation=Deviation.LACKING,
        )
    if not seen:
        gone = " and ".join(broken)
        return Finding(
            f"In the golden run workers drew {gone} random numbers from {who} for some examples; in the candidate "
            "they never do.",
            f"{gone} random numbers for an example",
            "never so many",
            deviation=Deviation.LACKING,
        )
    return Finding(
        f"In the golden run workers drew {wanted} random numbers from {who} for each example; in the candidate {seen}.",
        f"{wanted} random numbers for each example",
        seen,
        value=seen,
    )


def of_calls(claim: DrawnInCalls, module: str) -> Finding:
    """A function, or modules of a class, that no longer draw; where that was first seen."""
    where = f" in `{module}`" if module else ""
    return Finding(
        f"In the golden run `{claim.api}` drew random numbers in each training step; in the candidate it draws "
        f"none{where}.",
        "draws random numbers",
        "draws none",
        deviation=Deviation.LACKING,
    )


def of_beside(claim: DrawnBeside) -> Finding:
    """Steps that no longer draw what golden's draw in whatever number."""
    names = [name.removeprefix(WITH) for name in claim.numbers.names if name.startswith(WITH)]
    drawn = f" with {listed(names)}" if names else ""
    number = plural(int(claim.numbers.low[claim.numbers.position[BESIDE]]), "other")
    return Finding(
        f"In the golden run every training step drew random numbers{drawn}, beside {number}; in the candidate no step "
        f"draws more than those {number}, so they are drawn before the loop or not at all.",
        f"drawn in every step{drawn}",
        "not drawn in any step",
        deviation=Deviation.LACKING,
    )


def of_about(claim: DrawnAbout, seen: Sequence[str]) -> Finding:
    """Steps that all draw far fewer numbers than golden's, or far more."""
    least, most = (int(claim.numbers.low[claim.numbers.position[name]]) for name in (LEAST, MOST))
    found = sorted({int(float(count)) for count in seen})
    now = str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"
    fewer = found[-1] < least
    return Finding(
        f"In the golden run each training step drew {least} to {most} random numbers from {WORDS[claim.generator]}; in "
        f"the candidate {now}{': one is drawn for what had several, or for a whole batch' if fewer else ''}.",
        f"{least} to {most} drawn in each step",
        f"{now} drawn",
        value=now,
        deviation=Deviation.LACKING if not found[-1] else Deviation.FEWER if fewer else Deviation.DIFFERENT,
    )


def of_nothing(claim: DrawnAtAll) -> Finding:
    """Nothing is drawn any more."""
    who = WORDS[claim.generator]
    doing = "in training steps" if claim.within == "steps" else "by the workers that make batches"
    return Finding(
        f"In the golden run random numbers were drawn from {who} {doing}; in the candidate none are.",
        f"drawn from {who}",
        "not drawn",
        deviation=Deviation.LACKING,
    )
