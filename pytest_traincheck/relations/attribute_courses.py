"""What attributes of modules were in the course of a run: before each step, and in evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pytest_traincheck.relations.settings import argument_text, text_of
from pytest_traincheck.trace import Process

LIMIT = 32
"""Steps whose values are looked at; a probe looks no longer."""
SEEN = "attributes.seen"
"""The measure of an evaluation at the beginning of which attributes were looked at."""
ABSENT = "absent"
"""What stands for the value of an attribute, or of a module, that is not there yet."""

Attribute = tuple[str, str, str]
"""A root, the path of a module below it, and the name of an attribute."""
Course = tuple[str, ...]
"""The value before each step, as text."""


def of_libraries(process: Process) -> frozenset[Attribute]:
    """Attributes of modules whose classes are a library's: another version of it may keep others. What a user's module
    has that was put into the place of one, as adapters are, is none.
    """

    def compute() -> frozenset[Attribute]:
        seen = list(_seen(process))
        others = {attribute for attribute, _, _, of_library in seen if not of_library}
        return frozenset(attribute for attribute, _, _, of_library in seen if of_library) - others

    return process.memo("attributes of libraries' modules", compute)


def courses(process: Process) -> Mapping[Attribute, Course]:
    """The value of each attribute before each step."""

    def compute() -> Mapping[Attribute, Course]:
        begins = [step.begin for step in process.lead_steps[:LIMIT]]
        found: dict[Attribute, list[tuple[int, str]]] = {}
        for attribute, seq, value, _ in _seen(process):
            found.setdefault(attribute, []).append((seq, value))
        return {attribute: course_at(begins, values) for attribute, values in found.items()} if begins else {}

    return process.memo("courses of attributes", compute)


def evaluations(process: Process) -> Sequence[tuple[int, int]]:
    """Number of steps taken, and row, of the last evaluation after each number of steps at which attributes were looked
    at.
    """

    def compute() -> Sequence[tuple[int, int]]:
        rows = process.parent_row[process.measures(SEEN)]
        rows = rows[rows >= 0]
        ends = np.sort(np.array([step.end for step in process.lead_steps], dtype=np.int64))
        taken = np.searchsorted(ends, process.events["seq"][rows].astype(np.int64))
        return sorted(dict(zip(taken.tolist(), rows.tolist(), strict=True)).items())

    return process.memo("evaluations that look at attributes", compute)


def evaluated(process: Process) -> Mapping[Attribute, Course]:
    """The value of each attribute in each of `evaluations`."""

    def compute() -> Mapping[Attribute, Course]:
        times = [int(process.events["seq"][row]) for _, row in evaluations(process)]
        found: dict[Attribute, list[tuple[int, str]]] = {}
        for attribute, seq, value, _ in _seen(process):
            found.setdefault(attribute, []).append((seq, value))
        return {attribute: course_at(times, values) for attribute, values in found.items()} if times else {}

    return process.memo("attributes in evaluations", compute)


def _seen(process: Process) -> Iterable[tuple[Attribute, int, str, bool]]:
    """An attribute, when it was seen, its value, and whether it was one of a library's modules, in order of time."""
    roots = process.names.roots
    users = {symbol["name"] for symbol in process.raw.symbols["api"][1:] if symbol.get("library") == "user"}
    for symbol in process.raw.symbols["attribute"][1:]:
        module = process.raw.symbols["mod"][symbol["mod"]]
        root = roots[module.get("root", 0)] if module else ""
        of_library = module.get("class") not in users
        for name, value in symbol["values"].items() if root else ():
            yield (root, str(module.get("path", "")), name), symbol["seq"], _value(value), of_library


def _value(value: Any) -> str:
    if isinstance(value, Mapping) and "tuple" in value:
        return "(" + ", ".join(map(text_of, value["tuple"])) + ")"
    return f'"{value}"' if isinstance(value, str) else argument_text(value)


def course_at(begins: Sequence[int], values: Sequence[tuple[int, str]]) -> Course:
    times = np.array([seq for seq, _ in values], dtype=np.int64)
    texts = [ABSENT, *(text for _, text in values)]
    return tuple(texts[int(number)] for number in np.searchsorted(times, begins, side="right"))


def elements(process: Process) -> Mapping[str, int]:
    """Root -> the elements of all its parameters."""

    def compute() -> Mapping[str, int]:
        found: dict[str, int] = {}
        for symbol in process.raw.symbols["var"][1:]:
            if symbol.get("kind") == "parameter" and not symbol.get("same", 0):
                root = process.names.roots[symbol.get("root", 0)]
                found[root] = found.get(root, 0) + int(np.prod(symbol.get("shape") or [1]))
        return found

    return process.memo("elements of models", compute)
