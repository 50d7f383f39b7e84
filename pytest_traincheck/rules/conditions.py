"""Preconditions: the contexts in which a rule holds, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Clause:
    """One condition on the context of an example: `field in values`, or not in them when `negated`."""

    field: str
    values: tuple[str, ...]
    negated: bool = False

    def to_json(self) -> dict[str, Any]:
        key = "not_in" if self.negated else "in"
        return {"field": self.field, key: list(self.values)}


@dataclass(frozen=True)
class Exists:
    """The context has a value for the field at all, or none when `negated`: a call inside a model, or outside all."""

    field: str
    negated: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"field": self.field, "exists": not self.negated}


@dataclass(frozen=True)
class Same:
    """Two fields of one context have the same value, or different ones when `negated`; both must have one."""

    field: str
    other: str
    negated: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"field": self.field, "differs_from" if self.negated else "same_as": self.other}


@dataclass(frozen=True)
class Except:
    """Not all of `parts` at once: everywhere but in the context that the negative examples have in common."""

    parts: tuple[Clause, ...]

    def to_json(self) -> dict[str, Any]:
        return {"except": [part.to_json() for part in self.parts]}


Condition = Clause | Exists | Same | Except
"""One member of a precondition; its members are joined by "and"."""


def condition_from_json(item: object) -> Condition:
    """What `to_json` of a condition wrote.

    Raises `ValueError` saying what is wrong with anything else, as in "... is not a condition".
    """
    if isinstance(item, dict):
        keys = set(item)
        if keys in ({"field", "in"}, {"field", "not_in"}):
            negated = "not_in" in item
            values = item["not_in" if negated else "in"]
            if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
                raise ValueError("does not list strings")
            return Clause(_name(item["field"]), tuple(values), negated)
        if keys == {"field", "exists"} and isinstance(item["exists"], bool):
            return Exists(_name(item["field"]), negated=not item["exists"])
        if keys in ({"field", "same_as"}, {"field", "differs_from"}):
            negated = "differs_from" in item
            return Same(_name(item["field"]), _name(item["differs_from" if negated else "same_as"]), negated)
        if keys == {"except"} and isinstance(item["except"], list):
            parts = [condition_from_json(part) for part in item["except"]]
            clauses = tuple(part for part in parts if isinstance(part, Clause))
            if len(clauses) == len(parts) > 0:
                return Except(clauses)
    raise ValueError("is not a condition")


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("does not name its field by a string")
    return value
