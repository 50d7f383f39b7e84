"""What the claims of a relation look like, as its dataclasses say: a golden file is untrusted, and a claim that no
relation wrote is one clear error where the file is read.

The type of each field says what its key may hold; a claim has just the keys of one of the relation's dataclasses,
without those that have a default or with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from pytest_traincheck.rules.claims import Claim, Slot, Written, slots

MOST_ITEMS = 100_000
"""Entries of the longest list in a claim."""


class ClaimError(ValueError):
    """What is wrong with a claim, e.g. "`per` is 3 and not one of `step`, `run`"."""


@dataclass(frozen=True)
class Value:
    """What a key of a claim may hold: a test, how an error says it, as in "a whole number", and how it is read.

    As `Annotated[str, Value(...)]` it is the type of a field with a test of its own.
    """

    words: str
    test: Callable[[object], bool]
    read: Callable[[Any], Any] = lambda value: value
    optional: bool = False


@dataclass(frozen=True)
class Items:
    """How many items a tuple may have: `Annotated[tuple[str, ...], Items(1, 3)]`."""

    least: int = 0
    most: int = MOST_ITEMS


Form = Mapping[str, Value]


def _one_of(texts: Sequence[str]) -> Value:
    listed = ", ".join(f"`{text}`" for text in texts)
    return Value(f"one of {listed}" if len(texts) > 1 else listed, lambda value: type(value) is str and value in texts)


def _exactly(wanted: bool) -> Value:
    return Value(str(wanted).lower(), lambda value: value is wanted)


def _list_of(item: Value, items: Items) -> Value:
    least, most = items.least, items.most
    count = f"{least}" if least == most else f"at least {least}" if least else "any number of"
    return Value(
        f"a list of {count} items, each {item.words}",
        lambda value: isinstance(value, list) and least <= len(value) <= most and all(map(item.test, value)),
        lambda value: tuple(map(item.read, value)),
    )


def _is_number(value: object) -> bool:
    # Numbers are compared with arrays of 64 bits.
    return (type(value) is int and abs(value) < 1 << 53) or (type(value) is float and math.isfinite(value))


def _is_setting(value: object, depth: int = 3) -> bool:
    """A number, a text, a flag, null, or containers of these: a hyper-parameter as a trace has it."""
    if value is None or isinstance(value, (str, bool, int)) or _is_number(value):
        return True
    if isinstance(value, list):
        return depth > 0 and all(_is_setting(item, depth - 1) for item in value)
    return isinstance(value, dict) and depth > 0 and all(_is_setting(item, depth - 1) for item in value.values())


_TEXT = Value("a text", lambda value: type(value) is str)
_FLAG = Value("true or false", lambda value: type(value) is bool)
_WHOLE = Value("a whole number", lambda value: type(value) is int and abs(value) < 1 << 53)
_NUMBER = Value("a finite number", _is_number)
_SIMPLE: Mapping[Any, Value] = {str: _TEXT, bool: _FLAG, int: _WHOLE, float: _NUMBER}

Natural = Annotated[int, Value("a whole number from 0", lambda value: type(value) is int and 0 <= value < 1 << 53)]
"""The type of a field that holds a count."""
SettingValue: TypeAlias = Annotated[Any, Value("a number, a text, a flag, null, or a short list of these", _is_setting)]
"""The type of a field that holds a hyper-parameter as a trace has it."""


def read_claim(content: Mapping[str, Any], kinds: Sequence[type[Claim]]) -> Claim:
    """The claim that `to_json` wrote, of the first of `kinds` that it fits.

    Raises `ClaimError` for a claim that is none of these; spoken of is the one that shares the most keys with it.
    """
    forms = [form_of(kind) for kind in kinds]
    faults = [_misfit(content, form) for form in forms]
    for kind, form, fault in zip(kinds, forms, faults, strict=True):
        if not fault:
            given = [slot for slot in slots(kind) if slot.key in content and not slot.constant]
            return kind(**{slot.name: form[slot.key].read(content[slot.key]) for slot in given})
    nearest = max(range(len(forms)), key=lambda number: _likeness(content, forms[number]))
    raise ClaimError(faults[nearest])


def form_of(kind: type[Claim]) -> Form:
    """What each key of a claim of this type may hold. Raises `TypeError` for a type that no claim can have."""
    hashable: Any = kind
    return _form_of(hashable)


@cache
def _form_of(kind: Any) -> Form:
    hints = get_type_hints(kind, include_extras=True)
    try:
        return {slot.key: _of_slot(hints[slot.name], slot) for slot in slots(kind)}
    except TypeError as error:
        raise TypeError(f"{kind.__name__}: {error}") from error


def _of_slot(hint: Any, slot: Slot) -> Value:
    if slot.constant or slot.default is MISSING:
        return _of_type(hint)
    if slot.default is None:
        # Left out where there is none, so null is not written.
        rest = [kind for kind in get_args(hint) if kind is not NoneType]
        return replace(_of_type(rest[0] if len(rest) == 1 else hint), optional=True)
    if hint is bool:
        return replace(_exactly(not slot.default), optional=True)
    value = _of_type(hint)
    # A claim has one form: what a default says is left out.
    words = f"{value.words} other than {slot.default!r}"
    other = Value(words, lambda item: value.test(item) and value.read(item) != slot.default)
    return replace(other, read=value.read, optional=True)


def _of_type(hint: Any) -> Value:
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if isinstance(hint, type) and issubclass(hint, Written):
        return Value(hint.words, lambda value: type(value) is str and _reads(hint, value), hint.read)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        for note in inner[1:]:
            if isinstance(note, Value):
                return note
            if isinstance(note, Items):
                return _list_of(_of_type(get_args(inner[0])[0]), note)
        return _of_type(inner[0])
    if origin is Literal and all(type(value) is str for value in inner):
        return _one_of(inner)
    if origin is Literal and len(inner) == 1 and type(inner[0]) is bool:
        return _exactly(inner[0])
    if origin is tuple and len(set(inner) - {...}) == 1:
        return _list_of(_of_type(inner[0]), Items() if ... in inner else Items(len(inner), len(inner)))
    if origin in (Union, UnionType) and len(inner) == 2 and NoneType in inner:
        known = _of_type(next(kind for kind in inner if kind is not NoneType))
        return Value(f"{known.words} or null", lambda value: value is None or known.test(value),
                     lambda value: None if value is None else known.read(value))  # fmt: skip
    raise TypeError(f"a claim cannot hold a {hint}")


def _reads(kind: type[Written], text: str) -> bool:
    """Whether it is such a text, and the one that its value is written as: one claim has one id."""
    try:
        return str(kind.read(text)) == text
    except ValueError:
        return False


def _misfit(content: Mapping[str, Any], form: Form) -> str:
    for key, value in form.items():
        if key not in content:
            if not value.optional:
                return f"`{key}` is missing"
        elif not value.test(content[key]):
            return f"`{key}` is {_short(content[key])} and not {value.words}"
    unknown = [key for key in content if key not in form]
    return f"{_short(unknown[0])} is not a key of such a claim" if unknown else ""


def _likeness(content: Mapping[str, Any], form: Form) -> tuple[int, int]:
    shared = content.keys() & form.keys()
    return len(shared) - len(content.keys() ^ form.keys()), sum(form[key].test(content[key]) for key in shared)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
