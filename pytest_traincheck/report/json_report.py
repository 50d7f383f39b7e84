"""The JSON contract: one object for one pipeline, the same keys aggregated for several."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_traincheck.check.result import JSON_FORMAT, CheckResult, Outcome
from pytest_traincheck.report.audit.json_report import document as audited
from pytest_traincheck.report.files import json_text, write_report

_BEGINNING = re.compile(rb'\s*\{\s*"format":\s*\d+,\s*"verdict":|\s*$')
_WORST_FIRST = (Outcome.ERROR.value, Outcome.FAIL.value, Outcome.PASS.value)


def document(results: Sequence[CheckResult]) -> dict[str, Any]:
    """The JSON object of a check.

    Several results are aggregated: the worst verdict, names joined, counts and times summed, incidents and errors
    concatenated with the `pipeline` that they belong to, and every single document under `pipelines`. No result at
    all is an error: a check that checks nothing must not pass.
    """
    singles = [_single(result) for result in results]
    if len(singles) == 1:
        return singles[0]
    verdicts = {single["verdict"] for single in singles} or {Outcome.ERROR.value}
    incidents = _with_pipeline(singles, "incidents")
    return {
        "format": JSON_FORMAT,
        "verdict": next(verdict for verdict in _WORST_FIRST if verdict in verdicts),
        "pipeline": ", ".join(single["pipeline"] for single in singles),
        "golden": _side([single["golden"] for single in singles]),
        "candidate": _side([single["candidate"] for single in singles]),
        "invariants": _sums(single["invariants"] for single in singles)
        or {"golden": 0, "checked": 0, "passed": 0, "violated": 0, "not_evaluated": 0},
        "incidents": [{**incident, "rank": rank} for rank, incident in enumerate(incidents, start=1)],
        "timing": _sums(single["timing"] for single in singles)
        or {"golden_run_s": 0.0, "candidate_run_s": 0.0, "infer_s": 0.0, "check_s": 0.0},
        "errors": _with_pipeline(singles, "errors") if singles else [_NOTHING_CHECKED],
        "modules": _with_pipeline(singles, "modules"),
        "notes": [f"{single['pipeline']}: {note}" for single in singles for note in single["notes"]],
        "renamed": _with_pipeline(singles, "renamed"),
        # Each pipeline has its own, below.
        "commands": None,
        "coverage": _coverage([single["coverage"] for single in singles]),
        "warnings": _with_pipeline(singles, "warnings"),
        "excused": _with_pipeline(singles, "excused"),
        "pipelines": singles,
    }


def _single(result: CheckResult) -> dict[str, Any]:
    """The document of one result; with `audit` where its run was audited."""
    audit = {} if result.audit is None else {"audit": audited(result.audit)}
    return {**result.to_json(), **audit}


_NOTHING_CHECKED = {
    "side": "",
    "message": "no pipeline was checked",
    "remedy": "Name a pipeline of [tool.traincheck.pipelines], or add one.",
    "output": "",
}


def is_report(path: Path) -> bool:
    """Whether a file is a JSON report, as a writer may replace it."""
    try:
        with path.open("rb") as stream:
            return _BEGINNING.match(stream.read(256)) is not None
    except OSError:
        return False


def write_json(path: Path, results: Sequence[CheckResult]) -> None:
    """Write the document in one step. Raises `ReportError` when `path` cannot be written."""
    write_report(path, json_text(document(results)), "JSON report")


def _with_pipeline(singles: Iterable[Mapping[str, Any]], key: str) -> list[dict[str, Any]]:
    return [{**item, "pipeline": single["pipeline"]} for single in singles for item in single[key]]


def _sums(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    totals: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            totals[key] = round(totals.get(key, 0) + value, 4)
    return totals


def _coverage(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All comparisons together. Where runs parted is a matter of each pipeline; here stands the first."""
    comparisons, made = (sum(part[key] for part in parts) for key in ("comparisons", "made"))
    due = sum(part["floor"] * part["comparisons"] for part in parts)
    return {
        "comparisons": comparisons,
        "made": made,
        "share": round(made / comparisons, 4) if comparisons else 0.0,
        "floor": round(due / comparisons, 4) if comparisons else 0.0,
        "parted": next((part["parted"] for part in parts if part["parted"] is not None), None),
        "reasons": _sums(part["reasons"] for part in parts),
        "later": {
            **{key: sum(part["later"][key] for part in parts) for key in ("steps", "compared")},
            "lost": next((part["later"]["lost"] for part in parts if part["later"]["lost"]), ""),
        },
    }


def _side(sides: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the sides of all pipelines have in common; what differs between them is left to `pipelines`."""
    environments = [side["environment"] for side in sides]
    common = environments[0] if environments else {}
    return {
        "commit": _common([side["commit"] for side in sides]),
        "runs": sum(side["runs"] for side in sides),
        "environment": {
            key: value for key, value in common.items() if all(other.get(key) == value for other in environments)
        },
        "path": _common([side["path"] for side in sides]),
        "command": _common([side["command"] for side in sides]),
        "cached": _common([side["cached"] or "" for side in sides]) or None,
        "directory": _common([side["directory"] for side in sides]),
    }


def _common(values: Sequence[str]) -> str:
    return values[0] if len(set(values)) == 1 else ""
