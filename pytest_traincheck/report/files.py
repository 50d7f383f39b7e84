"""Reports on disk: the only place of this room that touches it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_traincheck.atomic import replace_file
from pytest_traincheck.disk import write_remedy
from pytest_traincheck.report.errors import ReportError


def json_text(content: Mapping[str, Any]) -> str:
    """The text of a document; strings that are not valid Unicode stay escaped, so any parser takes it."""
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def write_report(path: Path, text: str, what: str) -> None:
    """Write a report in one step. Raises `ReportError` when `path` cannot be written."""
    try:
        # Half of a surrogate pair can come in with a file name; a report never fails for it, and JSON stays JSON.
        replace_file(path, text.encode("utf-8", errors="backslashreplace"))
    except OSError as error:
        remedy = write_remedy(error, path, "Give a path that can be written.")
        raise ReportError(f"Cannot write the {what} to {path}: {error.strerror or error}. {remedy}") from error
