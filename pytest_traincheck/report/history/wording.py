"""The sentences about a history that terminal and page have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from pytest_traincheck.check.result import Outcome
from pytest_traincheck.history.record import Record
from pytest_traincheck.history.story import Accepted, Episode, Learned, Pipeline, Silent
from pytest_traincheck.report.wording import seconds
from pytest_traincheck.text import one_line, plural

_COMMIT = 12
COLUMNS = ("pipeline", "checks", "failed", "not made", "last", "a check takes", "kill rate")


def day(when: datetime) -> str:
    """The day in the time zone of the record."""
    return when.date().isoformat()


def at(record: Record) -> str:
    """ "2026-11-20, 0cc3dc29bf87 on main"."""
    commit = f", {record.commit[:_COMMIT]}" if record.commit else ""
    branch = f" on {one_line(record.branch)}" if record.branch else ""
    return f"{day(record.when)}{commit}{branch}"


def summary(records: Sequence[Record]) -> str:
    """What the history spans."""
    if not records:
        return "no runs"
    return f"{plural(len(records), 'run')}, {day(records[0].when)} to {day(records[-1].when)}"


def row(story: Pipeline) -> tuple[str, ...]:
    """One pipeline in the columns of `COLUMNS`."""
    last = story.checks[-1] if story.checks else None
    rates = [ran.entry.kill_rate for ran in story.selftests if ran.entry.kill_rate is not None]
    return (
        story.name,
        str(len(story.checks)),
        str(story.count(Outcome.FAIL)),
        str(story.count(Outcome.ERROR)),
        "" if last is None else f"{last.entry.verdict.value} {day(last.record.when)}",
        "" if story.seconds is None else seconds(story.seconds),
        " ".join(f"{rate:.0%}" for rate in rates[-2:-1]) + (" -> " if len(rates) > 1 else "") + "".join(
            f"{rate:.0%}" for rate in rates[-1:]
        ),
    )  # fmt: skip


def outcomes(story: Pipeline) -> str:
    """How the checks came out, in numbers."""
    passed, failed, not_made = (story.count(outcome) for outcome in (Outcome.PASS, Outcome.FAIL, Outcome.ERROR))
    return f"{passed} passed, {failed} failed, {not_made} could not be made"


def broke(episode: Episode) -> str:
    """When an incident was there, and whether it has gone."""
    seen = "once" if episode.times == 1 else f"{episode.times} times until {day(episode.last.when)}"
    gone = "in the last check of this branch too" if episode.gone is None else f"gone at {at(episode.gone)}"
    return f"first at {at(episode.first)}; seen {seen}; {gone}"


def learned(item: Learned) -> str:
    """What is known of a golden that took another's place."""
    who = f" by {one_line(item.origin.by)}" if item.origin.by else ""
    why = f": {one_line(item.origin.reason)}" if item.origin.reason else ", without a reason"
    rules = f"{item.rules_before} rules became {item.rules}"
    return f"golden learned at {item.origin.commit[:_COMMIT]}{who}{why} ({rules}); first checked {at(item.record)}"


def accepted(item: Accepted) -> str:
    """Which rule was allowed to be broken, and on whose word."""
    times = plural(item.times, "check")
    return f"{one_line(item.rule.sentence)} ({one_line(item.rule.reason)}); {times}, last {at(item.last)}"


def silent(found: Silent, rules: int) -> str:
    """How many rules never came up."""
    return f"{len(found.rules)} of {plural(rules, 'rule')} came up in none of {plural(found.checks, 'check')}"


def named(rule: str, sentences: Mapping[str, str]) -> str:
    """A rule by its sentence, or by its id where no golden at hand has it."""
    return f"{one_line(sentences[rule])} ({rule})" if rule in sentences else rule
