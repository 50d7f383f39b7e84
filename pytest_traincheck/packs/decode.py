"""Lines of JSON to a pack. The file is untrusted: everything is checked, nothing is evaluated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pytest_traincheck.json_lines import Place, check_keys, choice, count, object_, parse, short, string
from pytest_traincheck.packs.errors import PackError
from pytest_traincheck.packs.model import FORMAT, Evidence, Level, Pack, PackRule
from pytest_traincheck.rules.claims import Foreign
from pytest_traincheck.rules.conditions import Condition, condition_from_json
from pytest_traincheck.rules.model import Invariant, Kind, Scope

NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
"""What packs and rules are called."""

NAME_LIMIT = 80
TEXT_LIMIT = 4000
"""Characters of the longest text that is for people."""

_LINK = re.compile(r"https?://[^\s<>\"'`]+")
_HEADER_KEYS = ("format", "pack", "library", "versions", "programs", "runs", "rules", "laws", "habits", "reason")
_MISTAKES = "mistakes"
"""The key of a header that is there only where a program makes one."""
_RULE_KEYS = (
    *("id", "level", "sentence", "why", "link", "remedy", "meant", "since"),
    *("relation", "subject", "kind", "claim", "when", "evidence"),
)
_EVIDENCE_KEYS = ("shows", "breaks", "examples", "tried", "failed", "at_most")
_DAMAGED = "Restore the file from version control, or make it again with `traincheck infer --transferable`."
_MERGED = "Check out either side of the merge and run `traincheck infer --transferable`."


def decode(data: bytes, name: str) -> Pack:
    """The pack that the bytes of a file describe; `name` is the file's name for messages.

    Raises `PackError` naming the line for anything that `encode` would not have written. Claims are as they stand in
    the file (`Foreign`).
    """
    first = _place(name, 1)
    if not data:
        raise first.error("the file is empty")
    lines = data.split(b"\n")
    complete = lines.pop() == b""
    if not complete and not lines:
        parse(data, first)
        raise first.error("the line has no end, so the file was cut short")
    header = parse(lines[0], first)
    pack, announced = _header(header, first)
    if not complete:
        raise _place(name, len(lines) + 1).error("the line has no end, so the file was cut short")
    rules: dict[tuple[str, str], PackRule] = {}
    for number, line in enumerate(lines[1:], start=2):
        place = _place(name, number)
        rule = _rule(parse(line, place), place)
        if rule.order in rules:
            raise place.error(f"the rule {rule.id!r} with this claim stands on an earlier line already")
        rules[rule.order] = rule
    if len(rules) != announced:
        raise _place(name, len(lines)).error(
            f"the file ends after {len(rules)} rules but its header announces {announced}: it was cut short, merged "
            "or edited by hand"
        )
    return Pack(rules=tuple(rules.values()), **pack)


def _place(name: str, line: int) -> Place:
    return Place(name, line, PackError, _DAMAGED, _MERGED)


def _header(content: Mapping[str, Any], place: Place) -> tuple[dict[str, Any], int]:
    # The version first: a newer format may have any other keys.
    if "format" not in content or "pack" not in content:
        raise place.error(
            "there is no `format` or no `pack`, so this is not the header of a pack",
            "Give the path of a file that `traincheck infer --transferable` wrote.",
        )
    version = count(content, "format", place)
    if version > FORMAT:
        raise place.error(
            f"the file has format {version}, and this pytest-traincheck reads up to {FORMAT}",
            "Upgrade pytest-traincheck, or make the file again with `traincheck infer --transferable`.",
        )
    if version < 1:
        raise place.error(f"the file has format {version}, which never existed")
    check_keys({_MISTAKES: {}, **content}, (*_HEADER_KEYS, _MISTAKES), place)
    versions = object_(content, "versions", place)
    facts = {
        "name": _name(content, "pack", place),
        "library": _text(content, "library", place),
        "programs": _texts(content, "programs", place),
        "versions": {key: _texts(versions, key, place) for key in versions},
        "runs": count(content, "runs", place),
        "reason": _text(content, "reason", place),
        "mistakes": _mistakes(content, place),
    }
    for key in ("laws", "habits"):
        count(content, key, place)
    return facts, count(content, "rules", place)


def _rule(content: Mapping[str, Any], place: Place) -> PackRule:
    check_keys(content, _RULE_KEYS, place)
    when = content["when"]
    if not isinstance(when, list):
        raise place.error(f"`when` is {short(when)} and not a list")
    link = _text(content, "link", place)
    if link and not _LINK.fullmatch(link):
        raise place.error(f"`link` is {short(link)}, which is no web address")
    return PackRule(
        id=_name(content, "id", place),
        level=choice(content, "level", Level, place),
        invariant=Invariant(
            relation=string(content, "relation", place),
            subject=string(content, "subject", place),
            claim=Foreign(object_(content, "claim", place)),
            when=tuple(_condition(item, place) for item in when),
            scope=Scope.TRANSFERABLE,
            kind=choice(content, "kind", Kind, place),
            sentence=_text(content, "sentence", place),
        ),
        evidence=_evidence(object_(content, "evidence", place), place),
        link=link,
        **{key: _text(content, key, place) for key in ("why", "remedy", "meant", "since")},
    )


def _mistakes(content: Mapping[str, Any], place: Place) -> dict[str, tuple[str, ...]]:
    if _MISTAKES not in content:
        return {}
    found = object_(content, _MISTAKES, place)
    return {key: _texts(found, key, place) for key in found}


def _evidence(content: Mapping[str, Any], place: Place) -> Evidence:
    check_keys(content, _EVIDENCE_KEYS, place)
    at_most = content["at_most"]
    if isinstance(at_most, bool) or not isinstance(at_most, (int, float)) or not 0 <= at_most <= 1:
        raise place.error(f"`at_most` is {short(at_most)} and not a share between 0 and 1")
    shows, breaks = (_texts(content, key, place) for key in ("shows", "breaks"))
    if not set(breaks) <= set(shows):
        raise place.error("`breaks` names a program that `shows` does not name")
    numbers = {key: count(content, key, place) for key in ("examples", "tried", "failed")}
    return Evidence(shows, breaks, at_most=float(at_most), **numbers)


def _condition(item: object, place: Place) -> Condition:
    try:
        return condition_from_json(item)
    except ValueError as error:
        raise place.error(f"`when` holds {short(item)}, which {error}") from error


def _name(content: Mapping[str, Any], key: str, place: Place) -> str:
    value = str(string(content, key, place))
    if len(value) > NAME_LIMIT or not NAME.fullmatch(value):
        raise place.error(f"`{key}` is {short(value)}; it must be of small letters and digits, joined by dashes")
    return value


def _text(content: Mapping[str, Any], key: str, place: Place) -> str:
    value = str(string(content, key, place))
    if len(value) > TEXT_LIMIT:
        raise place.error(f"`{key}` has {len(value)} characters; the limit is {TEXT_LIMIT}")
    return value


def _texts(content: Mapping[str, Any], key: str, place: Place) -> tuple[str, ...]:
    value = content[key]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise place.error(f"`{key}` is {short(value)} and not a list of strings")
    return tuple(value)
