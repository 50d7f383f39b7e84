"""One HTML page for a trace: what each process did, and pictures of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_traincheck.golden.portrait import Portrait
from pytest_traincheck.report.check_pictures import of_portraits
from pytest_traincheck.report.files import write_report
from pytest_traincheck.report.html import template_environment
from pytest_traincheck.report.pictures.calls import calls


@dataclass(frozen=True)
class TraceProcess:
    """One process: what it is called, its facts in words, and how often it called each API, the most first."""

    name: str
    state: str
    facts: tuple[tuple[str, str], ...]
    calls: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class TracePage:
    """A trace as its page shows it; `portrait` is None where nothing was trained, and `why` says so."""

    name: str
    processes: Sequence[TraceProcess]
    portrait: Portrait | None = None
    why: str = ""


def to_text(page: TracePage) -> str:
    """The page."""
    drawn = of_portraits(page.portrait, None) if page.portrait is not None else []
    template = template_environment().get_template("trace.html.j2")
    return template.render(page=page, drawn=drawn, counted=calls)


def write_html(path: Path, page: TracePage) -> None:
    """Write the page in one step. Raises `ReportError` when `path` cannot be written."""
    write_report(path, to_text(page), "HTML report")
