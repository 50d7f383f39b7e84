"""Evaluates golden invariants on a candidate run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_traincheck.alignment.align import align
from pytest_traincheck.alignment.trainings import as_trainings
from pytest_traincheck.check.applicable import program_of, why_not
from pytest_traincheck.check.coverage import behind_incidents, coverage, parted_at_deviation
from pytest_traincheck.check.evidence import without_effect
from pytest_traincheck.check.excuse import excuse
from pytest_traincheck.check.explain import explain
from pytest_traincheck.check.needs import lacking
from pytest_traincheck.check.observed import unlike, warnings_of
from pytest_traincheck.check.part import WHOLE, Part
from pytest_traincheck.check.places import in_order, spoken_of, violation_of
from pytest_traincheck.check.ran import Ran, ran_of
from pytest_traincheck.check.result import (
    Coverage,
    Incident,
    InvariantVerdict,
    ModuleAgreement,
    Verdict,
    Violation,
    Warned,
)
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.golden.numbers import Numbers
from pytest_traincheck.golden.portrait import Portraits
from pytest_traincheck.golden.recording import Recording
from pytest_traincheck.relations import Relation, laws, meaning_of, relations
from pytest_traincheck.relations.base import filled, is_measured, is_replayed
from pytest_traincheck.relations.context import LAST_STEP, TIME
from pytest_traincheck.replay import Comparison, compare_run
from pytest_traincheck.replay.portray import portrait
from pytest_traincheck.rules.model import Invariant, Kind
from pytest_traincheck.trace import Run


@dataclass(frozen=True)
class CheckOutcome:
    """The verdict on every golden invariant, and the incidents, cause first."""

    verdicts: tuple[InvariantVerdict, ...]
    incidents: tuple[Incident, ...]
    modules: tuple[ModuleAgreement, ...] = ()
    """Agreement with what the golden run computed, module by module."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Models and modules that the candidate calls otherwise: its name, and the golden's, which is used everywhere."""
    coverage: Coverage | None = None
    """What of golden's conditional comparisons took place."""
    warnings: tuple[Warned, ...] = ()
    """What must not be overlooked: golden's runs were observed in another way than this one."""
    ran: Ran | None = None
    """What is known of the user's code that ran; asked for where there are incidents only."""
    violations: tuple[Violation, ...] = ()
    """The first place of each rule that was broken, in the order of the golden's rules."""
    portraits: Portraits | None = None
    """What is drawn of both sides; None where only a part of a training was there."""


