"""Settings: values that somebody decided, and the texts in which rules and findings have them.

What builds such a text stands beside what takes it apart again, so that nobody else knows what it looks like.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

_AND, _COMMA = " and ", ", "
_NOTHING = ("", "None")
_SOMETHING = "a "


class Sort(Enum):
    """What a setting belongs to."""

    PARAMETERS = "parameters"
    """Parameters that an optimizer holds, in groups."""
    BASE = "base"
    """A schedule, which is relative to it."""
    COURSE = "course"
    """A schedule, as multiples of its base: several values, step by step."""
    ARGUMENT = "argument"
    """The calls of a function."""


@dataclass(frozen=True)
class Setting:
    """What golden has where a person chose a value; the candidate's is the `value` of a finding."""

    sort: Sort
    name: str
    value: str = ""
    """As text; empty for a course."""
    course: tuple[str | None, ...] = ()
    """As texts; None where no value is known."""
    is_rate: bool = False
    """It is a learning rate; one decision often sets several of them."""

    def is_amount(self, text: str) -> bool:
        """Whether a text of such a setting is a value, and does not only say that there is something or nothing."""
        return text not in _NOTHING and not text.startswith(_SOMETHING)


def is_switch(text: str) -> bool:
    """Whether the text of a value is a flag, nothing or a word: what code decides by and does not compute with."""
    return text in ("True", "False", "None") or text.startswith('"')


def text_of(value: Any) -> str:
    """A value in six significant digits."""
    return f"{value:.6g}" if isinstance(value, float) and math.isfinite(value) else str(value)


def argument_text(value: Any) -> str:
    """An argument as rules write it; tensors and other objects only by what they are."""
    if isinstance(value, Mapping):
        kind = next(iter(value), "value")
        if kind == "type":
            return str(value["type"]).rsplit(".", 1)[-1]
        return f"{_SOMETHING}tensor" if kind == "tensor" else f"{_SOMETHING}{kind}"
    return text_of(value)


def several(values: Iterable[str]) -> str:
    """Each value once, as in "0.001 and 0.002"."""
    return _AND.join(sorted(set(values)))


def each_of(text: str) -> list[str]:
    """The values of which `several` made a text."""
    return text.split(_AND)


def course_text(values: Sequence[float]) -> str:
    """The values of a course, step by step."""
    return _COMMA.join(map(text_of, values))


def steps_of_course(text: str) -> list[str]:
    """The values of which `course_text` made a text."""
    return text.split(_COMMA)
