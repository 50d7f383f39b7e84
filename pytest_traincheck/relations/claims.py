"""What the claims of a relation look like, as a schema of its own: a golden file is untrusted, and a claim that no
relation wrote is one clear error where the file is read.

A relation lists its `forms`. A form gives for each key of a claim what its value may be; a claim has just the keys of
one form, without those that are `optional` or with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MOST_ITEMS = 100_000
"""Entries of the longest list in a claim."""


@dataclass(frozen=True)
class Value:
    """What a key of a claim may hold: a test, and how an error says it, as in "a whole number"."""

    words: str
    test: Callable[[object], bool]
    optional: bool = False


Form = Mapping[str, Value]


def optional(value: Value) -> Value:
    """The same, for a key that may be left out."""
    return Value(value.words, value.test, optional=True)


def one_of(*texts: str) -> Value:
    """One of a few texts."""
    listed = ", ".join(f"`{text}`" for text in texts)
    return Value(f"one of {listed}" if len(texts) > 1 else listed, lambda value: type(value) is str and value in texts)


def exactly(wanted: bool) -> Value:
    """A flag that only ever has one value."""
    return Value(str(wanted).lower(), lambda value: value is wanted)


def list_of(item: Value, least: int = 0, most: int = MOST_ITEMS) -> Value:
    """A list of `least` to `most` values of one sort."""
    count = f"{least}" if least == most else f"at least {least}" if least else "any number of"
    return Value(
        f"a list of {count} items, each {item.words}",
        lambda value: isinstance(value, list) and least <= len(value) <= most and all(map(item.test, value)),
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


TEXT = Value("a text", lambda value: type(value) is str)
FLAG = Value("true or false", lambda value: type(value) is bool)
COUNT = Value("a whole number from 0", lambda value: type(value) is int and 0 <= value < 1 << 53)
WHOLE = Value("a whole number", lambda value: type(value) is int and abs(value) < 1 << 53)
NUMBER = Value("a finite number", _is_number)
NUMBER_OR_NULL = Value("a finite number or null", lambda value: value is None or _is_number(value))
SETTING = Value("a number, a text, a flag, null, or a short list of these", _is_setting)


def misfit(claim: Mapping[str, Any], forms: tuple[Form, ...]) -> str:
    """What is wrong with a claim, e.g. "`per` is 3 and not one of `step`, `run`"; empty where it has one of the forms.

    Spoken of is the form that shares the most keys with the claim.
    """
    faults = [_misfit(claim, form) for form in forms]
    if not all(faults):
        return ""
    nearest = max(range(len(forms)), key=lambda number: _likeness(claim, forms[number]))
    return faults[nearest]


def _misfit(claim: Mapping[str, Any], form: Form) -> str:
    for key, value in form.items():
        if key not in claim:
            if not value.optional:
                return f"`{key}` is missing"
        elif not value.test(claim[key]):
            return f"`{key}` is {_short(claim[key])} and not {value.words}"
    unknown = [key for key in claim if key not in form]
    return f"{_short(unknown[0])} is not a key of such a claim" if unknown else ""


def _likeness(claim: Mapping[str, Any], form: Form) -> tuple[int, int]:
    shared = claim.keys() & form.keys()
    return len(shared) - len(claim.keys() ^ form.keys()), sum(form[key].test(claim[key]) for key in shared)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
