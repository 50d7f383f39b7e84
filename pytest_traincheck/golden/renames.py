"""Optimizers and models that took the place of others, so that rules which say the same of them can be told."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_traincheck.golden.model import Golden
from pytest_traincheck.optimizer_label import class_in, without_class
from pytest_traincheck.rules.claims import Foreign, to_json
from pytest_traincheck.rules.conditions import condition_from_json
from pytest_traincheck.rules.model import Invariant

Renames = tuple[tuple[str, str], ...]


def renames(old: Golden, new: Golden) -> Renames:
    """Old and new name of each model with the same parameters under another name, then of each optimizer of another
    class for the same models, then of each class of optimizers that is used no more.
    """
    models = _models(old.models, new.models)
    optimizers = []
    classes = []
    used = {str(facts.get("class", "")) for facts in new.optimizers.values()}
    for name in sorted(old.optimizers.keys() - new.optimizers.keys()):
        held = without_class(translated(name, models))
        come = new.optimizers.keys() - old.optimizers.keys()
        matching = [other for other in come if without_class(other) == held]
        if len(matching) != 1 or not held:
            continue
        other = matching[0]
        optimizers.append((name, other))
        former, current = (str(facts.get("class", "")) for facts in (old.optimizers[name], new.optimizers[other]))
        if former and current and former not in used:
            classes += [(former, current), (class_in(name), class_in(other))]
    return (*models, *optimizers, *dict.fromkeys(pair for pair in classes if pair[0] != pair[1]))


def _models(old: Mapping[str, Any], new: Mapping[str, Any]) -> Renames:
    gone, come = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    found = []
    for name in gone:
        same = [other for other in come if _text(new[other]) == _text(old[name])]
        twins = [other for other in gone if _text(old[other]) == _text(old[name])]
        if len(same) == len(twins) == 1:
            found.append((name, same[0]))
    return tuple(found)


def renamed(rule: Invariant, pairs: Renames) -> Invariant:
    """What a rule would claim of what took the place of those it speaks of."""
    content = {"subject": rule.subject, "claim": to_json(rule.claim), "when": [part.to_json() for part in rule.when]}
    content = json.loads(translated(_text(content), pairs))
    return replace(
        rule,
        subject=content["subject"],
        claim=Foreign(content["claim"]),
        when=tuple(condition_from_json(part) for part in content["when"]),
    )


def translated(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    """The text with names replaced where they stand as whole words."""
    for old, new in pairs:
        text = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", new.replace("\\", r"\\"), text)
    return text


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
