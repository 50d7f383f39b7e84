"""How much of what golden computed could be compared, where a run went another way, and what that means.

A comparison is conditional: it takes place where the candidate is given golden's inputs. With another seed it owes
nothing, and nobody expects it. With golden's command and golden's seed it does, as far as golden's own runs repeat
themselves; when it does not come to it, a check that says nothing has looked at nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from pytest_traincheck.check.result import Coverage, LaterSteps, Parted, Warned
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.golden.recording import Recording
from pytest_traincheck.relations.base import listed
from pytest_traincheck.replay import DRAWN, HELD, STEP, Claim, Comparison, Parting, compare_with_itself
from pytest_traincheck.replay.later import ROUNDS
from pytest_traincheck.text import plural
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.slots import is_singular, part_of_batch, parts_of_batch

CHANCE_SHARE = 0.5
"""Where golden's own runs part from each other, how early is a matter of chance; a candidate may part that much
earlier.
"""


def coverage(golden: Golden, run: Run, compared: Comparison | None, *, same_spec: bool) -> Coverage:
    """What of golden's comparisons took place in a run that was aligned with it."""
    recording = golden.recording
    if recording is None or golden.platform != run.platform:
        return Coverage()
    workers = bool(run.workers)
    itself = run.memo(
        ("golden's own", id(recording)),
        lambda: compare_with_itself(recording, golden.platform, workers=workers),
    )
    own = itself.made
    repeated = own - frozenset(recording.unrepeated or ())
    made = own & compared.made if compared is not None else frozenset()
    reasons = _reasons(own - made, compared)
    return Coverage(
        comparisons=len(own),
        made=len(made),
        floor=_floor(len(repeated), len(own)),
        repeats=None if recording.unrepeated is None else repeated == own,
        parted=_parted(recording, run, compared, itself, same_spec=same_spec),
        lost=len(repeated - made),
        excuse=_excuse(recording, run, same_spec=same_spec),
        reasons=reasons,
        drawn_otherwise=any(why in (DRAWN, HELD) for why, _ in reasons),
        later=_later(itself, compared),
    )


def _later(itself: Comparison, compared: Comparison | None) -> LaterSteps:
    """The steps of all processes that are compared as wholes."""
    found = compared.later if compared is not None else ()
    lost = next((course.lost for course in found if course.lost), "")
    known = sum(course.known for course in itself.later)
    return LaterSteps(known, sum(len(course.steps) for course in found), lost if known else "")


_BEHIND, _ELSEWHERE = "came behind what differs", "are about steps that are made otherwise"


def _reasons(lost: frozenset[str], compared: Comparison | None) -> tuple[tuple[str, int], ...]:
    known = compared.lost if compared is not None else {}
    # Where nothing differs, as behind a closure that golden had not, a step is not held against golden's.
    nothing = compared is not None and compared.parting is None and not compared.deviating
    other = _ELSEWHERE if nothing else _BEHIND
    return tuple(Counter(known.get(key, other) for key in sorted(lost)).most_common())


def _floor(repeated: int, own: int) -> float:
    if not own:
        return 0.0
    return 1.0 if repeated == own else CHANCE_SHARE * repeated / own


def _excuse(recording: Recording, run: Run, *, same_spec: bool) -> str:
    """Why nobody expects the candidate to compute what golden did; empty where it ran the same with the same seed."""
    if not same_spec:
        return "a different command than that of the golden run"
    if recording.seed != run.seed:
        return f"seed {run.seed or 'unknown'} instead of {recording.seed or 'unknown'}"
    if not recording.seed and recording.unrepeated is None:
        return "no seed is known"
    return ""


def _parted(
    recording: Recording, run: Run, compared: Comparison | None, itself: Comparison, *, same_spec: bool
) -> Parted | None:
    if not same_spec:
        return Parted("a different command than that of the golden run")
    if compared is None:
        return Parted("nothing that the candidate computed was recorded in its first steps")
    parting = compared.parting
    if parting is None or _is_drift(parting, compared, itself):
        return None
    if recording.seed != run.seed:
        return Parted(_excuse(recording, run, same_spec=True))
    process = run.processes[parting.process]
    return Parted(parting.what, parting.step, _source(process, parting.at))


def _is_drift(parting: Parting, compared: Comparison, itself: Comparison) -> bool:
    """Whether training has led to other parameters though each step before was compared and gave golden's result: an
    optimizer that normalises its gradients makes a step of rounding where a gradient is nearly zero.
    """
    steps = {claim.key for claim in itself.claims if claim.what in STEP and claim.step < parting.step}
    return parting.trained and bool(steps) and steps <= compared.made


