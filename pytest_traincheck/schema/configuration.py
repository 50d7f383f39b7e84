"""The schema of `[tool.traincheck]`, and of the whole of a `traincheck.toml`: names, types, defaults, for editors.

The reader (`config.py`) says what is allowed; names, patterns and defaults are taken from it. What only a reader can
know, such as whether a directory is outside of the tree, is left to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_traincheck.audit_config import ALLOW_KEYS, AUDIT_KEYS, DEFAULT_STEPS
from pytest_traincheck.config import (
    ACCEPT_KEYS,
    ACCEPT_REQUIRED,
    DEFAULT_SEEDS,
    DEFAULT_STORE,
    DEFAULT_TIMEOUT,
    ENV_NAME,
    KEYS,
    LONGEST_TIMEOUT,
    PIPELINE_KEYS,
    PIPELINE_NAME,
    POLICIES,
    SEED_BY_PROBE,
    STORED,
)
from pytest_traincheck.jobs import AUTO

DRAFT = "http://json-schema.org/draft-07/schema#"

Schema = dict[str, Any]

_TEXT = {"type": "string", "pattern": r"\S"}
_BELOW = {"type": "string", "pattern": r"^(?!/)(?!\.\.(?:/|$)).*\S"}
"""A path below the directory of the file, as far as its beginning tells."""
_DAY = {"type": "string", "format": "date"}


def configuration_schema() -> Schema:
    """The schema as a JSON object."""
    return {
        "$schema": DRAFT,
        "title": "pytest-traincheck",
        "description": "Training pipelines whose behaviour is learned and checked. The table tool.traincheck of "
        "pyproject.toml, or the whole of traincheck.toml.",
        **_table(KEYS, _top()),
        "definitions": {
            "pipeline": _table(PIPELINE_KEYS, _pipeline(), ("run",)),
            "exception": _table(ACCEPT_KEYS, _exception(), ACCEPT_REQUIRED),
            "allowed": _table(ALLOW_KEYS, _allowed(), ("law", "reason")),
        },
    }


def _table(keys: Sequence[str], properties: Mapping[str, Schema], required: Sequence[str] = ()) -> Schema:
    """A table with exactly these keys, in the reader's order."""
    table: Schema = {
        "type": "object",
        "properties": {key: properties[key] for key in keys},
        "additionalProperties": False,
    }
    return {**table, "required": list(required)} if required else table


def _said(meaning: str, kind: Mapping[str, Any], default: object = None) -> Schema:
    return {"description": meaning, **kind, **({} if default is None else {"default": default})}


def _array(items: Mapping[str, Any], **more: object) -> Schema:
    return {"type": "array", "items": dict(items), **more}


def _top() -> dict[str, Schema]:
    return {
        "golden": _said(
            'what candidates are compared with: "stored" for the committed goldens, a git ref, or "merge-base:REF"',
            {"type": "string", "pattern": r"^(?!-).*\S"},
            STORED,
        ),
        "store": _said("directory of the golden files, below that of this file", _BELOW, DEFAULT_STORE),
        "python": _said("interpreter of the runs: a program on the path, or a path relative to this file", _TEXT),
        "golden_python": _said("interpreter of the golden side, where it is another one", _TEXT),
        "candidate_python": _said("interpreter of the candidate, where it is another one", _TEXT),
        "strict": _said("fail, not warn, where a candidate cannot be compared", {"type": "boolean"}, False),
        "jobs": _said(
            "runs at a time", {"oneOf": [{"type": "integer", "minimum": 1}, {"type": "string", "const": AUTO}]}, 1
        ),
        "pipelines": _said(
            "the pipelines, by name",
            {
                "type": "object",
                "propertyNames": {"pattern": f"^{PIPELINE_NAME.pattern}$"},
                "additionalProperties": {"$ref": "#/definitions/pipeline"},
            },
        ),
        "accept": _said("exceptions on file", _array({"$ref": "#/definitions/exception"})),
        "policy": _said(
            "what broken rules do, by relation, kind or subject",
            {"type": "object", "additionalProperties": {"type": "string", "enum": list(POLICIES)}},
        ),
        "audit": _said("how scripts are audited", _table(AUDIT_KEYS, _audit())),
    }


def _pipeline() -> dict[str, Schema]:
    variable = f"^{ENV_NAME.pattern}$"
    return {
        "run": _said("the command, as you type it", _TEXT),
        "cwd": _said("where it runs, relative to this file", _BELOW, "."),
        "seed_arg": _said("appended to the command for each seed", {"type": "string", "pattern": r"\{seed\}"}),
        "seed_env": _said("environment variable that takes the seed", {"type": "string", "pattern": variable}),
        "seed_by": _said("who seeds a program that takes no seed", {"type": "string", "enum": [SEED_BY_PROBE]}),
        "seeds": _said(
            "a golden run for each; the candidate runs with the first",
            _array({"type": "integer", "minimum": 0}, minItems=1, uniqueItems=True),
            list(DEFAULT_SEEDS),
        ),
        "vary": _said("arguments of further golden runs, which transferable rules must obey as well", _array(_TEXT)),
        "env": _said(
            "environment variables of the runs",
            {"type": "object", "propertyNames": {"pattern": variable}, "additionalProperties": {"type": "string"}},
        ),
        "timeout": _said(
            "seconds that a run may take",
            {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_TIMEOUT},
            DEFAULT_TIMEOUT,
        ),
        "steps": _said("end each run after so many optimizer steps", {"type": "integer", "minimum": 1}),
        "link": _said("untracked paths, relative to this file, that worktrees see too", _array(_TEXT)),
        "alone": _said("whether a run needs the machine for itself", {"type": "boolean"}, False),
    }


def _exception() -> dict[str, Schema]:
    return {
        "invariant": _said("id of a rule, its subject, or a glob", _TEXT),
        "owner": _said("who is responsible", _TEXT),
        "reason": _said("why it is right for now", _TEXT),
        "expires": _said("the last day", _DAY),
        "value": _said("for what the candidate had then, and for nothing else", _TEXT),
    }


def _audit() -> dict[str, Schema]:
    return {
        "packs": _said("packs beside those that ship: names, or paths relative to this file", _array(_TEXT)),
        "steps": _said("training steps after which a run is ended", {"type": "integer", "minimum": 1}, DEFAULT_STEPS),
        "allow": _said("findings that are silent", _array({"$ref": "#/definitions/allowed"})),
    }


def _allowed() -> dict[str, Schema]:
    return {
        "law": _said("name of the rule", _TEXT),
        "reason": _said("why it may be broken", _TEXT),
        "owner": _said("who is responsible", _TEXT),
        "expires": _said("the last day", _DAY),
        "paths": _said("globs of files that it may be broken in", _array(_TEXT)),
    }
