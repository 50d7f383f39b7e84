"""The `audit` fixture: training inside an ordinary test, held against ready-made rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest

from pytest_traincheck.check.result import Outcome
from pytest_traincheck.input_error import InputError
from pytest_traincheck.plugins import in_session
from pytest_traincheck.printable import printable
from pytest_traincheck.workflow.audit_block import Found, audited

Audit = Callable[..., AbstractContextManager[Found]]


class AuditWarning(pytest.PytestWarning):
    """Training inside of a test does otherwise than nearly all programs do."""


def use(request: pytest.FixtureRequest) -> Iterator[Audit]:
    """The fixture's body: what it hands out audits a block, and fails the test for what breaks a law."""

    @contextmanager
    def audit(packs: Sequence[str] = ()) -> Iterator[Found]:
        item = request.node
        with ExitStack() as stack:
            try:
                found = stack.enter_context(audited(packs, name=item.name, directory=request.config.rootpath))
            except InputError as error:
                pytest.fail(str(error), pytrace=False)
            yield found
        if found.audit.outcome is not Outcome.PASS:
            pytest.fail(printable(str(found)), pytrace=False)
        for finding in found.warnings:
            item.warn(AuditWarning(f"{finding.rule.id}: {finding.incident.cause.title}"))

    with in_session(request.config.pluginmanager):
        yield audit
