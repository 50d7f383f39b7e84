"""Rules about how something is computed, where replay shows that the same comes out.

A function may be given what it does by default, or be written in other words (`scale=1/sqrt(d)`, a sum that is divided
afterwards); an initialisation may take another way to the same numbers.
When the very call, loss or initial numbers that a broken
rule is about were computed from golden's inputs and are golden's to the last digits, nothing has changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_traincheck.relations import Examples, meaning_of, vocabulary
from pytest_traincheck.relations.meaning import Excuse
from pytest_traincheck.replay import Claim, Comparison
from pytest_traincheck.rules.model import Invariant, Kind
from pytest_traincheck.text import plural
from pytest_traincheck.trace import Run
from pytest_traincheck.trace.labels import Ints

LAST_DIGITS = 2.0**-20
"""Relative distance up to which a result is golden's; far less than rounding is allowed elsewhere, since a changed
`eps` must not pass.
"""

_MASKS = (vocabulary.MASKING, "torch.Tensor.masked_fill")
_FUNCTIONS = (vocabulary.F, *_MASKS)
"""Functions that one can write in other words. What is between `backward` and the step is not among them."""

_STEPS = 2
"""Steps that must have been compared before a function that masks may be gone: in one it may have hidden nothing. So
many must also have golden's gradients where these are all that shows it.
"""

_ALIKE = "the model does the same in both modes"

Place = tuple[int, int]
"""A process, and a row among its events."""


def excuse(invariant: Invariant, run: Run, examples: Examples, broken: Ints, replayed: Comparison | None) -> str:
    """Why a broken rule is none, in words; empty where nothing speaks for it. `broken` is in order of time; `replayed`
    is None where nothing can be compared with the golden run.
    """
    how = meaning_of(invariant).excuse
    if invariant.kind is Kind.CONFIG or how is Excuse.NONE:
        return ""
    if how is Excuse.ALIKE_IN_MODES:
        return _ALIKE if all(_alike_in_modes(run, examples, place) for place in broken.tolist()) else ""
    if replayed is None:
        return ""
    if how is Excuse.INITIAL_VALUES:
        begun = [item for item in replayed.claims if item.what == "initial"]
        return (
            "the initial values are those of the golden run" if begun and all(map(_to_the_last_digits, begun)) else ""
        )
    places = _first_places(run, examples, broken)
    if how is Excuse.ALL_RESULTS:
        return "all results are those of the golden run" if _is_rewritten(invariant, run, places, replayed) else ""
    if all(_excused(run, replayed, place) for place in places):
        return "the result is that of the golden run"
    steps = {step for _, step in replayed.alike}
    alike = all(_trains(run, place) and (place[0], _step(run, place)) in replayed.alike for place in places)
    if alike and len(steps) >= _STEPS:
        return f"all gradients of {plural(len(steps), 'step')} are golden's within rounding"
    return ""


def _first_places(run: Run, examples: Examples, broken: Ints) -> list[Place]:
    """Where each thing that is seen was first seen in each module and stage: later steps were not compared, and may do
    again what they did in the first, but nothing else.
    """
    first: dict[tuple[int, str, str, str], Place] = {}
    for position in broken.tolist():
        number, row = int(examples.process[position]), int(examples.row[position])
        process = run.processes[number]
        seen = examples.observed[position] if examples.observed is not None else ""
        first.setdefault((number, process.module_name(row), process.stage_name(row), seen), (number, row))
    return list(first.values())


def _alike_in_modes(run: Run, examples: Examples, place: int) -> bool:
    """Whether the model that is called in an example holds nothing that acts by its mode, as far as can be seen."""
    process = run.processes[int(examples.process[place])]
    model = process.module_name(int(examples.row[place])).partition(".")[0]
    return not vocabulary.is_compiled(process) and model not in vocabulary.acting_by_mode(process)


def _is_rewritten(invariant: Invariant, run: Run, places: Sequence[Place], replayed: Comparison) -> bool:
    """Whether a function is gone, in steps that were compared, and nothing in them has changed."""
    function = invariant.subject
    masks = function.startswith(_MASKS) or function in replayed.masked
    steps = _compared(replayed, "loss") & _compared(replayed, "gradient")
    enough = len({step for _, step in steps}) >= (_STEPS if masks else 1)
    if not function.startswith(_FUNCTIONS) or not enough or not all(item.holds for item in replayed.claims):
        return False
    if meaning_of(invariant).per_run:
        # A run has no place; the function must have been at work in golden's steps, and not in evaluation alone.
        return function in replayed.called
    return all(_trains(run, place) and (place[0], _step(run, place)) in steps for place in places)


def _compared(replayed: Comparison, what: str) -> set[tuple[int, int]]:
    """Process and step of every place where losses, or gradients, were compared."""
    return {(claim.process, claim.step) for claim in replayed.claims if claim.what == what}


def _excused(run: Run, replayed: Comparison, place: Place) -> bool:
    process, row = place
    around = _module_call(run, process, row)
    own = [claim for claim in replayed.claims if (claim.what, claim.process, claim.row) == ("module", process, around)]
    if own and all(map(_to_the_last_digits, own)):
        return True
    # What happens in evaluation goes into no loss and no gradient.
    return _trains(run, place) and all(_is_golden(replayed, what, place, run) for what in ("loss", "gradient"))


def _module_call(run: Run, process: int, row: int) -> int:
    """The innermost call of a module that a row lies in, or is; -1 outside of all."""
    events = run.processes[process]
    modules = events.type_codes.isin(["module"])
    while row >= 0 and not modules[row]:
        row = int(events.parent_row[row])
    return row


def _step(run: Run, place: Place) -> int:
    return run.processes[place[0]].step_number(place[1])


def _trains(run: Run, place: Place) -> bool:
    return run.processes[place[0]].stage_name(place[1]) == "train"


def _is_golden(replayed: Comparison, what: str, place: Place, run: Run) -> bool:
    """Whether losses, or gradients, were compared in a step, and every time they were golden's."""
    found = [claim for claim in replayed.claims if (claim.what, claim.process) == (what, place[0])]
    compared = any(claim.step == _step(run, place) for claim in found)
    return compared and all(map(_to_the_last_digits, found))


def _to_the_last_digits(claim: Claim) -> bool:
    return claim.holds and claim.off <= LAST_DIGITS
