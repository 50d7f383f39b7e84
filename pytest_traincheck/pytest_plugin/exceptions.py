"""Exceptions on file as tests: each is an item that fails when it has expired or matches no rule any more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from pytest_traincheck.check.result import Incident
from pytest_traincheck.config import STORED, Accept, Config
from pytest_traincheck.pytest_plugin.checks import CHECKS
from pytest_traincheck.pytest_plugin.failure import TraincheckFailure
from pytest_traincheck.pytest_plugin.items import TraincheckItem, item_name
from pytest_traincheck.pytest_plugin.wording import WIDTH
from pytest_traincheck.report.incident import render_incident_text
from pytest_traincheck.rules.model import Invariant
from pytest_traincheck.workflow.exceptions import checked_rules, problem, stored_rules, today

PROPERTY = "traincheck_exception"
"""Property of a report: the exception that it is about."""


class ExceptionsFile(pytest.File):
    """The configuration file, as far as it excuses rules."""

    def __init__(self, *, loaded: Config, golden: str, everything: bool, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.loaded = loaded
        self.golden = golden
        self.everything = everything
        self._known: Sequence[Invariant] | None = None

    def collect(self) -> Iterator[pytest.Item]:
        for entry in dict.fromkeys(self.loaded.accept):
            yield ExceptionItem.from_parent(self, name=f"accept[{item_name(entry.name)}]", entry=entry)

    def known(self) -> Sequence[Invariant] | None:
        """The rules of all goldens, read once; None where they are not all at hand."""
        if not self.everything:
            return None
        if self.golden != STORED:
            return checked_rules(self.loaded, self.config.stash[CHECKS].results.values())
        if self._known is None:
            self._known = stored_rules(self.loaded)
        return self._known


class ExceptionItem(TraincheckItem):
    """One exception on file."""

    parent: ExceptionsFile

    def __init__(self, *, entry: Accept, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.entry = entry

    def runtest(self) -> None:
        self.user_properties.append((PROPERTY, self.entry.name))
        found = problem(self.entry, self.parent.loaded, self.parent.known(), today())
        if found is not None:
            self.user_properties.append(("traincheck_sentence", found.title))
            text = render_incident_text(Incident(found.invariant.id, 1, found), width=WIDTH)
            raise TraincheckFailure(text, found.title)
