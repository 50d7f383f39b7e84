"""Files of one JSON object a line, read as untrusted data: what goldens and packs have in common."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

LINE_LIMIT = 8 * 1024 * 1024
"""Bytes of the longest line that is read."""

DEPTH_LIMIT = 32
"""Nesting of objects and lists that a line may have."""

_Choice = TypeVar("_Choice", bound=Enum)


@dataclass(frozen=True)
class Place:
    """Where in which file; knows how to complain about it: with an error of type `failure` that ends with what to do,
    `remedy` for a file that was damaged and `merged` for one with the marks of a merge.
    """

    name: str
    line: int
    failure: type[Exception]
    remedy: str
    merged: str

    def error(self, what: str, remedy: str = "") -> Exception:
        return self.failure(f"{self.name}, line {self.line}: {what}. {remedy or self.remedy}")


def parse(line: bytes, place: Place) -> Mapping[str, Any]:
    """The object on one line, with finite numbers, no key twice, and only text that can be encoded again."""
    if len(line) > LINE_LIMIT:
        raise place.error(f"the line has {len(line)} bytes; the limit is {LINE_LIMIT}")
    if line.startswith((b"<<<<<<<", b"=======", b">>>>>>>", b"|||||||")):
        raise place.error("the line is a conflict marker of a merge", place.merged)
    # Most lines have too few brackets to be nested so deep.
    if line.count(b"[") + line.count(b"{") > DEPTH_LIMIT and _depth(line) > DEPTH_LIMIT:
        raise place.error(f"objects are nested deeper than {DEPTH_LIMIT}")
    try:
        content = json.loads(
            line.decode("utf-8"),
            object_pairs_hook=_without_duplicates,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
        if b"\\u" in line:
            # An escaped half of a surrogate pair passes the parser but can neither be hashed nor written.
            json.dumps(content, ensure_ascii=False).encode("utf-8")
    except ValueError as error:
        what = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise place.error(f"the line is not valid JSON ({what})") from error
    if not isinstance(content, dict):
        raise place.error(f"the line holds {short(content)} and not an object")
    return content


_OUTSIDE_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"?|[^\[\]{}"]+')


def _depth(line: bytes) -> int:
    """The deepest nesting of brackets outside strings; the parser itself would recurse and overflow."""
    deepest = depth = 0
    for character in _OUTSIDE_BRACKETS.sub(b"", line):
        if character in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in b"]}":
            depth -= 1
    return deepest


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return result


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a finite number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is not a finite number")
    return value


def check_keys(content: Mapping[str, Any], known: tuple[str, ...], place: Place) -> None:
    missing = [key for key in known if key not in content]
    if missing:
        raise place.error(f"`{missing[0]}` is missing")
    unknown = [key for key in content if key not in known]
    if unknown:
        raise place.error(f"{short(unknown[0])} is not a key of this format")


def _typed(kind: str, test: Callable[[object], bool]) -> Callable[[Mapping[str, Any], str, Place], Any]:
    def get(content: Mapping[str, Any], key: str, place: Place) -> Any:
        value = content[key]
        if not test(value):
            raise place.error(f"`{key}` is {short(value)} and not {kind}")
        return value

    return get


def is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_shape(value: object) -> bool:
    return isinstance(value, list) and all(is_count(size) for size in value)


string = _typed("a string", lambda value: isinstance(value, str))
object_ = _typed("an object", lambda value: isinstance(value, dict))
count = _typed("a count", is_count)


def choice(content: Mapping[str, Any], key: str, choices: type[_Choice], place: Place) -> _Choice:
    value = string(content, key, place)
    known = [choice.value for choice in choices]
    if value not in known:
        raise place.error(f"`{key}` is {short(value)}; it must be one of {', '.join(known)}")
    return choices(value)


def short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
