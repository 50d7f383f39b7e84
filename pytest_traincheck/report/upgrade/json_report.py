"""The JSON contract for an upgrade: that of a check, with `upgrade` beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_traincheck.check.library_call import LibraryCall
from pytest_traincheck.report import json_report
from pytest_traincheck.report.files import json_text, write_report
from pytest_traincheck.report.upgrade import wording
from pytest_traincheck.report.upgrade.result import UpgradeResult


def document(results: Sequence[UpgradeResult]) -> dict[str, Any]:
    """The object of a check of what is about to be merged, with `upgrade`; with several pipelines, in `pipelines`."""
    whole = json_report.document([result.last for result in results])
    details = [_upgrade(result) for result in results]
    if len(details) == 1:
        return {**whole, "upgrade": details[0]}
    whole["pipelines"] = [
        {**single, "upgrade": detail} for single, detail in zip(whole["pipelines"], details, strict=True)
    ]
    return whole


def write_json(path: Path, results: Sequence[UpgradeResult]) -> None:
    """Write the document in one step. Raises `ReportError` when `path` cannot be written."""
    write_report(path, json_text(document(results)), "JSON report")


def _upgrade(result: UpgradeResult) -> dict[str, Any]:
    share = result.library_share
    return {
        "sentence": result.attribution.sentence,
        "broken_by": [
            {"incident": incident.id, "cause": cause.value, "library_call": _call(call)}
            for incident, cause, call in result.incidents
        ],
        "cells": [
            {"code": cell.code.value, "libraries": cell.libraries.value, **cell.result.to_json()}
            for cell in result.cells
        ],
        "versions": [{"name": row.name, "old": row.old, "new": row.new, "asked": row.asked} for row in result.versions],
        "share": None
        if share is None
        else {
            "rules": share.rules,
            "held": share.held,
            "violated": share.violated,
            "not_evaluated": share.idle,
            "valid_and_applicable": round(share.kept, 4),
        },
        "old_python": result.old_python,
        "new_python": result.new_python,
        "notes": list(result.notes),
    }


def _call(call: LibraryCall | None) -> dict[str, str] | None:
    if call is None:
        return None
    return {"api": call.api, "source": call.source, "text": wording.call_text(call)}
