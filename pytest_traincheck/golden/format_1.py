"""Goldens of format 1, in which some claims had English in the place of codes: what they said, in today's words.

The ids of such rules were others. They are still known, since exceptions on file and reports name them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_traincheck.rules.claims import Foreign, to_json
from pytest_traincheck.rules.model import Invariant

CODES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("Covered", "rule"): {
        "every trainable parameter is in exactly one optimizer group": "one group",
        "every parameter of an optimizer is trainable": "held trainable",
        "every parameter of an optimizer belongs to a model": "held known",
        "these parameters are frozen": "frozen",
        "these parameters are trainable": "trainable",
        "an optimizer holds parameters of these models only": "models",
        "an optimizer holds so many parameters of no model": "loose",
    },
    ("EventContain", "change"): {
        "changes every parameter it holds that has a gradient": "updates",
        "every parameter it holds has received a gradient": "received",
        "leaves the parameters of other models alone": "others stay",
    },
    ("DataFlow", "value"): {
        "raw numbers": "raw",
        "probabilities (the output of `softmax`)": "softmax",
        "probabilities (the output of `sigmoid`)": "sigmoid",
        "log-probabilities (the output of `log_softmax`)": "log_softmax",
        "log-probabilities (the output of `logsigmoid`)": "logsigmoid",
        "the output of `tanh`": "tanh",
        "the output of `relu`": "relu",
    },
}
"""By relation and key: the text that stood there, and the code that stands there now."""

CONSTANTS: Mapping[tuple[str, str], tuple[str, str]] = {("APIOutput", "finite"): ("api", "a loss function")}
"""By relation and a key of the claim: a key that stood beside it, always with this text, and is gone."""


def translated(rule: Invariant) -> Invariant:
    """A rule of format 1 as it is written today."""
    content = to_json(rule.claim)
    for (relation, key), codes in CODES.items():
        if relation == rule.relation and isinstance(content.get(key), str):
            content[key] = codes.get(content[key], content[key])
    for (relation, key), (gone, text) in CONSTANTS.items():
        if relation == rule.relation and key in content and content.get(gone) == text:
            del content[gone]
    return _with(rule, content)


def ids_of(rule: Invariant) -> tuple[str, ...]:
    """All ids that a rule is known by: its own, and the one that it had in format 1 where that was another."""
    return tuple(dict.fromkeys((rule.id, former(rule).id)))


def former(rule: Invariant) -> Invariant:
    """A rule as format 1 had it."""
    content = to_json(rule.claim)
    for (relation, key), codes in CODES.items():
        if relation == rule.relation:
            former = {code: text for text, code in codes.items()}
            content |= {name: former[value] for name, value in content.items() if name == key and str(value) in former}
    for (relation, key), (gone, text) in CONSTANTS.items():
        if relation == rule.relation and key in content:
            content.setdefault(gone, text)
    return _with(rule, content)


def _with(rule: Invariant, content: dict[str, Any]) -> Invariant:
    return rule if content == to_json(rule.claim) else replace(rule, claim=Foreign(content))
