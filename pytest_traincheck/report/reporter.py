"""Reports that are asked for by `NAME=FILE`: what a reporter is, and which there are, ours and those of others."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.discovery import classes_in
from pytest_traincheck.plugins import PluginError, implementations, items_of
from pytest_traincheck.report.errors import ReportError
from pytest_traincheck.report.files import write_report
from pytest_traincheck.report.json_report import document

HOOK = "pytest_traincheck_reporters"
FORMATS = "pytest_traincheck.report.formats"
"""Where our own lie, one file each."""


class Reporter(Protocol):
    """A format of report. It renders; where the file lies and how it is written is not its business."""

    name: str
    """What a user types to ask for it."""

    def render(self, document: Mapping[str, Any]) -> str:
        """The text of a report. `document` is what `--json` writes, which is a contract of its own."""
        ...


@dataclass(frozen=True)
class Target:
    """A report that was asked for: in which format, and where to."""

    reporter: Reporter
    path: Path


@cache
def _ours() -> Mapping[str, Reporter]:
    given = [found() for found in classes_in(FORMATS) if hasattr(found, "name") and hasattr(found, "render")]
    return {reporter.name: reporter for reporter in given}


def reporters() -> Mapping[str, Reporter]:
    """Reporters by name, ours first. Raises `PluginError` where one cannot be used, or two have one name."""
    found = dict(_ours())
    for given in implementations(HOOK):
        for reporter in items_of(given, HOOK):
            name = getattr(reporter, "name", None)
            if isinstance(reporter, type) or not isinstance(name, str) or not name or "=" in name:
                raise PluginError(
                    f"{given.owner}: {reporter!r} has no usable name and is no reporter. "
                    "Return instances whose `name` is a text without `=`."
                )
            if not callable(getattr(reporter, "render", None)):
                raise PluginError(f"{given.owner}: the reporter {name!r} lacks `render`. Define render(document).")
            if name in found:
                raise PluginError(f"{given.owner}: two reporters are named {name!r}. Rename the one of your plug-in.")
            found[name] = reporter
    return found


def target(text: str, directory: Path = Path()) -> Target:
    """The report that `NAME=FILE` asks for; a relative FILE lies in `directory`.

    Raises:
        ReportError: it is written otherwise, or there is no such format.
        PluginError: a plug-in cannot be used.
    """
    name, equals, file = text.partition("=")
    if not (name and equals and file):
        raise ReportError(f"{text!r} names no format and file. Write NAME=FILE.")
    known = reporters()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        there = ", ".join(sorted(known)) or "none"
        raise ReportError(
            f"no format of report is named {name!r}.{hint} There are: {there}. Install the package that gives it."
        )
    return Target(known[name], directory / file)


def write(target: Target, results: Sequence[CheckResult]) -> None:
    """Render and write one report. Raises `ReportError` where the reporter fails or the file cannot be written."""
    name = target.reporter.name
    try:
        text = target.reporter.render(document(results))
    except Exception as error:
        raise ReportError(
            f"the reporter {name!r} failed: {type(error).__name__}: {error}. Nothing was written to {target.path}; "
            "correct the plug-in that gives it, or leave the report out."
        ) from error
    if not isinstance(text, str):
        raise ReportError(
            f"the reporter {name!r} gave {type(text).__name__}, which is no text. Nothing was written to "
            f"{target.path}; correct the plug-in that gives it, or leave the report out."
        )
    write_report(target.path, text, f"{name} report")
