"""One process of a run, with the columns that rules are made of. Everything is derived from the trace; nothing is
stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.columns import Columns
from pytest_traincheck.trace.labels import Bools, Codes, Ints, Labels
from pytest_traincheck.trace.names import Names, build_names
from pytest_traincheck.trace.reader import RawTrace
from pytest_traincheck.trace.stages import STAGES, pieces, shown, stages

T = TypeVar("T")


@dataclass(frozen=True)
class OptimizerStep:
    """One call of an optimizer's `step`: position of its row, number among this optimizer's steps, and the interval."""

    row: int
    optimizer: int
    number: int
    previous_end: int
    begin: int
    end: int


@dataclass(eq=False)
class Process:
    """Columns over the events of one process; `row` always means a position in `events`, which are sorted by `seq`."""

    raw: RawTrace
    root_names: Mapping[str, str] = field(default_factory=dict)
    optimizer_names: Mapping[str, str] = field(default_factory=dict)
    lead: str = ""
    """Name of the optimizer that counts the iterations, where a golden says so."""
    argument_names: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Model and the name of an argument -> the name that the golden has for it, where that is another one."""
    of_events: dict[object, Any] = field(default_factory=dict, repr=False)
    """What depends on no name, so that the same events under other names share it."""
    _memo: dict[object, Any] = field(default_factory=dict, repr=False)

    def memo(self, key: object, compute: Callable[[], T]) -> T:
        """The value of `compute()`, computed once: several rules look at the same table."""
        if key not in self._memo:
            self._memo[key] = compute()
        value: T = self._memo[key]
        return value

    def renamed(
        self,
        roots: Mapping[str, str],
        optimizers: Mapping[str, str],
        lead: str = "",
        arguments: Mapping[tuple[str, str], str] | None = None,
    ) -> Process:
        """The same events, called as the golden calls them. What was derived from them already is not derived again."""
        other = Process(
            self.raw,
            {**self.root_names, **roots},
            {**self.optimizer_names, **optimizers},
            lead,
            arguments or self.argument_names,
            self.of_events,
        )
        # A cached property lies in the dictionary of its object.
        vars(other).update({name: value for name, value in vars(self).items() if name in _OF_EVENTS})
        return other

    def input_path(self, model: str, path: str) -> str:
        """Where an input lies among a model's arguments, as the golden calls them."""
        if not self.argument_names:
            return path
        name, dot, rest = path.partition(".")
        return f"{self.argument_names.get((model, name), name)}{dot}{rest}"

    @property
    def rank(self) -> int:
        return int(self.raw.meta.get("rank", 0))

    @property
    def world_size(self) -> int:
        return int(self.raw.meta.get("world_size", 1))

    @property
    def events(self) -> Columns:
        return self.raw.events

    @cached_property
    def names(self) -> Names:
        return build_names(self.raw, self.root_names, self.optimizer_names)

    @cached_property
    def is_call(self) -> Bools:
        return np.asarray(self.events["kind"] == fmt.CALL)

    @cached_property
    def api_names(self) -> tuple[str, ...]:
        return tuple(symbol.get("name", "") for symbol in self.raw.symbols["api"])

    @cached_property
    def api_types(self) -> tuple[str, ...]:
        return tuple(symbol.get("type", "") for symbol in self.raw.symbols["api"])

    @cached_property
    def type_codes(self) -> Labels:
        """The type of each call (`module`, `function`, `optimizer`, ...); empty for changes."""
        return Labels.of(np.where(self.is_call, self.events["subject"], 0), self.api_types)

    def rows_of_type(self, *types: str) -> Ints:
        """Rows of calls whose API is of one of these types, in order."""
        return np.flatnonzero(self.type_codes.isin(types))

    def measures(self, name: str) -> Ints:
        """Rows of the measures of this name, in order."""
        return self._measures.get(name, np.empty(0, dtype=np.int64))

    @cached_property
    def _measures(self) -> Mapping[str, Ints]:
        rows = np.flatnonzero(self.events["kind"] == fmt.MEASURE)
        names = [str(symbol.get("name", "")) for symbol in self.raw.symbols["measure"]]
        found = Labels.of(self.events["subject"][rows], names).groups(np.arange(len(rows)))
        return {name: rows[positions] for name, positions in found.items()}

    @cached_property
    def api(self) -> Labels:
        """The API name of each call; empty for changes."""
        return Labels.of(np.where(self.is_call, self.events["subject"], 0), self.api_names)

    @cached_property
    def forward_rows(self) -> Ints:
        """Entry calls of a whole model; a part of it that is called by itself, to sample from a decoder, is not
        among them.
        """
        whole = np.array([not symbol.get("path", "") for symbol in self.raw.symbols["mod"]], dtype=bool)
        rows: Ints = self.entry_rows[whole[self.events["mod"][self.entry_rows]]]
        return rows

    @cached_property
    def optimizer_class(self) -> tuple[str, ...]:
        """The class of each optimizer by its id, e.g. `torch.optim.AdamW`."""
        return tuple(str(symbol.get("class", "")) for symbol in self.raw.symbols["opt"])

    @cached_property
    def entry_rows(self) -> Ints:
        """Calls of a model from outside any module: what a person calls the forward pass.

        A model has parameters, so a criterion is none.
        """
        rows = np.flatnonzero(self.is_call & ((self.events["flags"] & fmt.ENTRY) != 0))
        with_parameters = {
            symbol.get("root", 0) for symbol in self.raw.symbols["var"][1:] if symbol.get("kind") == "parameter"
        }
        roots = np.array([symbol.get("root", 0) in with_parameters for symbol in self.raw.symbols["mod"]], dtype=bool)
        roots[0] = False
        models: Ints = rows[roots[self.events["mod"][rows]]]
        return models

    def row_at(self, seq: npt.ArrayLike) -> Ints:
        """Rows whose `seq` is given; -1 where there is none (0, or a call that was still open when the process
        died).
        """
        wanted = np.asarray(seq)
        column = self.events["seq"]
        if not len(column):
            return np.full(wanted.shape, -1)
        # Numbers of another type would make a copy of the whole column in that type.
        number = np.clip(wanted, 0, _HIGHEST).astype(column.dtype, copy=False)
        position = np.minimum(np.searchsorted(column, number), len(column) - 1)
        return np.where(column[position] == wanted, position, -1)

    @cached_property
    def parent_row(self) -> Codes:
        """The row of the call around each event; -1 where there is none."""
        found: list[Codes] = [np.empty(0, dtype=np.int32)]
        parents = self.events["parent"]
        for begin in range(0, len(parents), _AT_ONCE):
            found.append(self.row_at(parents[begin : begin + _AT_ONCE]).astype(np.int32))
        rows: Codes = np.concatenate(found)
        return rows

    @cached_property
    def for_plug_ins(self) -> frozenset[str]:
        """APIs that are observed because a plug-in named them."""
        return frozenset(self.raw.meta.get("extensions_in_use") or ())

    @cached_property
    def outer_types(self) -> Codes:
        """A bit set of the API types that enclose each event, over `TRAINING_TYPES`, "function", "module",
        "compile".
        """
        bits = [_TYPE_BITS.get(name, 0) for name in self.type_codes.values]  # No rule asks what lies within the others.
        own = np.array(bits, dtype=np.int16)[self.type_codes.codes]
        # `result` covers the way from each event up to `current`; both double their reach in every turn, so that a deep
        # chain of calls costs no more than the logarithm of its depth. What lies in no call is at the end of its way,
        # and one row more stands for what is around it.
        size = len(own)
        current = np.append(np.where(self.parent_row < 0, size, self.parent_row), np.int32(size))
        result = np.append(own, np.int16(0))[current]
        while (current < size).any():
            result |= result[current]
            current = current[current]
        bit_sets: Codes = result[:size]
        return bit_sets

    def inside(self, *types: str) -> Bools:
        """Which events lie within a call of one of these types. Raises `KeyError` for a type that has no bit."""
        bits = 0
        for name in types:
            bits |= _TYPE_BITS[name]
        return np.asarray((self.outer_types & bits) != 0)

    @cached_property
    def steps(self) -> tuple[OptimizerStep, ...]:
        """Every outermost optimizer step that returned, in order."""
        ended: dict[int, int] = {}
        numbers: dict[int, int] = {}
        steps: list[OptimizerStep] = []
        nested = self.inside("optimizer")
        rows = self.rows_of_type("optimizer")
        rows = rows[~nested[rows] & ((self.events["flags"][rows] & fmt.RAISED) == 0)]
        columns = (self.events[name][rows].tolist() for name in ("opt", "seq", "end"))
        for row, optimizer, begin, end in zip(rows.tolist(), *columns, strict=True):
            number = numbers.get(optimizer, 0)
            steps.append(OptimizerStep(row, optimizer, number, ended.get(optimizer, 0), begin, end))
            ended[optimizer] = end
            numbers[optimizer] = number + 1
        return tuple(steps)

    @cached_property
    def lead_optimizer(self) -> int:
        """The optimizer whose steps count the iterations: of those that step regularly, the one that is last in an
        iteration.
        """
        counts: dict[int, int] = {}
        first: dict[int, int] = {}
        for step in self.steps:
            counts[step.optimizer] = counts.get(step.optimizer, 0) + 1
            first.setdefault(step.optimizer, step.begin)
        if not counts:
            return 0
        for optimizer in counts:
            if self.lead and self.names.optimizers[optimizer] == self.lead:
                return optimizer
        most = max(counts.values())
        # A critic may step five or ten times for each step of a generator.
        regular = [optimizer for optimizer, count in counts.items() if 20 * count >= most]
        return max(regular, key=lambda optimizer: first[optimizer])

    @cached_property
    def lead_steps(self) -> tuple[OptimizerStep, ...]:
        """The steps that count the iterations: those of the lead optimizer, and of others that step before or after
        all of them.

        A run that resumes, or trains in phases, makes a new optimizer for each part.
        """
        span: dict[int, tuple[int, int]] = {}
        for step in self.steps:
            span[step.optimizer] = (span.get(step.optimizer, (step.begin, 0))[0], step.end)
        chosen, counts = [self.lead_optimizer], Counter(step.optimizer for step in self.steps)
        names = self.names.optimizers
        lead = names[self.lead_optimizer]
        turns: set[str] = set()
        # What takes its place comes first: of two that take turns, the other one may step before it there.
        for optimizer, (begin, end) in sorted(span.items(), key=lambda item: names[item[0]] != lead):
            apart = all(end < span[other][0] or begin > span[other][1] for other in chosen if other in span)
            if not apart:
                turns.add(names[optimizer])
            # Its only step may be the beginning of taking turns, if that is what one of its name did before.
            elif counts[optimizer] > 1 or names[optimizer] == lead or names[optimizer] not in turns:
                chosen.append(optimizer)
        return tuple(step for step in self.steps if step.optimizer in chosen)

    @cached_property
    def step_ends(self) -> Ints:
        """The borders between windows: the end of every step of the lead optimizer, or of the last other optimizer that
        steps before the next forward or backward pass.
        """
        leading = {step.row for step in self.lead_steps}
        lead = np.array([step.end for step in self.lead_steps], dtype=np.int64)
        others = np.array([step.end for step in self.steps if step.row not in leading], dtype=np.int64)
        if not len(lead) or not len(others):
            return lead
        rows = np.sort(np.concatenate([self.entry_rows, self.rows_of_type("autograd")]))
        work = self.events["seq"][rows].astype(np.int64)
        position = np.searchsorted(work, lead)
        limit = np.where(position < len(work), work[np.minimum(position, len(work) - 1)], np.iinfo(np.int64).max)
        last_other = np.searchsorted(others, limit) - 1
        follows = (last_other >= 0) & (others[np.maximum(last_other, 0)] > lead)
        return np.where(follows, others[np.maximum(last_other, 0)], lead)

    @property
    def windows(self) -> int:
        """How many complete windows there are; window k ends with step k of the lead optimizer."""
        return len(self.step_ends)

    @cached_property
    def window(self) -> Codes:
        """The window of each event; the events after the last step have the number `windows`."""
        seq = self.events["seq"]
        return pieces(np.searchsorted(seq, self.step_ends.astype(seq.dtype), side="right"), len(seq))

    @cached_property
    def stage(self) -> Codes:
        """Index into `STAGES` for each event; see `stages`."""
        return stages(self)

    @cached_property
    def shown(self) -> Bools:
        """Which events lie in a forward pass of set-up; see `stages`."""
        return shown(self)

    @cached_property
    def stage_labels(self) -> Labels:
        return Labels.of(self.stage, STAGES)

    @cached_property
    def grad_mode(self) -> Codes:
        table = np.array([bool(symbol.get("grad", True)) for symbol in self.raw.symbols["ctx"]], dtype=np.int8)
        modes: Codes = table[self.events["ctx"]]
        return modes

    @cached_property
    def inference(self) -> Codes:
        table = np.array([bool(symbol.get("inference")) for symbol in self.raw.symbols["ctx"]], dtype=np.int8)
        modes: Codes = table[self.events["ctx"]]
        return modes

    @cached_property
    def autocast(self) -> Labels:
        table = [str(symbol.get("autocast") or "off") for symbol in self.raw.symbols["ctx"]]
        return Labels.of(self.events["ctx"], table)

    def source(self, row: int) -> str:
        """`file:line` of the user's code that made the event, or of the nearest enclosing call that has one."""
        while row >= 0:
            symbol = self.raw.symbols["src"][int(self.events["src"][row])]
            if symbol:
                return f"{symbol['file']}:{symbol['line']}"
            row = int(self.parent_row[row])
        return ""

    def module_name(self, row: int) -> str:
        number = int(self.events["mod"][row])
        return self.names.modules[number] if number < len(self.names.modules) else ""

    def step_number(self, row: int) -> int:
        """The training step of an event, counted from the first of the whole training."""
        return int(self.numbers[int(self.window[row])])

    @cached_property
    def numbers(self) -> Ints:
        """The number of each window among the steps of the whole training, and of the one that comes next."""
        stretch = self.raw.stretch
        numbers = np.arange(self.windows + 1)
        if stretch is not None:
            numbers[stretch.head :] += stretch.left_out
        marks = self.measures(fmt.OBSERVED)
        for window, number in zip(self.window[marks].tolist(), self.events["value"][marks].tolist(), strict=True):
            numbers[window:] = int(number) + np.arange(len(numbers) - window)
        return numbers

    @property
    def sampled(self) -> bool:
        """Whether not every step was observed."""
        return bool(len(self.measures(fmt.OBSERVED)))

    def era(self, seq: npt.ArrayLike) -> Ints:
        """How many times another process has gone on with the training before each time."""
        return np.searchsorted(np.array(self.raw.joins, dtype=np.int64), np.asarray(seq))

    def judged(self, rows: Ints) -> Bools:
        """Which events are judged: all but those that only say what came before a stretch of later steps."""
        if self.raw.stretch is None:
            return np.ones(len(rows), dtype=bool)
        return np.asarray(self.events["seq"][rows] > self.raw.stretch.begin)

    def stage_name(self, row: int) -> str:
        return STAGES[int(self.stage[row])]


_HIGHEST = np.iinfo(np.uint32).max

_AT_ONCE = 1 << 16
"""Events whose parents are looked up together, in memory that does not grow with a run."""

_OF_EVENTS = frozenset({
    "is_call", "api_names", "api_types", "type_codes", "_measures", "api", "forward_rows", "optimizer_class",
    "entry_rows", "parent_row", "for_plug_ins", "outer_types", "steps", "stage", "shown", "stage_labels", "grad_mode",
    "inference", "autocast",
})  # fmt: skip
"""Cached properties that depend on no name."""

_TYPE_BITS: Mapping[str, int] = {
    name: 1 << position
    for position, name in enumerate(
        [
            "optimizer",
            "autograd",
            "scheduler",
            "scaler",
            "clip",
            "update",
            "zero_grad",
            "function",
            "compile",
            "module",
            "collective",
            "mode",
            "statistics",
        ]
    )
}
