"""The settings that optimizers were left with whose place another one takes, in a process that goes on with a training.

What is saved with an optimizer and loaded again are its groups with all that schedules have made of them: momentum that
is cycled, say. Who saves does so behind the schedule's last step, so that what is loaded was not there in any step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pytest_traincheck.relations.settings import text_of
from pytest_traincheck.trace import Process

_SAME = 1e-9
"""Numbers that are as close are one."""
_FASTER = 4
"""How much farther than ever before a schedule may go in its next step: one that begins slowly goes three times as far
in the second as in the first.
"""


@dataclass(eq=False)
class Course:
    """What a hyper-parameter of one group was, in order."""

    made: list[Any] = field(default_factory=list)
    """Before its first step."""
    stepped: list[Any] = field(default_factory=list)
    """In its steps; each value once while it stays."""

    def has(self, value: Any) -> bool:
        """Whether it had the value, or goes on with it: no number is much farther from what it was in some step than it
        has ever gone from one step to the next. What never moved goes nowhere.
        """
        if text_of(value) in map(text_of, (*self.made, *self.stepped)):
            return True
        wanted, steps = _elements(value), [_elements(each) for each in self.stepped]
        if any(len(each) != len(wanted) for each in steps):
            return False
        reach = [max((_apart(*both) for both in pairwise(column)), default=0.0) for column in zip(*steps, strict=True)]
        return any(
            all(_apart(was, now) <= _FASTER * far + _SAME for was, now, far in zip(each, wanted, reach, strict=True))
            for each in steps
        )


def left_with(process: Process, optimizer: int, name: str, *, made: bool) -> Mapping[str, Sequence[Course]]:
    """Parameter, by its name -> what a hyper-parameter was for it in optimizers whose place this one takes, in a
    process that goes on with another one: groups that were added there are made at once here.

    Args:
        made: whether only that counts which a group was made with.
    """
    if not process.raw.joins:
        return {}
    return process.memo(("left", optimizer, name), lambda: _left_with(process, optimizer, name, made=made))


def _left_with(process: Process, optimizer: int, name: str, *, made: bool) -> Mapping[str, Sequence[Course]]:
    names, first = process.names, _first_steps(process)
    groups: dict[tuple[int, int], Course] = {}
    found: dict[str, dict[tuple[int, int], Course]] = {}
    for group in sorted(process.raw.symbols["group"][1:], key=_when):
        key = int(group.get("opt", 0)), int(group.get("index", 0))
        takes_place = key[0] < optimizer and names.optimizers[key[0]] == names.optimizers[optimizer]
        if not takes_place or (made and key in groups):
            continue
        course = groups.setdefault(key, Course())
        _add(course, plain((group.get("hyper") or {}).get(name)), before=_when(group) <= first.get(key[0], 0))
        for parameter in group.get("params") or ():
            found.setdefault(names.variables[parameter], {})[key] = course
    return {parameter: [*courses.values()] for parameter, courses in found.items()}


def _add(course: Course, value: Any, *, before: bool) -> None:
    """One more value; the last of those before the first step is the one of that step."""
    if before:
        course.made += course.stepped
        course.stepped = [value]
    elif not course.stepped or course.stepped[-1] != value:
        course.stepped.append(value)


def _when(group: Mapping[str, Any]) -> int:
    return int(group.get("seq", 0))


def _first_steps(process: Process) -> Mapping[int, int]:
    """When each optimizer began its first step."""
    return {step.optimizer: step.begin for step in reversed(process.steps)}


def plain(value: Any) -> Any:
    """Tuples such as `betas` as lists of numbers; what is no configuration stays a mapping."""
    if isinstance(value, Mapping):
        for key in ("tuple", "list"):
            if key in value:
                return list(value[key])
    return value


def _elements(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _apart(one: Any, other: Any) -> float:
    """How far two values are from each other; what is no number is the same or infinitely far."""
    if one == other:
        return 0.0
    numbers = all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in (one, other))
    return abs(one - other) if numbers and math.isfinite(one - other) else math.inf
