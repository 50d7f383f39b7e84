"""A pack as lines of JSON: a header, then a rule a line, sorted by name, the same bytes for the same content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_traincheck.packs.errors import PackError
from pytest_traincheck.packs.model import FORMAT, Level, Pack, PackRule
from pytest_traincheck.rules.claims import to_json


def encode(pack: Pack) -> bytes:
    """The whole file. Raises `PackError` for content that a reader could not give back unchanged."""
    rules: dict[tuple[str, str], str] = {}
    for rule in pack.rules:
        line = _line(_rule(rule), f"the rule {rule.id!r}")
        if rules.setdefault(rule.order, line) != line:
            raise PackError(f"Two rules of the pack {pack.name!r} claim the same thing as {rule.id!r}. Keep one.")
    header = _line(_header(pack, len(rules)), f"the header of {pack.name!r}")
    return "".join([header, *(rules[key] for key in sorted(rules))]).encode("utf-8")


def _header(pack: Pack, count: int) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "pack": pack.name,
        "library": pack.library,
        "versions": {name: list(pack.versions[name]) for name in sorted(pack.versions)},
        "programs": sorted(pack.programs),
        **({"mistakes": {key: sorted(pack.mistakes[key]) for key in sorted(pack.mistakes)}} if pack.mistakes else {}),
        "runs": pack.runs,
        "rules": count,
        "laws": pack.count(Level.LAW),
        "habits": pack.count(Level.HABIT),
        "reason": pack.reason,
    }


def _rule(rule: PackRule) -> dict[str, Any]:
    invariant, evidence = rule.invariant, rule.evidence
    claim = to_json(invariant.claim)
    return {
        "id": rule.id,
        "level": rule.level.value,
        "sentence": invariant.sentence,
        "why": rule.why,
        "link": rule.link,
        "remedy": rule.remedy,
        "meant": rule.meant,
        "since": rule.since,
        "relation": invariant.relation,
        "subject": invariant.subject,
        "kind": invariant.kind.value,
        "claim": {key: claim[key] for key in sorted(claim)},
        "when": [clause.to_json() for clause in invariant.when],
        "evidence": {
            "shows": sorted(evidence.shows),
            "breaks": sorted(evidence.breaks),
            "examples": evidence.examples,
            "tried": evidence.tried,
            "failed": evidence.failed,
            "at_most": evidence.at_most,
        },
    }


def _line(content: Mapping[str, Any], what: str) -> str:
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
    except (TypeError, ValueError) as error:
        raise PackError(
            f"Cannot store {what}: {error}. A pack holds finite numbers, strings, lists and objects only; change what "
            "the relation puts into the claim."
        ) from error
    return text + "\n"
