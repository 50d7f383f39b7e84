"""Preconditions in words."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_traincheck.golden.model import Clause
from pytest_traincheck.relations.context import FIELD_WORDS

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


def when_text(clauses: Sequence[Clause]) -> str:
    """The precondition as a phrase with a leading comma, or nothing."""
    return "".join(f", {_phrase(clause)}" for clause in clauses)


def _phrase(clause: Clause) -> str:
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
