"""What the section `traincheck` has shown is not printed a second time among pytest's failures.

The whole text stays in the reports themselves, for JUnit, HTML and whoever else reads them; only the terminal's summary
gets a line that leads to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.pytest_plugin.exceptions import PROPERTY as EXCEPTION
from pytest_traincheck.pytest_plugin.items import THE_GOLDEN
from pytest_traincheck.report.wording import consequences
from pytest_traincheck.text import one_line

_FOLLOWS = "follows from incident"


class Shown:
    """Stands in for the text of a failure in the terminal; what else there is to know is that of the failure."""

    def __init__(self, text: str, whole: Any) -> None:
        self._text = text
        self._whole = whole

    def toterminal(self, writer: Any) -> None:
        """As pytest asks for it."""
        writer.line(self._text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


@contextmanager
def said_once(reporter: pytest.TerminalReporter, results: Iterable[CheckResult]) -> Iterator[None]:
    """Within the block, which prints the failures, those of pipelines whose results were shown are one line each."""
    results = tuple(results)
    names = {result.pipeline for result in results}
    told = {title for result in results for incident in result.incidents for title in consequences(incident)[0]}
    shortened: list[tuple[Any, Any]] = []
    for report in reporter.stats.get("failed", ()):
        if _is_shown(report, names):
            shortened.append((report, report.longrepr))
            report.longrepr = Shown(_line(report, told), report.longrepr)
    try:
        yield
    finally:
        for report, whole in shortened:
            report.longrepr = whole


def _is_shown(report: Any, names: Collection[str]) -> bool:
    """Whether a report is that of an item of ours, and its pipeline is among those that were shown."""
    about = dict(getattr(report, "user_properties", ()))
    return EXCEPTION in about or (about.get("traincheck_pipeline") in names)


def _line(report: pytest.TestReport, told: Collection[str]) -> str:
    """Where the cause stands, and of a consequence what it is where the incident has not `told` it."""
    text = str(report.longrepr)
    first, *rest = text.splitlines()
    number = dict(report.user_properties).get("traincheck_incident", "")
    if first.startswith(_FOLLOWS):
        new = [line for line in rest if one_line(line.partition(": ")[2]) not in told]
        return "\n".join([f"{_FOLLOWS} {number}, see above under traincheck", *new])
    if number:
        return f"incident {number}, see above under traincheck"
    alone = ["", THE_GOLDEN] if text.endswith(THE_GOLDEN) else []
    return "\n".join([first, "see above under traincheck", *alone])
