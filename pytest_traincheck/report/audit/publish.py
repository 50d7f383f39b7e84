"""Tells the step of a GitHub job what an audit found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from pytest_traincheck.check.audited import Audit
from pytest_traincheck.report.audit.github import annotation_lines, summary
from pytest_traincheck.report.github_step import Mode, places_of, tell


def publish(mode: Mode, audit: Audit, cwd: Path, write: Callable[[str], object]) -> None:
    """Append to the job summary, and give each annotation to `write`. Raises `ReportError`."""
    place = places_of({"": cwd}).get("")
    tell(mode, partial(annotation_lines, audit, place), partial(summary, audit), write)