def check_run(golden: Golden, run: Run, *, same_spec: bool, part: Part = WHOLE) -> CheckOutcome:
    """Checks one candidate run, or a part of one.

    Args:
        same_spec: whether the candidate ran what the golden ran; otherwise pinned invariants are not evaluated, and of
            the transferable ones only the general if the candidate is another program.
        part: what of a training `run` holds.
    """
    table = {**laws(), **relations()}
    recorded_run, run = run, as_trainings(run, golden.trainings)
    aligned = align(golden, run)
    program = program_of(golden, aligned.run, same_spec=same_spec)
    replayed = _replayed(golden, aligned.run) if same_spec and not part.later else None
    recorded = golden.recording if replayed is not None else None
    told = not part.later and not part.undecided
    covered = coverage(golden, aligned.run, replayed, same_spec=same_spec) if told else Coverage()
    differing = unlike(golden, run)
    unseen = lacking(golden, run)
    verdicts: list[InvariantVerdict] = []
    violations: list[Violation] = []
    for invariant in golden.invariants:
        relation = table.get(invariant.relation)
        if relation is None:
            reason = f"no relation named {invariant.relation!r} is installed"
            verdicts.append(InvariantVerdict(invariant, Verdict.NOT_OBSERVABLE, reason))
        elif reason := differing.why_not(invariant):
            verdicts.append(InvariantVerdict(invariant, Verdict.NOT_OBSERVABLE, reason))
        elif (reason := why_not(invariant, program)) or (reason := part.why_not(invariant)):
            verdicts.append(InvariantVerdict(invariant, Verdict.NOT_TRIGGERED, reason, applicable=False))
        elif (is_measured(relation) or is_replayed(relation)) and _numbers(golden, invariant, relation, run) is None:
            reason = f"no numbers for `{run.platform or 'an unknown platform'}`"
            verdicts.append(InvariantVerdict(invariant, Verdict.NOT_OBSERVABLE, reason))
        elif reason := unseen.why_not(invariant):
            verdicts.append(InvariantVerdict(invariant, Verdict.NOT_OBSERVABLE, reason))
        else:
            numbers = _numbers(golden, invariant, relation, run)
            evaluation = _Evaluation(aligned.run, replayed, covered, recorded, part)
            verdict, violation = _evaluate(relation, invariant, numbers, evaluation)
            verdicts.append(verdict)
            if violation is not None:
                violations.append(violation)
    if replayed is not None and any(is_replayed(table[item.invariant.relation]) for item in violations):
        covered = parted_at_deviation(covered, aligned.run, replayed)
    if _may_end_alike(golden, run, violations, replayed, part):
        violations = [item for item in violations if not part.may_be_excused(item.meaning)]
    incidents = tuple(
        item for item in explain(violations) if part.later or not (part.other_length and _by_length(item))
    )
    if incidents:
        covered = behind_incidents(covered)
    return CheckOutcome(
        _settled(verdicts, violations, incidents),
        incidents,
        _modules(replayed),
        aligned.renamed,
        covered,
        warnings_of(differing, golden),
        ran_of(recorded_run) if incidents and not part.goes_on else None,
        tuple(item for item in violations if id(item.invariant) in reported_by(incidents)),
        _portraits(golden, aligned.run, same_spec=same_spec) if part is WHOLE else None,
    )


def _portraits(golden: Golden, run: Run, *, same_spec: bool) -> Portraits:
    """Golden's is left out where its numbers are no measure: on another platform, or for another command."""
    comparable = same_spec and golden.recording is not None and golden.platform == run.platform
    return Portraits(portrait(run), golden.recording.portrait if comparable and golden.recording else None)


def _may_end_alike(
    golden: Golden, run: Run, violations: Sequence[Violation], replayed: Comparison | None, part: Part
) -> bool:
    """Whether steps that are still to come may show that the candidate computes what golden did, by other means."""
    recording = golden.recording
    if not part.undecided or recording is None or recording.seed != run.seed or replayed is None:
        return False
    return all(item.invariant.kind is not Kind.NUMERIC for item in violations)


def _by_length(incident: Incident) -> bool:
    """Whether all of an incident follows from how long the candidate was told to train."""
    meaning = incident.cause.meaning
    return meaning.by_length or meaning.per_run


def reported_by(incidents: Sequence[Incident]) -> frozenset[int]:
    """The rules that are part of an incident, by identity."""
    return frozenset(id(item.invariant) for incident in incidents for item in incident.violations)


def _settled(
    verdicts: Sequence[InvariantVerdict], violations: Sequence[Violation], incidents: Sequence[Incident]
) -> tuple[InvariantVerdict, ...]:
    """The verdicts, where a rule that was broken and is in no incident held: nothing followed from it."""
    without = {id(item.invariant) for item in violations} - reported_by(incidents)
    return tuple(
        replace(item, verdict=Verdict.HELD, reason=_without_effect_on_others(item.invariant))
        if id(item.invariant) in without
        else item
        for item in verdicts
    )


_MAY_COME = "this run goes on for longer than golden's, so what it has not done yet may come later"
_NOTHING_FOLLOWS = "no other rule shows an effect of it"


def _without_effect_on_others(invariant: Invariant) -> str:
    words = "it may be written in other words, and " if meaning_of(invariant).in_other_words else ""
    return words + _NOTHING_FOLLOWS


