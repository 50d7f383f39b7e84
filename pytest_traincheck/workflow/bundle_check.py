"""Checks of a part of a run: its beginning, as a bundle keeps it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_traincheck.check.result import Coverage, InvariantVerdict, ModuleAgreement, Verdict
from pytest_traincheck.golden.format_1 import ids_of
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.golden.portrait import Portraits
from pytest_traincheck.workflow.engine import Engine
from pytest_traincheck.workflow.policy import Judged, Rules, judge

if TYPE_CHECKING:
    from pytest_traincheck.trace import Run

BEYOND = "speaks of the rest of the run, which was left out"


@dataclass(frozen=True)
class PartialCheck:
    """What a check of a part of a run found."""

    judged: Judged
    modules: tuple[ModuleAgreement, ...]
    renamed: tuple[tuple[str, str], ...]
    coverage: Coverage | None = None
    portraits: Portraits | None = None


def check_part(
    golden: Golden, run: Run, *, same_spec: bool, beyond: Collection[str], rules: Rules, engine: Engine
) -> PartialCheck:
    """Check a part of a run against all rules but those, by id, that speak of more than the part."""
    known = tuple(item for item in golden.invariants if not any(name in beyond for name in ids_of(item)))
    outcome = engine.check_run(replace(golden, invariants=known), run, same_spec=same_spec)
    judged = judge(outcome.verdicts, outcome.incidents, rules)
    found = {item.invariant.id: item for item in judged.verdicts}
    verdicts = tuple(
        found.get(rule.id) or InvariantVerdict(rule, Verdict.NOT_OBSERVABLE, BEYOND) for rule in golden.invariants
    )
    judged = replace(judged, verdicts=verdicts)
    return PartialCheck(judged, outcome.modules, outcome.renamed, outcome.coverage, outcome.portraits)


def broken_ids(verdicts: Collection[InvariantVerdict]) -> frozenset[str]:
    """Rules that were broken, whether or not that is accepted."""
    return frozenset(item.invariant.id for item in verdicts if item.verdict in (Verdict.VIOLATED, Verdict.ACCEPTED))
