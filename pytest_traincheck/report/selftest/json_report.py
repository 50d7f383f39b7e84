"""The JSON of a selftest: the object of the check without a mistake, with the kill rate and every mutant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_traincheck.check.result import incident_json
from pytest_traincheck.report.files import json_text, write_report
from pytest_traincheck.report.json_report import document as check_document
from pytest_traincheck.report.selftest import wording
from pytest_traincheck.selftest.result import Fate, Mutant, SelftestResult, counted, kill_rate

_WORST_FIRST = ("error", "fail", "pass")


def document(results: Sequence[SelftestResult]) -> dict[str, Any]:
    """The JSON object of a selftest: what `check --json` has for the pipeline without a mistake, and

    `kill_rate` (between 0 and 1, over all pipelines), `counts` by fate, `mutants`, `survivors` (names of kinds) and
    `fail_under` (null without one). With several pipelines each mutant names its `pipeline`, survivors are
    `PIPELINE: KIND`, and `pipelines` holds the object of each.
    """
    singles = [_single(result) for result in results]
    if len(singles) == 1:
        return singles[0]
    mutants = [mutant for result in results for mutant in result.mutants]
    base = check_document([result.unchanged for result in results])
    verdicts = {single["verdict"] for single in singles} or {"error"}
    floors = [result.floor for result in results if result.floor is not None]
    return {
        **base,
        "verdict": next(verdict for verdict in _WORST_FIRST if verdict in verdicts),
        **_rates(mutants, floors[0] if floors else None),
        "mutants": [{**item, "pipeline": single["pipeline"]} for single in singles for item in single["mutants"]],
        "survivors": [f"{single['pipeline']}: {name}" for single in singles for name in single["survivors"]],
        "pipelines": singles,
    }


def write_json(path: Path, results: Sequence[SelftestResult]) -> None:
    """Write the document in one step. Raises `ReportError` when `path` cannot be written."""
    write_report(path, json_text(document(results)), "JSON report")


def _single(result: SelftestResult) -> dict[str, Any]:
    base = result.unchanged.to_json()
    errors = list(base["errors"])
    if not errors and not result.unchanged.incidents and not result.is_measured:
        errors.append({"side": "", "message": wording.summary(result), "remedy": wording.remedy(result), "output": ""})
    return {
        **base,
        "verdict": result.outcome.value,
        "errors": errors,
        "notes": [*base["notes"], *result.notes],
        **_rates(result.mutants, result.floor),
        "mutants": [_mutant(mutant) for mutant in result.mutants],
        "survivors": [mutant.kind.name for mutant in result.of(Fate.SURVIVED)],
    }


def _rates(mutants: Sequence[Mutant], floor: float | None) -> dict[str, Any]:
    return {
        "kill_rate": round(kill_rate(mutants), 4),
        "fail_under": floor,
        "counts": {
            "counted": counted(mutants),
            **{fate.value: sum(mutant.fate is fate for mutant in mutants) for fate in Fate},
        },
    }


def _mutant(mutant: Mutant) -> dict[str, Any]:
    return {
        "kind": mutant.kind.name,
        "group": mutant.kind.group,
        "mistake": mutant.kind.mistake,
        "meaning": mutant.kind.meaning,
        "fate": mutant.fate.value,
        "applied": mutant.applied,
        "incident": incident_json(mutant.incident) if mutant.incident is not None else None,
        "incidents": mutant.incidents,
        "detail": mutant.detail,
        "seconds": round(mutant.seconds, 4),
    }
