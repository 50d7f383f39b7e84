"""Incidents of a training that goes on: a line on stderr, one in a JSON file, and whatever they are exported to."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_traincheck.check.result import CheckResult, Incident, incident_json
from pytest_traincheck.printable import printable
from pytest_traincheck.report.errors import ReportError
from pytest_traincheck.report.exporting import Exports, ExportTarget
from pytest_traincheck.report.json_report import document


class Lines:
    """Tells each incident when it is found. Raises `ReportError` where the file cannot be written, at the beginning or
    at the end.
    """

    def __init__(self, pipeline: str, file: Path | None, exports: Sequence[ExportTarget] = ()) -> None:
        self._pipeline = pipeline
        self._file = file
        self._write("", mode="w")
        self._exports = Exports(exports, pipeline, self._complain)

    def steps(self, count: int) -> None:
        """So many steps were looked at. Raises nothing."""
        self._exports.steps(count)

    def incident(self, incident: Incident, steps: int) -> None:
        """An incident that was found when so many steps had been looked at. Raises nothing: a disk that is full, or a
        terminal that was closed, ends no training.
        """
        cause = incident.cause
        place = f" ({cause.source})" if cause.source else ""
        with suppress(OSError):
            print(printable(f"traincheck: step {cause.step}{place}: {cause.title}"), file=sys.stderr, flush=True)
        content = incident_json(incident)
        with suppress(ReportError):  # `end` says so
            self._line({**content, "pipeline": self._pipeline, "steps_seen": steps})
        self._exports.incident(content, steps)

    def end(self, result: CheckResult) -> None:
        """The result, as the last line."""
        content = document([result])
        self._exports.end(content)
        self._line(content)

    def _complain(self, text: str) -> None:
        with suppress(OSError):
            print(printable(f"traincheck: {text}"), file=sys.stderr, flush=True)

    def _line(self, content: dict[str, Any]) -> None:
        self._write(json.dumps(content, ensure_ascii=False) + "\n", mode="a")

    def _write(self, text: str, *, mode: str) -> None:
        if self._file is None:
            return
        try:
            with self._file.open(mode, encoding="utf-8", errors="surrogateescape") as stream:
                stream.write(text)
        except OSError as error:
            raise ReportError(
                f"{self._file} cannot be written: {error.strerror or error}. Give the path of a file that can be."
            ) from error