def parted_at_deviation(found: Coverage, run: Run, compared: Comparison) -> Coverage:
    """The coverage of a run in which a rule about its results is broken: there it parted, if not before."""
    claim = next((claim for claim in compared.claims if not claim.holds), None)
    if claim is None or (found.parted is not None and found.parted.step < claim.step):
        return found
    process = run.processes[claim.process]
    source = process.source(claim.row) if claim.row >= 0 and len(process.events) else ""
    return replace(found, parted=Parted(_deviation(claim), claim.step, source, reported=True))


def behind_incidents(found: Coverage) -> Coverage:
    """The coverage of a run in which something was found: what is off by little behind it may be off by that."""
    later = found.later
    return replace(found, later=replace(later, lost="differ")) if later.lost == ROUNDS else found


_LATER = {
    "input": "what a model is given",
    "batch": "the batch",
    "loss": "the loss",
    "gradient": "the gradients",
    "update": "values after the step",
}


def _deviation(claim: Claim) -> str:
    """The place of a deviation; what it is, the broken rule says."""
    roles = claim.roles
    if claim.what in ("batch", "together"):
        kept, other = part_of_batch(claim.beside, roles), parts_of_batch(claim.names, roles)
    if claim.what == "batch":
        if claim.names == ("out",):
            return "batch: it differs from the golden run's"
        differ = "differs" if is_singular(claim.names, roles) else "differ"
        if not claim.beside:
            return f"batch: {other} {differ}"
        are = "is" if is_singular([claim.beside], roles) else "are"
        return f"batch: {other} {differ}, {kept} {are} as in the golden run"
    if claim.what == "together":
        return f"batch: rows of {kept} and of {other} are paired differently"
    places = {
        "initial": "initial values of " + listed(claim.names),
        "told": f"what `{claim.name}` is given",
        "loss": "loss that `backward` starts from",
        "gradient": f"gradients at `{claim.name}`",
        "step": f"update by `{claim.name}`",
        "variable": "values after the step of " + listed(claim.names),
        "later": _LATER.get(claim.beside, ""),
    }
    return places.get(claim.what, f"result of `{claim.name}`")


def _source(process: Process, at: float) -> str:
    """The line of the user's code at a time: of the call that was going on, else of the next event that has a line."""
    times, ends = (process.events[column] for column in ("seq", "end"))
    around = np.flatnonzero((times <= at) & (at <= ends) & process.is_call)
    if around.size and (found := process.source(int(around[-1]))):
        return found
    rows = np.flatnonzero(process.events["src"] != 0)
    later = rows[times[rows] >= np.floor(at)]
    return process.source(int(later[0] if later.size else rows[-1])) if rows.size else ""


def warnings_of(found: Coverage | None, *, strict: bool = False) -> tuple[Warned, ...]:
    """A warning where golden's command was run with golden's seed and yet went another way, which no rule reports.

    Under `strict` it fails the check.
    """
    if found is None or found.excuse or not found.comparisons:
        return ()
    parted = found.parted
    if found.repeats and found.made == found.comparisons and parted is not None and not parted.reported:
        title = (
            "The candidate ran the golden run's command with its seed, and all that is compared is the same "
            f"({plural(found.comparisons, 'comparison')}), but the runs differ in step {parted.step}: {parted.what}. "
            "Nothing that leads there is compared."
        )
        return (Warned("coverage", title, parted.source, fails=strict),)
    if found.share >= found.floor or not found.lost:
        return ()
    drawn = [f"{number} {why}" for why, number in found.reasons if why in (DRAWN, HELD)]
    if parted is None and found.made and not drawn:
        return ()  # What is missing was rewritten or is called otherwise: rules about calls speak of that.
    if parted is not None and parted.reported:
        return ()
    title = (
        f"The candidate ran the golden run's command with its seed, but only {found.made} of "
        f"{plural(found.comparisons, 'comparison')} with the golden run took place"
    )
    if parted is not None:
        title += f"; the runs first differ in step {parted.step}: {parted.what}"
    elif drawn:
        title += f": {' and '.join(drawn)}"
    if found.repeats is None:
        title += ". Whether the golden run repeats itself is not known; `traincheck refresh` finds out"
    return (Warned("coverage", f"{title}.", parted.source if parted is not None else "", fails=strict),)
