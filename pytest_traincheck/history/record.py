"""One line of a history: what one command came to. Pure data, with its JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from pytest_traincheck.check.result import Outcome
from pytest_traincheck.input_error import InputError
from pytest_traincheck.json_lines import Place, check_keys, choice, short, string

FORMAT = 1
"""Version of a line; a reader refuses what is newer."""

_RECORD = ("format", "when", "command", "commit", "branch", "verdict", "pipelines")
_PIPELINE = (
    "pipeline", "verdict", "golden", "rules", "incidents", "accepted", "silent", "errors", "coverage", "seconds",
    "kill_rate", "survivors",
)  # fmt: skip
_GOLDEN = ("commit", "reason", "by")
_INCIDENT = ("id", "title", "relation", "kind", "subject", "source")
_ACCEPTED = ("rule", "sentence", "reason")


class HistoryError(InputError, ValueError):
    """A history cannot be read or written: which file and line, and what to do."""


@dataclass(frozen=True)
class Origin:
    """Where the rules came from: the commit they were learned at, why, and who committed the file."""

    commit: str = ""
    reason: str = ""
    by: str = ""


@dataclass(frozen=True)
class Broke:
    """An incident, as far as a history keeps it."""

    id: str
    title: str
    relation: str
    kind: str
    subject: str
    source: str


@dataclass(frozen=True)
class Exempted:
    """A rule that was broken with an exception on file: until when, by whom and why stands in `reason`."""

    rule: str
    sentence: str
    reason: str


@dataclass(frozen=True)
class Entry:
    """One pipeline in one record.

    `silent` are the ids of rules that did not come up; `seconds` the wall time of one run of each side and of what was
    computed (`golden`, `candidate`, `check`). `coverage` is between 0 and 1, None where nothing could be compared.
    `kill_rate` and `survivors` are a selftest's, None and empty otherwise.
    """

    pipeline: str
    verdict: Outcome
    golden: Origin = Origin()
    rules: int = 0
    incidents: tuple[Broke, ...] = ()
    accepted: tuple[Exempted, ...] = ()
    silent: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    coverage: float | None = None
    seconds: Mapping[str, float] | None = None
    kill_rate: float | None = None
    survivors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """What one command came to. `when` has a time zone; `command` is `check`, `pytest` or `selftest`."""

    when: datetime
    command: str
    commit: str
    branch: str
    verdict: Outcome
    pipelines: tuple[Entry, ...]

    def to_json(self) -> dict[str, Any]:
        """The object of its line."""
        content = {**asdict(self), "when": self.when.isoformat(), "verdict": self.verdict.value}
        content["pipelines"] = [
            {**asdict(entry), "verdict": entry.verdict.value, "seconds": dict(entry.seconds or {})}
            for entry in self.pipelines
        ]
        return {"format": FORMAT, **content}


def from_json(content: Mapping[str, Any], place: Place) -> Record:
    """The record that an object is. Raises the place's error for one that is none."""
    version = content.get("format")
    if isinstance(version, int) and version > FORMAT:
        what = f"the line has format {version}, and this version reads up to {FORMAT}"
        raise place.error(what, "Install a newer version of pytest-traincheck.")
    check_keys(content, _RECORD, place)
    try:
        when = datetime.fromisoformat(string(content, "when", place))
    except ValueError:
        raise place.error(f"`when` is {short(content['when'])} and no time") from None
    if when.tzinfo is None:
        raise place.error(f"`when` is {short(content['when'])}, without a time zone")
    return Record(
        when,
        string(content, "command", place),
        string(content, "commit", place),
        string(content, "branch", place),
        choice(content, "verdict", Outcome, place),
        tuple(_entry(item, place) for item in _objects(content, "pipelines", _PIPELINE, place)),
    )


def _entry(content: Mapping[str, Any], place: Place) -> Entry:
    seconds = content["seconds"]
    if not isinstance(seconds, dict):
        raise place.error(f"`seconds` is {short(seconds)} and not an object")
    golden = _strings_of({"golden": [content["golden"]]}, "golden", _GOLDEN, place)[0]
    rules = content["rules"]
    if not isinstance(rules, int) or isinstance(rules, bool) or rules < 0:
        raise place.error(f"`rules` is {short(rules)} and not a count")
    return Entry(
        string(content, "pipeline", place),
        choice(content, "verdict", Outcome, place),
        Origin(*golden),
        rules,
        tuple(Broke(*values) for values in _strings_of(content, "incidents", _INCIDENT, place)),
        tuple(Exempted(*values) for values in _strings_of(content, "accepted", _ACCEPTED, place)),
        _texts(content, "silent", place),
        _texts(content, "errors", place),
        _share(content, "coverage", place),
        {name: _number(value, f"seconds.{name}", place) for name, value in seconds.items()},
        _share(content, "kill_rate", place),
        _texts(content, "survivors", place),
    )


def _objects(content: Mapping[str, Any], key: str, keys: Sequence[str], place: Place) -> list[Mapping[str, Any]]:
    items = content[key]
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise place.error(f"`{key}` is {short(items)} and not a list of objects")
    for item in items:
        check_keys(item, tuple(keys), place)
    return items


def _strings_of(content: Mapping[str, Any], key: str, keys: Sequence[str], place: Place) -> list[list[str]]:
    return [[string(item, name, place) for name in keys] for item in _objects(content, key, keys, place)]


def _texts(content: Mapping[str, Any], key: str, place: Place) -> tuple[str, ...]:
    items = content[key]
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise place.error(f"`{key}` is {short(items)} and not a list of strings")
    return tuple(items)


def _number(value: object, key: str, place: Place) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise place.error(f"`{key}` is {short(value)} and not a number of seconds")
    return float(value)


def _share(content: Mapping[str, Any], key: str, place: Place) -> float | None:
    value = content[key]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise place.error(f"`{key}` is {short(value)} and not between 0 and 1")
    return float(value)
