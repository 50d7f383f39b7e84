"""A session with `--traincheck-refresh`: one at a time, and what it learned is written at its end, all or nothing."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_traincheck.golden import locks
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.printable import printable
from pytest_traincheck.pytest_plugin import summary
from pytest_traincheck.pytest_plugin.learned import PROPERTY, learned_from_plain, learned_of, learned_to_plain
from pytest_traincheck.workflow.refresh import Relearned, write
from pytest_traincheck.workflow.refresh_intent import Acceptance, Decision, UnknownIncidentError, decide
from pytest_traincheck.workflow.refresh_text import refresh_text

WORKER_KEY = "traincheck_learned"


# pluggy keeps plugins in sets, so they are compared by identity.
@dataclass(eq=False)
class RefreshSession:
    """The hooks by which a session refreshes goldens. Under xdist the controller writes what its workers learned."""

    config: pytest.Config
    store: Path
    acceptance: Acceptance
    passed: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    goldens: dict[str, Relearned] = field(default_factory=dict)
    decision: Decision = field(default_factory=Decision)
    written: bool = False
    said: list[str] = field(default_factory=list)
    _held: ExitStack = field(default_factory=ExitStack)

    @property
    def _is_worker(self) -> bool:
        return hasattr(self.config, "workerinput")

    def pytest_sessionstart(self) -> None:
        """Wait for another refresh of the same store, so that this one begins with what that one leaves."""
        if self._is_worker or self.config.getoption("collectonly"):
            return
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")

        def waiting(holder: str) -> None:
            if reporter is not None:
                reporter.write_line(printable(f"traincheck: waiting for {holder}"))

        try:
            self._held.enter_context(locks.refreshing(self.store, "pytest --traincheck-refresh", waiting))
        except GoldenError as error:
            raise pytest.UsageError(str(error)) from error

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note which goldens were learned and which failed; seen by the controller for all workers."""
        names = {str(value) for key, value in report.user_properties if key == PROPERTY}
        (self.failed if report.failed else self.passed).update(names)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker learned. One that crashed has no output."""
        sent = getattr(node, "workeroutput", {}).get(WORKER_KEY)
        for content in json.loads(sent) if sent is not None else ():
            item = learned_from_plain(content)
            self.goldens[item.pipeline] = item

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        own = learned_of(self.config).goldens
        if self._is_worker:
            sent = json.dumps([learned_to_plain(item) for item in own.values()])
            self.config.workeroutput[WORKER_KEY] = sent  # type: ignore[attr-defined]
            return
        try:
            # Workers end in any order; what is reported does not depend on it.
            self.goldens = {**dict(sorted(self.goldens.items())), **own}
            self._finish(session)
        finally:
            self._held.close()

    def _finish(self, session: pytest.Session) -> None:
        if not self.goldens:
            return
        reason = self._reason_not_to(session)
        try:
            self.decision = decide([item.result for item in self.goldens.values()], self.acceptance)
            if not reason and self.decision.may_write:
                write(self.store, list(self.goldens.values()))
                self.written = True
        except (UnknownIncidentError, GoldenError) as error:
            self.said.append(f"traincheck: error: {error}")
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
        if reason and not self.written:
            self.said.append(f"traincheck: nothing was written: {reason}")

    def _reason_not_to(self, session: pytest.Session) -> str:
        """Why what was learned must not be written; a part of it would be a mixture of old and new."""
        if self.failed:
            return f"the refresh of {', '.join(sorted(self.failed))} failed"
        if lost := sorted(self.passed - self.goldens.keys()):
            return f"what was learned for {', '.join(lost)} got lost with its worker; run again"
        if session.shouldstop or session.shouldfail or session.exitstatus == pytest.ExitCode.INTERRUPTED:
            return "the session was stopped before its end"
        return ""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None, object, object]:
        if self.goldens or self.said:
            texts = [
                refresh_text(item, written=self.written, accepted=self.decision.accepted.get(item.pipeline, ()))
                for item in self.goldens.values()
            ]
            summary.show(terminalreporter, (), texts, self.said)
        return (yield)
