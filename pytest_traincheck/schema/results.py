"""The schema of what `--json` writes: by check, compare, replay and pytest, by selftest, upgrade and audit.

One document is of one of these sorts. All keys that are written are named and always there, and none else is written in
this format: a reader may rely on that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_traincheck.check.result import JSON_FORMAT, Outcome, Verdict
from pytest_traincheck.packs.model import Level
from pytest_traincheck.rules.model import Kind
from pytest_traincheck.schema.configuration import DRAFT
from pytest_traincheck.selftest.result import Fate

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
SWITCH: Schema = {"type": "boolean"}
TEXTS: Schema = {"type": "array", "items": TEXT}
BY_NAME: Schema = {"type": "object", "additionalProperties": TEXT}


def results_schema() -> Schema:
    """The schema as a JSON object."""
    sorts = ("check", "selftest", "upgrade", "audit")
    return {
        "$schema": DRAFT,
        "title": "results of pytest-traincheck",
        "oneOf": [_ref(sort) for sort in sorts],
        "definitions": {
            "check": _object(_check(), optional={"audit": _ref("audit"), **_several("check")}),
            "selftest": _object({**_check(), **_selftest()}, optional=_several("selftest")),
            "upgrade": {
                "oneOf": [
                    _object({**_check(), "upgrade": _ref("of_an_upgrade")}, optional={"audit": _ref("audit")}),
                    _object({**_check(), "pipelines": _array(_ref("upgrade"))}),
                ]
            },
            "audit": _object({**_check(), **_audit()}),
            "incident": _object(_incident(), optional={"pipeline": TEXT}),
            "finding": _object({**_incident(), **_finding()}),
            "silenced": _object({**_incident(), **_finding(), "reason": TEXT, "owner": TEXT}),
            "side": _object(_side()),
            "coverage": _object(_coverage()),
            "mutant": _object(_mutant(), optional={"pipeline": TEXT}),
            "of_an_upgrade": _object(_upgrade()),
        },
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/definitions/{name}"}


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _or_null(schema: Schema) -> Schema:
    return {"oneOf": [schema, {"type": "null"}]}


def _one_of(values: list[str]) -> Schema:
    return {"type": "string", "enum": values}


def _object(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def _several(sort: str) -> dict[str, Schema]:
    """With several pipelines the whole counts them together, and has each."""
    return {"pipelines": _array(_ref(sort))}


def _of_pipeline(**properties: Schema) -> Schema:
    """A part that names its pipeline in a document of several."""
    return _object(properties, optional={"pipeline": TEXT})


def _check() -> dict[str, Schema]:
    return {
        "format": {"type": "integer", "const": JSON_FORMAT},
        "verdict": _one_of([outcome.value for outcome in Outcome]),
        "pipeline": TEXT,
        "golden": _ref("side"),
        "candidate": _ref("side"),
        "invariants": _object(dict.fromkeys(("golden", "checked", "passed", "violated", "not_evaluated"), COUNT)),
        "incidents": _array(_ref("incident")),
        "timing": _object(dict.fromkeys(("golden_run_s", "candidate_run_s", "infer_s", "check_s"), NUMBER)),
        "errors": _array(_of_pipeline(side=TEXT, message=TEXT, remedy=TEXT, output=TEXT)),
        "modules": _array(_of_pipeline(path=TEXT, status=TEXT, off=_or_null(NUMBER), calls=COUNT)),
        "notes": TEXTS,
        "renamed": _array(_of_pipeline(candidate=TEXT, golden=TEXT)),
        "commands": _or_null(_object({"reproduce": TEXT, "accept": TEXT})),
        "coverage": _ref("coverage"),
        "warnings": _array(_of_pipeline(kind=TEXT, title=TEXT, source=TEXT, fails=SWITCH)),
        "excused": _array(_of_pipeline(invariant=TEXT, sentence=TEXT, evidence=TEXT)),
    }


def _incident() -> dict[str, Schema]:
    return {
        "id": TEXT,
        "rank": COUNT,
        "kind": _one_of([kind.value for kind in Kind]),
        "title": TEXT,
        "subject": TEXT,
        "relation": TEXT,
        "step": {"type": "integer"},
        "stage": TEXT,
        "ranks": _array({"type": "integer"}),
        "module": TEXT,
        "variables": TEXTS,
        "source": TEXT,
        "golden": TEXT,
        "candidate": TEXT,
        "invariants": TEXTS,
        "values": BY_NAME,
        "consequences": COUNT,
        "diff": _or_null(_object({"file": TEXT, "hunk": TEXT, "how": TEXT})),
    }


def _side() -> dict[str, Schema]:
    return {
        "commit": TEXT,
        "runs": COUNT,
        "environment": BY_NAME,
        "path": TEXT,
        "command": TEXT,
        "cached": _or_null(TEXT),
        "directory": TEXT,
    }


def _coverage() -> dict[str, Schema]:
    place = _object({"what": TEXT, "step": {"type": "integer"}, "source": TEXT})
    return {
        "comparisons": COUNT,
        "made": COUNT,
        "share": SHARE,
        "floor": SHARE,
        "parted": _or_null(place),
        "reasons": {"type": "object", "additionalProperties": COUNT},
        "later": _object({"steps": COUNT, "compared": COUNT, "lost": TEXT}),
    }


def _selftest() -> dict[str, Schema]:
    return {
        "kill_rate": SHARE,
        "fail_under": _or_null(SHARE),
        "counts": _object({"counted": COUNT, **{fate.value: COUNT for fate in Fate}}),
        "mutants": _array(_ref("mutant")),
        "survivors": TEXTS,
    }


def _mutant() -> dict[str, Schema]:
    return {
        "kind": TEXT,
        "group": TEXT,
        "mistake": TEXT,
        "meaning": TEXT,
        "fate": _one_of([fate.value for fate in Fate]),
        "applied": COUNT,
        "incident": _or_null(_ref("incident")),
        "incidents": COUNT,
        "detail": TEXT,
        "seconds": NUMBER,
    }


def _upgrade() -> dict[str, Schema]:
    call = _object({"api": TEXT, "source": TEXT, "text": TEXT})
    kept = dict.fromkeys(("rules", "held", "violated", "not_evaluated"), COUNT)
    return {
        "sentence": TEXT,
        "broken_by": _array(_object({"incident": TEXT, "cause": TEXT, "library_call": _or_null(call)})),
        "cells": _array(_object({"code": TEXT, "libraries": TEXT, **_check()})),
        "versions": _array(_object({"name": TEXT, "old": TEXT, "new": TEXT, "asked": SWITCH})),
        "share": _or_null(_object({**kept, "valid_and_applicable": SHARE})),
        "old_python": TEXT,
        "new_python": TEXT,
        "notes": TEXTS,
    }


def _audit() -> dict[str, Schema]:
    levels = [level.report for level in Level]
    rule = {"law": TEXT, "pack": TEXT, "level": _one_of(levels), "verdict": _one_of([item.value for item in Verdict])}
    return {
        "incidents": _array(_ref("finding")),
        "laws": _object(dict.fromkeys(("known", "held", "broken", "not_triggered", "not_observable"), COUNT)),
        "rules": _array(_object({**rule, "reason": TEXT, "sentence": TEXT})),
        "packs": _array(_object({"name": TEXT, "library": TEXT, "rules": COUNT, "reason": TEXT})),
        "libraries": BY_NAME,
        "steps": COUNT,
        "strict": SWITCH,
        "silenced": _array(_ref("silenced")),
    }


def _finding() -> dict[str, Schema]:
    evidence = dict.fromkeys(("programs", "broken_by", "examples", "tried", "failed"), COUNT)
    return {
        "level": _one_of([level.report for level in Level]),
        "law": TEXT,
        "laws": TEXTS,
        "why": TEXT,
        "link": TEXT,
        "remedy": TEXT,
        "meant": TEXT,
        "silence": TEXT,
        "evidence": _object({**evidence, "at_most": NUMBER}),
    }
