"""A process as it would have been recorded, had its modules lain where the golden has them.

Symbols get other roots and names. A model that only one side puts around others is looked through: calls of what it
holds are entry calls where its own was, what happens in its `forward` happens outside every module, and the buffers
that were looked at when it returned belong to the last call of what they lie in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_traincheck import observing
from pytest_traincheck.alignment.placement import Placement, below
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.run import Run
from pytest_traincheck.trace.symbols import Symbol


def placed(run: Run, placement: Placement, golden: Collection[str]) -> Run:
    """A run with modules and variables where the golden, whose roots are given, has them."""
    processes = tuple(placed_process(process, placement, golden) for process in run.processes)
    return Run(run.path, processes, run.workers, run.others)


def placed_process(process: Process, placement: Placement, golden: Collection[str]) -> Process:
    """The process with everything placed as in the golden, whose roots are `golden`."""
    tables = _tables(process, placement)
    events = process.events
    is_change, is_measure = events["kind"] == fmt.CHANGE, events["kind"] == fmt.MEASURE
    changed = {name: events[name].copy() for name in ("subject", "args", "mod", "flags", "parent")}
    _look_through(process, tables, golden, changed)
    changed["subject"][is_change] = tables.variable[changed["subject"][is_change]]
    changed["args"][is_measure] = tables.variable[changed["args"][is_measure]]
    changed["mod"][:] = tables.module[changed["mod"]]
    raw = replace(process.raw, symbols=tables.symbols, events=events.but(**changed))
    return Process(raw, {}, process.optimizer_names, process.lead)


@dataclass(frozen=True)
class _Tables:
    """Symbols with their new places, and for each old id the new one: what was recorded under two names has one."""

    symbols: dict[str, list[Symbol]]
    variable: Ints
    module: Ints


def _tables(process: Process, placement: Placement) -> _Tables:
    symbols = {kind: list(table) for kind, table in process.raw.symbols.items()}
    names = process.names.roots
    roots = _Roots(symbols["root"], [placement.place(name, "")[0] if name else "" for name in names])
    module = np.arange(len(symbols["mod"]), dtype=np.int64)
    variable = np.arange(len(symbols["var"]), dtype=np.int64)
    for kind, field, ids in (("mod", "path", module), ("var", "name", variable)):
        first: dict[tuple[Any, ...], int] = {}
        for number, symbol in enumerate(symbols[kind]):
            if not symbol.get("root", 0):
                continue
            root, path = placement.place(names[symbol["root"]], str(symbol.get(field, "")))
            placed = {**symbol, "root": roots.number(root, symbols["root"][symbol["root"]]), field: path}
            key = (placed["root"], path, symbol.get("kind", symbol.get("class", "")))
            ids[number] = first.setdefault(key, number)
            symbols[kind][number] = placed if ids[number] == number else {}
    symbols["root"] = roots.symbols
    symbols["var"] = [_tied(symbol, number, variable) for number, symbol in enumerate(symbols["var"])]
    symbols["group"] = [
        {**group, "params": [int(variable[number]) for number in group["params"]]} if group.get("params") else group
        for group in symbols["group"]
    ]
    symbols["attribute"] = [
        {**seen, "mod": int(module[seen["mod"]])} if seen.get("mod") else seen for seen in symbols["attribute"]
    ]
    return _Tables(symbols, variable, module)


def _tied(symbol: Symbol, number: int, ids: Ints) -> Symbol:
    if not symbol.get("same", 0):
        return symbol
    first = int(ids[symbol["same"]])
    return {**symbol, "same": first if first != number else 0}


class _Roots:
    """Roots by their final names; each name once."""

    def __init__(self, symbols: list[Symbol], names: list[str]) -> None:
        self._ids: dict[str, int] = {}
        self.symbols: list[Symbol] = []
        for number, (symbol, name) in enumerate(zip(symbols, names, strict=True)):
            first = self._ids.setdefault(name, number)
            self.symbols.append({**symbol, "name": name} if name and first == number else {})

    def number(self, name: str, like: Symbol) -> int:
        """Id of the root of this name; a new one is made from the root that its parts come from."""
        if name not in self._ids:
            self._ids[name] = len(self.symbols)
            self.symbols.append({**like, "i": len(self.symbols), "name": name})
        return self._ids[name]


# Calls


@dataclass(frozen=True)
class _Modules:
    """Columns over the `mod` ids of the run as it was recorded."""

    root: Ints
    """Root as recorded."""
    placed: Ints
    """Root in the golden."""
    known: Bools
    """Whether that is a root of the golden."""
    holds: Bools
    """Whether something below lies in another root in the golden."""

    @property
    def transparent(self) -> Bools:
        """Modules of the run alone, around models of the golden."""
        return self.holds & ~self.known

    @staticmethod
    def of(process: Process, tables: _Tables, golden: Collection[str]) -> _Modules:
        recorded, placed = process.raw.symbols["mod"], tables.symbols["mod"]
        root = np.array([symbol.get("root", 0) for symbol in recorded], dtype=np.int64)
        home = np.array([placed[int(number)].get("root", 0) for number in tables.module], dtype=np.int64)
        names = [tables.symbols["root"][int(number)].get("name", "") for number in home]
        inside = _homes_inside(process, tables, home)
        holds = np.array(
            [
                bool(inside.get((int(root[number]), str(symbol.get("path", ""))), frozenset()) - {int(home[number])})
                for number, symbol in enumerate(recorded)
            ],
            dtype=bool,
        )
        return _Modules(root, home, np.array([name in golden for name in names], dtype=bool), holds)


def _homes_inside(process: Process, tables: _Tables, home: Ints) -> dict[tuple[int, str], set[int]]:
    """(root, path) as recorded -> the roots in which what lies below it is placed."""
    found: dict[tuple[int, str], set[int]] = {}
    places = [
        (int(symbol.get("root", 0)), str(symbol.get("path", "")), int(home[number]))
        for number, symbol in enumerate(process.raw.symbols["mod"])
    ]
    # Variables as well: a part that is never called has no module symbol.
    for number, symbol in enumerate(process.raw.symbols["var"]):
        placed = tables.symbols["var"][int(tables.variable[number])]
        places.append((int(symbol.get("root", 0)), str(symbol.get("name", "")), int(placed.get("root", 0))))
    for root, path, where in places:
        while root and path:
            path = path.rpartition(".")[0]
            found.setdefault((root, path), set()).add(where)
    return found


def _look_through(
    process: Process, tables: _Tables, golden: Collection[str], changed: Mapping[str, npt.NDArray[Any]]
) -> None:
    """Changes flags, parents and modules among these columns, whose ids are still those of the record."""
    modules = _Modules.of(process, tables, golden)
    if not modules.holds.any():
        return
    mod = process.events["mod"]
    entry = (process.events["flags"] & fmt.ENTRY) != 0
    is_module = process.type_codes.isin(["module"])
    rows, tops = _inner_entries(process, modules, is_module)
    rows, tops = _last_with_buffers(process, tables, rows, tops)
    _give_buffers(process, tables, rows, tops, changed["parent"])
    changed["flags"][is_module & entry & modules.transparent[mod]] &= np.uint8(~fmt.ENTRY & 0xFF)
    changed["flags"][rows] |= fmt.ENTRY
    changed["mod"][process.is_call & ~is_module & modules.transparent[mod]] = 0


def _inner_entries(process: Process, modules: _Modules, is_module: Bools) -> tuple[Ints, Ints]:
    """Calls that would be entry calls, had the modules around them not been there, and the entry call around each."""
    mod = process.events["mod"]
    entry = (process.events["flags"] & fmt.ENTRY) != 0
    backward = process.type_codes.isin(["autograd"])
    parallel = observing.parallel()
    wrappers = np.array([name.startswith(parallel) for name in process.api.values], dtype=bool)
    is_wrapper = is_module & wrappers[process.api.codes]
    rows = np.flatnonzero(is_module & ~entry & ~is_wrapper & modules.known[mod] & ~modules.transparent[mod])
    own = mod[rows]
    tops = np.full(len(rows), -1)
    current = process.parent_row[rows]
    while (current >= 0).any():
        around = np.maximum(current, 0)
        outer = mod[around]
        apart = (modules.root[outer] == modules.root[own]) & (modules.placed[outer] != modules.placed[own])
        through = modules.transparent[outer] | (modules.holds[outer] & apart) | is_wrapper[around]
        passes = (current >= 0) & ~backward[around] & (~is_module[around] | through)
        reached = passes & is_module[around] & entry[around]
        tops[reached] = current[reached]
        current = np.where(passes & ~reached, process.parent_row[around], -1)
    return rows[tops >= 0], tops[tops >= 0]


def _last_with_buffers(process: Process, tables: _Tables, rows: Ints, tops: Ints) -> tuple[Ints, Ints]:
    """Of several calls of a module with buffers within one entry call the last: only after it they were looked at."""
    if not len(rows):
        return rows, tops
    mod = process.events["mod"][rows].astype(np.int64)
    buffered = np.isin(mod, [number for number in np.unique(mod).tolist() if _buffers(tables, number)])
    _, last = np.unique(np.stack([tops, mod], axis=1)[::-1], axis=0, return_index=True)
    buffered[len(rows) - 1 - last] = False
    return rows[~buffered], tops[~buffered]


def _buffers(tables: _Tables, module: int) -> list[int]:
    """Variables, by their recorded ids, that are buffers of a module or of one below it."""
    symbol = tables.symbols["mod"][int(tables.module[module])]
    return [
        number
        for number, new in enumerate(tables.variable.tolist())
        if (variable := tables.symbols["var"][new]).get("kind") == "buffer"
        and variable.get("root", 0) == symbol.get("root", 0)
        and below(str(symbol.get("path", "")), str(variable.get("name", ""))) is not None
    ]


def _give_buffers(process: Process, tables: _Tables, rows: Ints, tops: Ints, parents: npt.NDArray[np.uint32]) -> None:
    """Makes changes of buffers that were seen when an outer call returned those of the call that made them."""
    events = process.events
    changes = np.flatnonzero(events["kind"] == fmt.CHANGE)
    changes = changes[np.isin(process.parent_row[changes], tops)]
    mod = process.events["mod"][rows].astype(np.int64)
    for module in np.unique(mod).tolist():
        calls, around = rows[mod == module], tops[mod == module]
        mine = changes[np.isin(events["subject"][changes], _buffers(tables, module))]
        if not len(mine):
            continue
        index = np.searchsorted(calls, mine) - 1
        inside = (index >= 0) & (around[np.maximum(index, 0)] == process.parent_row[mine])
        parents[mine[inside]] = events["seq"][calls[index[inside]]]
