"""How many examples a model is given, and where their number is up to the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pytest_traincheck.relations import vocabulary
from pytest_traincheck.relations.called import Called
from pytest_traincheck.relations.carried import FED_BACK
from pytest_traincheck.relations.context import module_roots
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.stages import TRAIN


def examples_known(run: Run, called: Called) -> tuple[bool, int]:
    """Whether only different examples are counted, and how many a model is certainly given in golden.

    Calls of several places of the code that look alike may be given the same examples, so that a program which calls
    its model once for both does no less. A model that is entered by its parts is given what most of any part is given.
    In training, calls whose number is up to the data count once a step.
    """
    entered = [(process, _golden(_entered(process, called))) for process in run.processes]
    in_training = called.stage == "train"
    different = not in_training and any(
        _alike_elsewhere(process, rows).any() for process, found in entered for rows in found.values()
    )
    total = 0
    for process, found in entered:
        counts = [
            _once_a_step(process, rows)
            if in_training and _up_to_the_data(process, rows)
            else _sum(process, rows, different=different)
            for rows in found.values()
        ]
        total += max(counts, default=0)
    return different, total


def examples_given(run: Run, called: Called, *, different: bool) -> int:
    """How many examples a candidate may have given a model, in all calls of all ranks."""
    total = 0
    for process in run.processes:
        found = {
            path: _sum(process, rows, different=different, most=True)
            for path, rows in _entered(process, called).items()
        }
        whole, parts = found.get("", 0), max((count for path, count in found.items() if path), default=0)
        # What is given to parts may be more than what the whole is given, or the same again.
        total += max(whole, parts) if different else whole + parts
    return total


def given_unseen(run: Run, called: Called) -> bool:
    """Whether some call is given an object that nobody looked into, and no tensor: it may hold any number of rows."""
    return any(
        bool(_unseen(process)[process.events["args"][rows]].any())
        for process in run.processes
        for rows in _entered(process, called).values()
    )


def largest_by_step(process: Process) -> dict[int, int]:
    """The most examples that any model is given at a time, for each step."""

    def compute() -> dict[int, int]:
        rows = process.entry_rows
        sizes = _examples_of_calls(process)[process.events["args"][rows]]
        found: dict[int, int] = {}
        for window, size in zip(process.window[rows].tolist(), sizes.tolist(), strict=True):
            found[window] = max(size, found.get(window, 0))
        return found

    return process.memo("largest batch of each step", compute)


def fed_back(process: Process) -> Ints:
    """All calls in training of modules that are given, within a step, what their model has returned before: they are
    unrolled over a sequence.
    """

    def compute() -> Ints:
        looks = process.measures(FED_BACK)
        parents = process.parent_row[looks[process.events["value"][looks] > 0]]
        entries = process.entry_rows[process.stage[process.entry_rows] == TRAIN]
        modules, windows = process.events["mod"][entries], process.window[entries]
        unrolled = set()
        for row in parents[parents >= 0].tolist():
            module = int(process.events["mod"][row])
            # A state that is carried from step to step is no sequence within one.
            if bool(((modules == module) & (windows == process.window[row]) & (entries < row)).any()):
                unrolled.add(module)
        return np.asarray(entries[np.isin(modules, sorted(unrolled))], dtype=np.int64)

    return process.memo("fed back within a step", compute)


def _entered(process: Process, called: Called) -> Mapping[str, Ints]:
    """Calls by which a model is entered, by the path of the part that is called; not those in a closure, which an
    optimizer calls as often as it sees fit.
    """

    def compute() -> Mapping[tuple[str, str, str], Ints]:
        rows = process.entry_rows
        rows = rows[~np.isin(rows, vocabulary.wrapper_calls(process)) & ~process.inside("autograd", "optimizer")[rows]]
        modules = process.events["mod"][rows]
        paths = Labels.of(modules, [str(symbol.get("path", "")) for symbol in process.raw.symbols["mod"]])
        roots = Labels.of(module_roots(process)[modules], process.names.roots)
        stages = process.stage_labels.take(rows)
        return {
            (root, stage, path): rows[part]
            for root, of_root in roots.groups(np.arange(len(rows))).items()
            for stage, of_stage in stages.groups(of_root).items()
            for path, part in paths.groups(of_stage).items()
        }

    found = process.memo("entered", compute)
    return {path: rows for (root, stage, path), rows in found.items() if (root, stage) == (called.owner, called.stage)}


def _golden(entered: Mapping[str, Ints]) -> Mapping[str, Ints]:
    """The calls of the whole model where there are any: parts may be given the same again."""
    return {"": entered[""]} if "" in entered else entered


def _sum(process: Process, rows: Ints, *, different: bool, most: bool = False) -> int:
    counts = (_most_of_calls if most else _examples_of_calls)(process)[process.events["args"][rows]]
    return int(counts[~_alike_elsewhere(process, rows)].sum()) if different else int(counts.sum())


def _alike_elsewhere(process: Process, rows: Ints) -> Bools:
    """Calls from a place in the code, where another place calls the same after as many steps with the same shapes."""
    events = process.events
    again = np.zeros(len(rows), dtype=bool)
    seen = set()
    for place in np.unique(events["src"][rows]).tolist():
        mine = events["src"][rows] == place
        calls = rows[mine]
        looks = tuple(sorted(zip(process.window[calls].tolist(), events["args"][calls].tolist(), strict=True)))
        again[mine] = looks in seen
        seen.add(looks)
    return again


def _once_a_step(process: Process, rows: Ints) -> int:
    most = np.zeros(process.windows + 1, dtype=np.int64)
    np.maximum.at(most, process.window[rows], _examples_of_calls(process)[process.events["args"][rows]])
    return int(most.sum())


def _up_to_the_data(process: Process, rows: Ints) -> bool:
    """Whether the number of calls is that of a sequence: the model is given what it returned within the same step, or
    steps with calls of the same sizes differ in how many there are, and no plan is seen in that.
    """
    if np.isin(rows, fed_back(process)).any():
        return True
    sizes = _examples_of_calls(process)[process.events["args"][rows]]
    calls: dict[tuple[int, ...], list[int]] = {}
    windows = process.window[rows]
    order = np.argsort(windows, kind="stable")
    _, begins = np.unique(windows[order], return_index=True)
    for mine in np.split(sizes[order], begins[1:]) if len(rows) else ():
        calls.setdefault(tuple(sorted(set(mine.tolist()))), []).append(len(mine))
    return not all(map(_is_planned, calls.values()))


def _is_planned(calls: Sequence[int]) -> bool:
    """Whether most steps have as many calls, and the others some times as many, as where a task is evaluated too."""
    usual, steps = Counter(calls).most_common(1)[0]
    return 2 * steps > len(calls) and all(count % usual == 0 for count in calls)


def _unseen(process: Process) -> Bools:
    """Of each set of arguments, whether all that may be a batch in it is an object of an unknown kind."""

    def compute() -> Bools:
        given = [symbol.get("values", {}).values() for symbol in process.raw.symbols["args"]]
        return np.array([any(map(_is_object, each)) and not any(map(_has_shapes, each)) for each in given], dtype=bool)

    return process.memo("unseen arguments", compute)


def _has_shapes(value: Any) -> bool:
    return next(iter(_shapes(value)), None) is not None


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping) and "type" in value


def _examples_of_calls(process: Process) -> Ints:
    """The size of the first dimension of the largest tensor among each set of arguments; 1 where there is none."""
    return process.memo(
        "rows of calls",
        lambda: np.array([_rows(symbol.get("values", {})) for symbol in process.raw.symbols["args"]], dtype=np.int64),
    )


def _most_of_calls(process: Process) -> Ints:
    """The size of the largest first dimension of any tensor among each set of arguments: the largest tensor may be a
    state that goes along, whose first dimension is that of its layers.
    """

    def of(values: Mapping[str, Any]) -> int:
        return max((shape[0] for value in values.values() for shape in _shapes(value) if shape), default=1)

    return process.memo(
        "most rows of calls",
        lambda: np.array([of(symbol.get("values", {})) for symbol in process.raw.symbols["args"]], dtype=np.int64),
    )


def _rows(values: Mapping[str, Any]) -> int:
    shapes = [shape for value in values.values() for shape in _shapes(value) if shape]
    return max(shapes, key=lambda shape: int(np.prod(shape)), default=[1])[0]


def _shapes(value: Any) -> Iterable[list[int]]:
    if not isinstance(value, Mapping):
        return
    if "tensor" in value:
        yield [size if type(size) is int and size > 0 else 1 for size in value["tensor"].get("shape") or []]
    for kind in ("list", "tuple"):
        for item in value.get(kind, ()):
            yield from _shapes(item)
    for item in value.get("dict", {}).values() if isinstance(value.get("dict"), Mapping) else ():
        yield from _shapes(item)
