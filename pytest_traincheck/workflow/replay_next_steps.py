"""What to type after a replayed check, in a clone of the repository that the bundle comes from.

Nothing of the bundle's own commands is shown: whoever made it would choose what a person pastes into a shell. They only
tell which kind of check it was, and the words are put together anew from parts that can be nothing else.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_traincheck.bundle import Bundle
from pytest_traincheck.check.result import CheckResult, Commands
from pytest_traincheck.workflow.next_steps import accept_words, check_words, fixture_commands, refresh_words

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_COMMIT = re.compile(r"[0-9a-f]{12,64}")


def replayed_commands(result: CheckResult, bundle: Bundle) -> CheckResult:
    """The result with its commands, where the check had some and every part of them is what it should be."""
    if not result.incidents or not _NAME.fullmatch(result.pipeline):
        return result
    commands = _commands(result, bundle, _kind(bundle.report))
    return result if commands is None else replace(result, commands=commands)


def _commands(result: CheckResult, bundle: Bundle, kind: tuple[str, ...]) -> Commands | None:
    if kind == ("traincheck", "refresh"):
        return Commands(check_words(result), refresh_words(result))
    commit = bundle.manifest.golden.commit
    if kind == ("traincheck", "accept") and _COMMIT.fullmatch(commit):
        # The exceptions are for what this check found, which another machine has not seen.
        words = accept_words(result, Path.cwd(), ("--json-file", shlex.quote(bundle.place)))
        return Commands(check_words(result, commit[:12]), words)
    if kind[:1] == ("pytest",) and (test := test_of(bundle.manifest.spec.run)):
        return fixture_commands(result, test)
    return None


def _kind(report: Mapping[str, Any]) -> tuple[str, ...]:
    """The first two words of the command that accepts, as the check printed it."""
    commands = report.get("commands")
    accept = commands.get("accept") if isinstance(commands, dict) else None
    return tuple(accept.split()[:2]) if isinstance(accept, str) else ()


def test_of(command: str) -> str:
    """The node id in the command that runs a test; empty for any other command, and for what could be an option."""
    try:
        program, test = shlex.split(command)
    except ValueError:
        return ""
    is_test = program == "pytest" and test.isprintable() and test[:1].isalnum()
    return test if is_test else ""
