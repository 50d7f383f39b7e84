"""Every document that a test makes is one that the schema of results allows."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from pytest_traincheck.schema.results import results_schema


def assert_result(document: dict[str, Any], sort: str) -> None:
    """The document, as a program reads it, is of the sort: `check`, `selftest`, `upgrade` or `audit`."""
    schema = {**results_schema(), "$ref": f"#/definitions/{sort}"}
    jsonschema.Draft7Validator({key: value for key, value in schema.items() if key != "oneOf"}).validate(
        json.loads(json.dumps(document))
    )
