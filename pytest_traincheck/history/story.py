"""What a history tells of each pipeline: what broke and when it was gone, what was accepted, what never came up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from pytest_traincheck.check.result import Outcome
from pytest_traincheck.history.record import Broke, Entry, Exempted, Origin, Record

SELFTEST = "selftest"
"""The command whose records have kill rates; all others are checks."""

_LEAST_CHECKS = 3
"""Fewer checks against one golden say nothing about what never comes up."""


@dataclass(frozen=True)
class Ran:
    """One pipeline in one record."""

    record: Record
    entry: Entry


@dataclass(frozen=True)
class Episode:
    """An incident on one branch: where it was first and last seen, how often, and the first check without it."""

    incident: Broke
    branch: str
    first: Record
    last: Record
    times: int
    gone: Record | None


@dataclass(frozen=True)
class Learned:
    """A golden that differs from that of the check before."""

    record: Record
    origin: Origin
    rules_before: int
    rules: int


@dataclass(frozen=True)
class Accepted:
    """A broken rule that an exception allowed: in which checks."""

    rule: Exempted
    first: Record
    last: Record
    times: int


@dataclass(frozen=True)
class Silent:
    """Rules that came up in none of the last `checks` checks against the golden of today."""

    rules: tuple[str, ...]
    checks: int


@dataclass(frozen=True)
class Pipeline:
    """Everything about one pipeline, the oldest first."""

    name: str
    checks: tuple[Ran, ...]
    selftests: tuple[Ran, ...]
    episodes: tuple[Episode, ...]
    learned: tuple[Learned, ...]
    accepted: tuple[Accepted, ...]
    silent: Silent

    def count(self, outcome: Outcome) -> int:
        return sum(ran.entry.verdict is outcome for ran in self.checks)

    @property
    def seconds(self) -> float | None:
        """The median of what a check took, without learning: the candidate's run and the check of it."""
        known = [seconds_of(ran.entry) for ran in self.checks]
        taken = [value for value in known if value is not None]
        return median(taken) if taken else None


def seconds_of(entry: Entry) -> float | None:
    """Wall seconds of the candidate's run and of its check; None where nothing ran."""
    if not entry.seconds or not entry.seconds.get("candidate"):
        return None
    return entry.seconds["candidate"] + entry.seconds.get("check", 0.0)


def stories(records: Sequence[Record]) -> list[Pipeline]:
    """One for each pipeline, in the order in which they first appear."""
    by_name: dict[str, list[Ran]] = {}
    for record in records:
        for entry in record.pipelines:
            by_name.setdefault(entry.pipeline, []).append(Ran(record, entry))
    return [_story(name, ran) for name, ran in by_name.items()]


def _story(name: str, ran: Sequence[Ran]) -> Pipeline:
    checks = tuple(item for item in ran if item.record.command != SELFTEST)
    selftests = tuple(item for item in ran if item.record.command == SELFTEST and item.entry.kill_rate is not None)
    broke, learned, accepted = tuple(_episodes(checks)), tuple(_learned(checks)), tuple(_accepted(checks))
    return Pipeline(name, checks, selftests, broke, learned, accepted, _silent(checks))


def _episodes(checks: Sequence[Ran]) -> list[Episode]:
    """Incidents with one id on one branch are one as long as no check of that branch came out without it."""
    found: list[Episode] = []
    going: dict[tuple[str, str], Episode] = {}
    for item in checks:
        branch = item.record.branch
        if item.entry.verdict is Outcome.ERROR and not item.entry.incidents:
            continue  # nothing was looked at
        now = {incident.id: incident for incident in item.entry.incidents}
        for key in [key for key in going if key[0] == branch and key[1] not in now]:
            former = going.pop(key)
            found.append(_with(former, gone=item.record))
        for identity, incident in now.items():
            known = going.get((branch, identity))
            going[branch, identity] = (
                Episode(incident, branch, item.record, item.record, 1, None)
                if known is None
                else _with(known, last=item.record)
            )
    return sorted([*found, *going.values()], key=lambda episode: episode.first.when)


def _with(former: Episode, last: Record | None = None, gone: Record | None = None) -> Episode:
    times = former.times + (last is not None)
    return Episode(former.incident, former.branch, former.first, last or former.last, times, gone)


def _learned(checks: Sequence[Ran]) -> list[Learned]:
    """Where the golden became another one, on any branch; that of the first check is where the history begins."""
    found: list[Learned] = []
    seen: list[tuple[Origin, int]] = []
    for item in checks:
        golden = (item.entry.golden, item.entry.rules)
        if not item.entry.golden.commit or golden in seen:
            continue
        if seen:
            found.append(Learned(item.record, item.entry.golden, seen[-1][1], item.entry.rules))
        seen.append(golden)
    return found


def _accepted(checks: Sequence[Ran]) -> list[Accepted]:
    found: dict[tuple[str, str], Accepted] = {}
    for item in checks:
        for rule in item.entry.accepted:
            key = (rule.rule, rule.reason)
            former = found.get(key)
            first, times = (item.record, 0) if former is None else (former.first, former.times)
            found[key] = Accepted(rule, first, item.record, times + 1)
    return list(found.values())


def _silent(checks: Sequence[Ran]) -> Silent:
    judged = [item.entry for item in checks if item.entry.rules and item.entry.verdict is not Outcome.ERROR]
    same = [entry for entry in judged if entry.golden == judged[-1].golden] if judged else []
    if len(same) < _LEAST_CHECKS:
        return Silent((), len(same))
    common = set(same[0].silent).intersection(*(entry.silent for entry in same[1:]))
    return Silent(tuple(sorted(common)), len(same))


def span(records: Sequence[Record]) -> tuple[datetime, datetime] | None:
    """When the first and the last record were made; None of an empty history."""
    return (records[0].when, records[-1].when) if records else None
