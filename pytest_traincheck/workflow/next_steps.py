"""What to type after a failed check: the commands that reproduce it and that say it was intended."""

from __future__ import annotations

import datetime
import shlex
from dataclasses import replace
from pathlib import Path

from pytest_traincheck.check.result import CheckResult, Commands, Outcome
from pytest_traincheck.config import STORED, Config, ConfigError, load
from pytest_traincheck.launch.git import GitError, git

PLACEHOLDER = "..."
"""Stands for what only a person can say; `traincheck accept` refuses it."""

ACCEPTED_DAYS = 30
"""How long an exception lasts that is accepted by the command as it is printed."""


def with_commands(result: CheckResult, config: Config, golden: str) -> CheckResult:
    """The result with its commands, where it has incidents. `golden` is `stored`, a commit's hash, or a directory."""
    if result.outcome is not Outcome.FAIL:
        return result
    where = _configuration(config)
    reproduce = ["traincheck", "check", result.pipeline]
    if golden != STORED or config.golden != STORED:
        reproduce += ["--golden", shlex.quote(golden)]
    ids = [incident.id for incident in result.incidents]
    if golden == STORED:
        named = [word for identity in ids for word in ("--accept", identity)]
        accept = ["traincheck", "refresh", result.pipeline, *named, "--reason", f'"{PLACEHOLDER}"', *where]
    else:
        accept = ["traincheck", "accept", *ids, "--pipeline", result.pipeline]
        accept += ["--owner", _owner(config.root), "--reason", f'"{PLACEHOLDER}"', "--expires", _last_day(), *where]
    return replace(result, commands=Commands((*reproduce, *where), tuple(accept)))


def _configuration(config: Config) -> list[str]:
    """How to name the configuration, where it is not the one that would be found."""
    here = Path.cwd()
    try:
        if load(here).source == config.source:
            return []
    except ConfigError:
        pass
    inside = config.source.is_relative_to(here)
    return ["--config", shlex.quote(str(config.source.relative_to(here) if inside else config.source))]


def _owner(root: Path) -> str:
    try:
        name = " ".join(git(root, "config", "user.name").split())
    except GitError:
        name = ""
    return shlex.quote(name) if name.isprintable() and name else f'"{PLACEHOLDER}"'


def _last_day() -> str:
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return (today + datetime.timedelta(days=ACCEPTED_DAYS)).isoformat()
