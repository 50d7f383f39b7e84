"""JSON Schema (draft 7) of what users write and what programs read: the configuration, and documents of results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_traincheck.schema.configuration import configuration_schema
from pytest_traincheck.schema.results import results_schema

SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {"config": configuration_schema, "results": results_schema}
"""What there is a schema of -> the schema."""
