"""Preconditions in words."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_traincheck.relations.context import FIELD_WORDS
from pytest_traincheck.rules.conditions import Clause, Condition, Except, Exists

_STAGES = {"train": "in training", "eval": "in evaluation", "init": "during set-up"}
_PHRASES = {
    ("first_step", "no"): "from the second step on",
    ("first_step", "yes"): "in the first step",
    ("rank", "first"): "on rank 0",
    ("rank", "other"): "on the other ranks",
    ("requires_grad", "on"): "for parameters that require gradients",
    ("requires_grad", "off"): "for parameters that require no gradients",
    ("learning_rate", "nonzero"): "while the learning rate is not zero",
    ("backward", "yes"): "inside backward",
    ("backward", "no"): "outside backward",
}


_PLACES = {
    "root": ("inside a model", "outside every model"),
    "module": ("inside a model", "outside every model"),
    "child": ("in a part of a model", "directly in a model"),
    "optimizer": ("of an optimizer", "of no optimizer"),
}


def when_text(conditions: Sequence[Condition]) -> str:
    """The precondition as a phrase with a leading comma, or nothing."""
    return "".join(f", {_phrase(condition)}" for condition in conditions)


def _phrase(condition: Condition) -> str:
    if isinstance(condition, Except):
        return "except where it is both " + " and ".join(_clause(part) for part in condition.parts)
    if isinstance(condition, Exists):
        name = condition.field
        return _PLACES.get(name, (f"with a {name}", f"without a {name}"))[condition.negated]
    if isinstance(condition, Clause):
        return _clause(condition)
    # Only names within a model can be compared: those of the model itself, and of its parts.
    return "in a part of the model" if condition.negated else "directly in the model"


def _clause(clause: Clause) -> str:
    negated = "except " if clause.negated else ""
    if clause.field == "stage":
        return negated + " or ".join(_STAGES.get(value, value) for value in clause.values)
    if len(clause.values) == 1 and (clause.field, clause.values[0]) in _PHRASES:
        return negated + _PHRASES[clause.field, clause.values[0]]
    return negated + FIELD_WORDS.get(clause.field, clause.field + " {}").format(_values(clause))


def _values(clause: Clause) -> str:
    quoted = "`" in FIELD_WORDS.get(clause.field, "")
    separator = "`, `" if quoted else " or "
    shown = separator.join(clause.values[:6])
    rest = len(clause.values) - 6
    if rest <= 0:
        return shown
    return f"{shown}` and {rest} more like `{clause.values[6]}" if quoted else f"{shown} and {rest} more"