def _replayed(golden: Golden, run: Run) -> Comparison | None:
    if golden.recording is None or golden.platform != run.platform:
        return None
    return compare_run(golden.recording, run)


def _modules(replayed: Comparison | None) -> tuple[ModuleAgreement, ...]:
    nodes = replayed.nodes if replayed is not None else ()
    return tuple(ModuleAgreement(node.path, node.status.value, node.off, node.calls) for node in nodes)


def _numbers(golden: Golden, invariant: Invariant, relation: Relation, run: Run) -> Numbers | Recording | None:
    """Strictly those of the candidate's platform: another one's are no measure for it.

    Raises `GoldenError` for numbers of another rule.
    """
    if not golden.platform or golden.platform != run.platform:
        return None
    if is_replayed(relation):
        return golden.recording
    numbers = golden.numbers.get(invariant.id) if is_measured(relation) else None
    if is_measured(relation) and numbers is not None and not relation.suits(invariant.claim, numbers):
        raise GoldenError(
            f"The golden of {golden.pipeline!r} has numbers for `{golden.platform}` that do not belong to their rule: "
            f"`{invariant.subject}` ({invariant.relation}, {invariant.id}). Restore its file of numbers from version "
            "control, or learn it again with `traincheck refresh`."
        )
    return numbers


@dataclass(frozen=True)
class _Evaluation:
    """What the rules of a golden are evaluated on."""

    run: Run
    replayed: Comparison | None
    covered: Coverage
    recorded: Recording | None
    part: Part


def _evaluate(
    relation: Relation, invariant: Invariant, numbers: Numbers | Recording | None, on: _Evaluation
) -> tuple[InvariantVerdict, Violation | None]:
    run, part = on.run, on.part
    claim = invariant.claim if numbers is None else filled(invariant.claim, numbers)
    examples = relation.examples(claim, run)
    triggered = spoken_of(invariant, examples, run, set_up=is_replayed(relation))
    if part.undecided and TIME in examples.context:
        triggered &= ~examples.context[TIME].isin([LAST_STEP])
    if part.undecided and examples.unsure is not None:
        triggered &= ~examples.unsure
    if part.goes_on and examples.awaited is not None and (triggered & examples.awaited).any():
        triggered &= ~examples.awaited
        if not triggered.any():
            return InvariantVerdict(invariant, Verdict.NOT_TRIGGERED, _MAY_COME), None
    if not triggered.any():
        reason = _never_given(on.covered) if is_replayed(relation) else "its context never came up in this run"
        return InvariantVerdict(invariant, Verdict.NOT_TRIGGERED, reason), None
    broken = np.flatnonzero(triggered & ~examples.holds)
    if not broken.size:
        return InvariantVerdict(invariant, Verdict.HELD), None
    broken = in_order(examples, broken)
    if part.later and meaning_of(invariant).at_resumes:
        # What a resume has lost nothing else in these steps has to show.
        return InvariantVerdict(invariant, Verdict.VIOLATED), violation_of(relation, invariant, run, examples, broken)
    if reason := part.granted.get(invariant.id, "") or excuse(invariant, run, examples, broken, on.replayed):
        return InvariantVerdict(invariant, Verdict.HELD, reason), None
    if not part.later and (reason := without_effect(invariant, on.recorded, run)):
        return InvariantVerdict(invariant, Verdict.HELD, reason), None
    violation = violation_of(relation, replace(invariant, claim=claim), run, examples, broken)
    return InvariantVerdict(invariant, Verdict.VIOLATED), replace(violation, invariant=invariant)


def _never_given(covered: Coverage) -> str:
    """Why no condition of a rule was met."""
    reason = "no call had the inputs of the golden run"
    if covered.excuse:
        return f"{reason}: {covered.excuse}"
    return f"{reason}: the runs first differ in step {covered.parted.step}" if covered.parted is not None else reason
