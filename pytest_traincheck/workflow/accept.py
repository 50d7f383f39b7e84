"""Exceptions on file for what a check found: which rules they name, and the configuration file with them."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import tomlkit
from tomlkit.exceptions import TOMLKitError

from pytest_traincheck.atomic import replace_file
from pytest_traincheck.config import PYPROJECT, Accept, Config, ConfigError, load_text
from pytest_traincheck.input_error import InputError
from pytest_traincheck.text import one_line
from pytest_traincheck.workflow.next_steps import PLACEHOLDER

_TITLE_SHOWN = 100


class AcceptError(InputError, ValueError):
    """Something cannot be accepted: what, and what to do now."""


@dataclass(frozen=True)
class Found:
    """What one of the things asked for stands for: the rules that it broke, and what it was in words.

    `rules` are ids of rules, or a subject, each with what the candidate had where that could have been one of several
    things: the exception is for that value, as the words are. With "" it is for any.
    """

    asked: str
    rules: Mapping[str, str]
    title: str


@dataclass(frozen=True)
class Terms:
    """On whose word, why, and until which day."""

    owner: str
    reason: str
    expires: datetime.date


@dataclass(frozen=True)
class Accepted:
    """What was done to the file: rules that got an exception, that got new terms, and that had one already."""

    added: tuple[str, ...] = ()
    renewed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def terms(owner: str, reason: str, expires: datetime.date, today: datetime.date) -> Terms:
    """Terms that mean something. Raises `AcceptError`."""
    for name, text in (("--owner", owner), ("--reason", reason)):
        if not one_line(text) or one_line(text) == PLACEHOLDER:
            raise AcceptError(
                f"{name} is {text!r}, which tells a later reader nothing. "
                "Write who answers for the exception, and why it is right for now."
            )
    if expires < today:
        raise AcceptError(f"--expires {expires} is over. Give the last day on which the exception shall hold.")
    return Terms(one_line(owner), one_line(reason), expires)


def resolve(asked: Sequence[str], document: Mapping[str, Any], pipeline: str) -> list[Found]:
    """The rules behind incident ids, rule ids and subjects, as the JSON object of a check has them.

    Raises `AcceptError` for what the check did not find.
    """
    incidents = _incidents(document, pipeline)
    return [_find(text, incidents, pipeline) for text in dict.fromkeys(asked)]


def _incidents(document: Mapping[str, Any], pipeline: str) -> list[Mapping[str, Any]]:
    singles = document.get("pipelines", [document])
    for single in singles if isinstance(singles, list) else ():
        if isinstance(single, dict) and single.get("pipeline") == pipeline:
            incidents = single.get("incidents")
            return [item for item in incidents if isinstance(item, dict)] if isinstance(incidents, list) else []
    raise AcceptError(
        f"that is no result of a check of {pipeline!r}. Give the file that `traincheck check {pipeline} --json` wrote."
    )


def _find(text: str, incidents: Sequence[Mapping[str, Any]], pipeline: str) -> Found:
    for incident in incidents:
        rules = dict.fromkeys(_texts(incident.get("invariants")), "") | _values(incident)
        title = one_line(str(incident.get("title", "")))
        if text == incident.get("id") and rules:
            return Found(text, rules, title)
        if text in rules or text == incident.get("subject"):
            return Found(text, {text: rules.get(text, "")}, title)
    if not incidents:
        raise AcceptError(f"the last check of {pipeline!r} found no incident, so there is nothing to accept.")
    listed = "\n".join(f"  {item.get('id')}  {one_line(str(item.get('title', '')))}" for item in incidents)
    raise AcceptError(
        f"the last check of {pipeline!r} has no incident, broken rule or subject {text!r}. It found:\n{listed}"
    )


def _values(incident: Mapping[str, Any]) -> dict[str, str]:
    values = incident.get("values")
    return {key: text for key, text in values.items() if isinstance(text, str)} if isinstance(values, dict) else {}


def _texts(values: object) -> tuple[str, ...]:
    return tuple(value for value in values if isinstance(value, str)) if isinstance(values, list) else ()


def accept(config: Config, pipeline: str, found: Iterable[Found], wanted: Terms) -> Accepted:
    """Write the exceptions into the configuration file, in one step, and leave the rest of it as it is.

    An exception that is on file until the same day or longer is left alone; one that ends sooner gets the new terms.
    Raises `AcceptError` when the file cannot be written in such a way that it says just that.
    """
    text = config.source.read_bytes().decode("utf-8")
    rules = {_Rule(rule, value): item for item in found for rule, value in item.rules.items()}
    # One for any value is for this one as well.
    on_file = {_Rule(entry.invariant, value): entry for entry in config.accept for value in _covered(entry, rules)}
    kept = tuple(rule for rule in rules if rule in on_file and on_file[rule].expires >= wanted.expires)
    over = [on_file[rule] for rule in rules if rule in on_file and rule not in kept]
    renewed = tuple(dict.fromkeys(_Rule(entry.invariant, entry.value) for entry in over))
    added = tuple(rule for rule in rules if rule not in on_file)
    entries = tuple(_entry(rule, wanted) for rule in added)
    expected = tuple(
        _entry(rule, wanted) if (rule := _Rule(entry.invariant, entry.value)) in renewed else entry
        for entry in config.accept
    )
    new = _renewed(text, config.source, renewed, wanted) if renewed else text
    new = _appended(new, _blocks(config.source, pipeline, rules, added, wanted))
    try:
        result = load_text(config.source, new)
    except ConfigError:
        result = None
    if result is None or result != replace(config, accept=(*expected, *entries)):
        raise AcceptError(
            f"{config.source}: exceptions cannot be added to it by this command. Write them by hand:\n"
            f"{_blocks(config.source, pipeline, rules, tuple(rule for rule in rules if rule not in kept), wanted)}"
        )
    if new != text:
        replace_file(config.source, new.encode("utf-8"))
    return Accepted(*(tuple(rule.invariant for rule in part) for part in (added, renewed, kept)))


class _Rule(NamedTuple):
    """What an exception is for."""

    invariant: str
    value: str


def _covered(entry: Accept, rules: Iterable[_Rule]) -> list[str]:
    """The values that an exception on file is for, as far as they are asked for."""
    if entry.value:
        return [entry.value]
    return [rule.value for rule in rules if rule.invariant == entry.invariant]


def _entry(rule: _Rule, wanted: Terms) -> Accept:
    return Accept(rule.invariant, wanted.owner, wanted.reason, wanted.expires, rule.value)


def _blocks(source: Path, pipeline: str, rules: Mapping[_Rule, Found], added: Iterable[_Rule], wanted: Terms) -> str:
    """The tables as text, with what was found above those that belong together."""
    table = "tool.traincheck.accept" if source.name == PYPROJECT else "accept"
    lines: list[str] = []
    title = ""
    for rule in added:
        lines.append("")
        if rules[rule].title != title:
            title = rules[rule].title
            lines.append(f"# {pipeline}: {title if len(title) <= _TITLE_SHOWN else title[: _TITLE_SHOWN - 1] + '…'}")
        lines += [
            f"[[{table}]]",
            f"invariant = {_quoted(rule.invariant)}",
            *([f"value = {_quoted(rule.value)}"] if rule.value else []),
            f"owner = {_quoted(wanted.owner)}",
            f"reason = {_quoted(wanted.reason)}",
            f"expires = {wanted.expires.isoformat()}",
        ]
    return "\n".join([*lines, ""]) if lines else ""


def _quoted(text: str) -> str:
    return tomlkit.string(text).as_string()


def _appended(text: str, block: str) -> str:
    """At the end, where a table of its own may always stand; with the line ends of the file."""
    if not block:
        return text
    if text and not text.endswith("\n"):
        text += "\n"
    return text + (block.replace("\n", "\r\n") if "\r\n" in text else block)


def _renewed(text: str, source: Path, rules: Sequence[_Rule], wanted: Terms) -> str:
    """The file with new terms in the exceptions that are there; everything else keeps its form."""
    try:
        document: Any = tomlkit.parse(text)
        tables = document["tool"]["traincheck"] if source.name == PYPROJECT else document
        for entry in tables["accept"]:
            if _Rule(entry["invariant"], entry.get("value", "")) in rules:
                entry["owner"], entry["reason"], entry["expires"] = wanted.owner, wanted.reason, wanted.expires
        return str(tomlkit.dumps(document))
    except (TOMLKitError, KeyError, TypeError):
        # What comes of it is looked at before it is written.
        return text
