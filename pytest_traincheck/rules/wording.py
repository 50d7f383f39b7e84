"""Preconditions in words, for everything that shows rules to a person."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_traincheck.rules.conditions import Clause, Condition, Except, Exists
from pytest_traincheck.text import one_line


def conditions(when: Sequence[Condition]) -> str:
    """A precondition in words: "stage is train or eval, and autocast is not bfloat16"; "always" for none."""
    if not when:
        return "always"
    return ", and ".join(one_line(_condition(condition)) for condition in when)


def _condition(condition: Condition) -> str:
    if isinstance(condition, Except):
        return f"not ({' and '.join(_condition(part) for part in condition.parts)})"
    if isinstance(condition, Exists):
        return f"there is {'no' if condition.negated else 'a'} {_field(condition.field)}"
    verb = "is not" if condition.negated else "is"
    if isinstance(condition, Clause):
        return f"{_field(condition.field)} {verb} {' or '.join(condition.values)}"
    if (condition.field, condition.other) in _WITHIN:
        return f"it is {'in a part of' if condition.negated else 'directly in'} the model"
    return f"{_field(condition.field)} {verb} the {_field(condition.other)}"


def _field(name: str) -> str:
    """A field of the context in words; those of plug-ins by their names."""
    return _FIELDS.get(name, name)


_WITHIN = (("child", "root"), ("module", "root"))
_FIELDS = {"root": "model", "child": "part of the model", "first_step": "first step", "mesh": "place in the mesh"}
