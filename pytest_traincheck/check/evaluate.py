"""Evaluates golden invariants on a candidate run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pytest_traincheck.check.alignment import align
from pytest_traincheck.check.applicable import kinship, why_not
from pytest_traincheck.check.explain import explain
from pytest_traincheck.check.result import Incident, InvariantVerdict, Verdict, Violation
from pytest_traincheck.golden.model import Golden, Invariant
from pytest_traincheck.golden.numbers import Numbers
from pytest_traincheck.relations import Examples, Relation, relations
from pytest_traincheck.relations.base import Measured, filled, variable_names
from pytest_traincheck.trace import Run
from pytest_traincheck.trace.labels import Ints


@dataclass(frozen=True)
class CheckOutcome:
    """The verdict on every golden invariant, and the incidents, cause first."""

    verdicts: tuple[InvariantVerdict, ...]
    incidents: tuple[Incident, ...]
    renamed: tuple[tuple[str, str], ...] = ()
    """Models and modules that the candidate calls otherwise: its name, and the golden's, which is used everywhere."""


def check_run(golden: Golden, run: Run, *, same_spec: bool) -> CheckOutcome:
    """Checks one candidate run.

    Args:
        same_spec: whether the candidate ran what the golden ran; otherwise pinned invariants are not evaluated, and of
            the transferable ones only the general if the candidate is another program.
    """
    table = relations()
    aligned = align(golden, run)
    kin = kinship(golden, aligned.run, same_spec=same_spec)
    verdicts: list[InvariantVerdict] = []
    violations: list[Violation] = []
    for invariant in golden.invariants:
        relation = table.get(invariant.relation)
        if relation is None:
            reason = f"no relation named {invariant.relation!r} is installed"
            verdicts.append(InvariantVerdict(invariant, Verdict.NOT_OBSERVABLE, reason))
        elif reason := why_not(invariant, kin):
            verdicts.append(InvariantVerdict(invariant, Verdict.NOT_TRIGGERED, reason, applicable=False))
        elif (measured := isinstance(relation, Measured)) and not _has_numbers(golden, invariant, run):
            reason = f"no numbers for `{run.platform or 'an unknown platform'}`"
            verdicts.append(InvariantVerdict(invariant, Verdict.NOT_OBSERVABLE, reason))
        else:
            numbers = golden.numbers[invariant.id] if measured else None
            verdict, violation = _evaluate(relation, invariant, numbers, aligned.run)
            verdicts.append(verdict)
            if violation is not None:
                violations.append(violation)
    return CheckOutcome(tuple(verdicts), explain(violations), aligned.renamed)


def _has_numbers(golden: Golden, invariant: Invariant, run: Run) -> bool:
    """Strictly those of the candidate's platform: another one's are no measure for it."""
    return bool(golden.platform) and golden.platform == run.platform and invariant.id in golden.numbers


def _evaluate(
    relation: Relation, invariant: Invariant, numbers: Numbers | None, run: Run
) -> tuple[InvariantVerdict, Violation | None]:
    claim = invariant.claim if numbers is None else filled(invariant.claim, numbers)
    examples = relation.examples(claim, run)
    triggered = examples.where(invariant.when)
    if not triggered.any():
        return InvariantVerdict(invariant, Verdict.NOT_TRIGGERED, "its context never came up in this run"), None
    broken = np.flatnonzero(triggered & ~examples.holds)
    if not broken.size:
        return InvariantVerdict(invariant, Verdict.HELD), None
    broken = broken[np.argsort(examples.row[broken], kind="stable")]
    violation = _violation(relation, replace(invariant, claim=claim), run, examples, broken)
    return InvariantVerdict(invariant, Verdict.VIOLATED), replace(violation, invariant=invariant)


def _violation(relation: Relation, invariant: Invariant, run: Run, examples: Examples, broken: Ints) -> Violation:
    processes = [run.processes[int(number)] for number in examples.process[broken]]
    steps = np.array(
        [process.step_number(int(row)) for process, row in zip(processes, examples.row[broken], strict=True)]
    )
    # What a person is told is the first step in which it happened, and all that broke there.
    first_step = int(steps.min())
    earliest = broken[steps == first_step]
    place = int(earliest[0])
    process, row = run.processes[int(examples.process[place])], int(examples.row[place])
    finding = relation.finding(invariant, run, examples, earliest)
    return Violation(
        invariant=invariant,
        title=finding.title,
        golden=finding.golden,
        candidate=finding.candidate,
        step=first_step,
        stage=process.stage_name(row),
        ranks=finding.ranks or tuple(sorted({item.rank for item in processes})),
        seq=int(process.events["seq"][row]) if len(process.events) else 0,
        module=process.module_name(row) if len(process.events) else "",
        variables=finding.variables or variable_names(run, examples, earliest),
        source=process.source(row) if len(process.events) else "",
        count=len(broken),
    )
