"""What a rule claims, as a value: relations have dataclasses of their own, and one function writes all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any

KEY, STORED = "key", "stored"
NOT_STORED: Mapping[str, Any] = {STORED: False}
"""Metadata of a field that belongs to an evaluation, and not to what is claimed."""


@dataclass(frozen=True)
class Claim:
    """What a rule claims. Each relation has one frozen dataclass, or several, with a field for everything that its
    claims say: a text, a number, a flag, a code as a `Literal`, or a tuple of these.

    As JSON it is an object with a key for each field, under the field's name or the one that its metadata gives as
    `key`. A field that is no argument (`init=False`) is a constant that tells claims of one relation apart. One with a
    default is left out where it has that; all others are always written.
    """


@dataclass(frozen=True)
class Foreign(Claim):
    """A claim as a file has it: one that its relation has not read, or of a relation that is not known here."""

    content: Mapping[str, Any] = field(default_factory=dict)


class Written:
    """A value that a file holds as one text: `str` writes it, and `read` reads it back."""

    words = "a text"
    """How an error says what it looks like."""

    @classmethod
    def read(cls, text: str) -> Any:
        """What `str` wrote; of another text something that is written otherwise, or `ValueError`."""
        raise NotImplementedError


@dataclass(frozen=True)
class Slot:
    """A field of a claim that is stored: the attribute, the key in JSON, and what it has where it is left out."""

    name: str
    key: str
    default: Any = MISSING
    constant: bool = False


def slots(kind: type[Claim]) -> tuple[Slot, ...]:
    """The stored fields of a type of claims, in order."""
    hashable: Any = kind
    return _slots(hashable)


@cache
def _slots(kind: Any) -> tuple[Slot, ...]:
    return tuple(
        Slot(item.name, item.metadata.get(KEY, item.name), item.default, not item.init)
        for item in fields(kind)
        if item.metadata.get(STORED, True)
    )


def to_json(claim: Claim) -> dict[str, Any]:
    """A claim as a JSON object. Equal claims give equal objects, and `relations.claims.read_claim` reads them back."""
    if isinstance(claim, Foreign):
        return dict(claim.content)
    values = ((slot, getattr(claim, slot.name)) for slot in slots(type(claim)))
    return {slot.key: _plain(value) for slot, value in values if slot.constant or value != slot.default}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Written) else value
