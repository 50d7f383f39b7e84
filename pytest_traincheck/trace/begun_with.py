"""What a process begins to train with, compared with what another one had: how one knows that a training goes on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.columns import Columns, Rows
from pytest_traincheck.trace.labels import Ints
from pytest_traincheck.trace.symbols import Tables

ENOUGH = 0.5
"""Part of what training has changed that a process must begin with to be taken for one that goes on, where nobody says
that it does.
"""

Key = tuple[str, str, tuple[int, ...]]
"""Class of the model, name and shape of a parameter."""
Content = int
"""The hash of what a parameter holds."""

_LOADS = "load_state_dict"
_STATE = "optimizer.state"
_SAVES = "save"
_SAVED = "save.content"


def first_step(tables: Tables, events: Rows | Columns) -> int | None:
    """When the first step of an optimizer begins; None where there is none yet."""
    steps = np.array([each.get("type") == "optimizer" for each in tables["api"]], dtype=bool)
    calls = np.flatnonzero(events["kind"] == fmt.CALL)
    begins = events["seq"][calls][steps[events["subject"][calls]]]
    return int(begins.min()) if len(begins) else None


def restores_optimizer(tables: Tables, events: Rows | Columns) -> bool:
    """Whether an optimizer is given the state of another one before its first step."""
    calls = _loads(tables, events)
    return bool((events["opt"][calls] > 0).any())


def goes_on(tables: Tables, events: Rows | Columns) -> bool:
    """Whether an optimizer is given the state of another one and takes its first step with it."""
    names = np.array([each.get("name") == _STATE for each in tables["measure"]], dtype=bool)
    mine = events[events["kind"] == fmt.MEASURE]
    mine = mine[names[mine["subject"]]]
    _, first = np.unique(mine["opt"], return_index=True)
    return bool((mine["value"][first] > 0).any()) and restores_optimizer(tables, events)


def loaded_until(tables: Tables, events: Rows | Columns) -> int:
    """When the last state was loaded before the first step; 0 where there was none."""
    ends, step = events["end"][_loads(tables, events)], first_step(tables, events)
    before = ends if step is None else ends[ends < step]
    return int(before.max()) if len(before) else 0


def _loads(tables: Tables, events: Rows | Columns) -> Ints:
    """Where something is given the state of another one."""
    loads = np.array([str(each.get("name", "")).endswith(_LOADS) for each in tables["api"]], dtype=bool)
    calls = np.flatnonzero(events["kind"] == fmt.CALL)
    found: Ints = calls[loads[events["subject"][calls]]]
    return found


def saves(tables: Tables, events: Rows | Columns) -> Rows:
    """Calls that saved something, in order of time."""
    kinds = [each.get("type") == "io" and _SAVES in str(each.get("name", "")) for each in tables["api"]]
    calls = np.flatnonzero(events["kind"] == fmt.CALL)
    found: Rows = events[calls[np.array(kinds, dtype=bool)[events["subject"][calls]]]]
    return found


def held(tables: Tables) -> dict[int, Key]:
    """Parameters that optimizers hold and models have, by what tells them from all others of their kind."""
    members = {number for group in tables["group"][1:] for number in group.get("params", ())}
    found: dict[int, Key] = {}
    for number in sorted(members):
        symbol = tables["var"][number]
        if symbol.get("root", 0) and not symbol.get("same", 0):
            root = tables["root"][symbol["root"]]
            shape = tuple(symbol.get("shape") or ())
            found[number] = (str(root.get("class", "")), str(symbol.get("name", "")), shape)
    return found


def begun_with(tables: Tables, changes: Rows, at: int) -> dict[Key, Content]:
    """What the parameters that optimizers hold are at a time; those that are called alike are left out."""
    known = held(tables)
    found = contents(changes[changes["seq"] <= at], known)
    keys = [known[number] for number in found]
    return {known[number]: content for number, content in found.items() if keys.count(known[number]) == 1}


def contents(rows: Rows, numbers: Collection[int] | Iterable[int]) -> dict[int, Content]:
    """The last content of some variables that was seen, in the order of the rows."""
    mine = rows[(rows["kind"] == fmt.CHANGE) & np.isin(rows["subject"], [*numbers])]
    return dict(zip(mine["subject"].tolist(), mine["digest"].tolist(), strict=True))


def written(tables: Tables, rows: Rows, numbers: Collection[int] | Iterable[int]) -> list[dict[int, Content]]:
    """What each call that saved something has written of some variables.

    It need not be what was seen of them last: an average that was evaluated in their place was taken out again since,
    or is what was saved. Where both are saved, a call has written two contents of each variable, and either may be what
    it had: what was seen of it last is the average's.
    """
    names = np.array([each.get("name") == _SAVED for each in tables["measure"]], dtype=bool)
    mine = rows[(rows["kind"] == fmt.MEASURE) & np.isin(rows["args"], [*numbers])]
    found: dict[int, list[dict[int, Content]]] = {}
    for row in mine[names[mine["subject"]]]:
        number, versions = int(row["args"]), found.setdefault(int(row["parent"]), [])
        version = next((each for each in versions if number not in each), None)
        if version is None:
            versions.append(version := {})
        version[number] = int(row["digest"])
    return [version for versions in found.values() for version in versions]


def part_alike(
    numbers: Mapping[Key, int],
    first: Mapping[int, Content],
    then: Mapping[int, Content],
    saved: Iterable[Mapping[int, Content]],
    wanted: Mapping[Key, Content],
) -> float:
    """The part of what training had changed until `then` that is what is `wanted`; what no step has moved is alike at
    any time. `saved`: what was written at that time, of which one counts in the place of what was seen.
    """
    return max(_alike(numbers, first, {**then, **each}, wanted) for each in ({}, *saved))


def _alike(
    numbers: Mapping[Key, int], first: Mapping[int, Content], then: Mapping[int, Content], wanted: Mapping[Key, Content]
) -> float:
    moved = [key for key, number in numbers.items() if number in then and then[number] != first.get(number)]
    alike = sum(then[numbers[key]] == wanted[key] for key in moved)
    return alike / len(moved) if moved else 0.0
