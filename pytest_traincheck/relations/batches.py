"""What the numbers are like that models and losses are given: of which sort, where chance does not decide it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pytest_traincheck.relations.context import module_roots
from pytest_traincheck.relations.vocabulary import F
from pytest_traincheck.trace import Process
from pytest_traincheck.trace.labels import Bools, Ints, pairs_of
from pytest_traincheck.trace.stages import EVAL, TRAIN

Floats = npt.NDArray[np.float64]
Where = tuple[str, str, int]
"""A model or a loss function, the path of one of its inputs, and the stage."""

ROWS = "input.rows."
"""Prefix of the measures of how many rows an input has; the path of the tensor among the arguments follows."""

Share = Literal["none", "most"]
SHARES: tuple[Share, ...] = ("none", "most")
Sort = Literal[
    "negative", "above one", "below minus one", "fractional", "zero first", "zero last", "zero", "off centre"
]
_LIMITS: Mapping[Sort, tuple[float, float]] = {
    "negative": (0.0, 0.5),
    "above one": (0.0, 0.5),
    "below minus one": (0.0, 0.5),
    "fractional": (0.0, 0.5),
    "zero first": (0.0, 0.5),
    "zero last": (0.0, 0.5),
    "zero": (0.35, 0.65),
    "off centre": (0.3, 0.7),
}
"""Up to where a share counts as none, and from where on as most. What lies between may be up to the data."""
SORTS: tuple[Sort, ...] = tuple(_LIMITS)
Extreme = Literal["smallest", "largest"]
EXTREMES: tuple[Extreme, ...] = ("smallest", "largest")

LEAST_ROWS = 16
"""Rows that a run must have shown: where half of all rows are of a sort, none of so many is once in 65,000 times."""
LEAST_BATCHES = 4
"""Different batches that must have been seen for their extremes."""
USUAL = 0.75
"""Share of the batches that have an extreme of all, from which on it is the rule: none in as many batches, and all in
the golden runs, is once in 10,000 times.
"""


@dataclass(frozen=True)
class Batches:
    """Batches of one input, as parallel columns of length n: the rows of the trace that say how many rows each has,
    these numbers, which of them are different from all before, which come in a step that is given something different
    from all before, and by name what the numbers in them are like; NaN where that is not known.

    What is seen again, as in another epoch, is no further evidence for a rule. It is where one is broken: of what comes
    again and again in the golden runs, too, there is no rule.
    """

    rows: Ints
    sizes: Floats
    new: Bools
    fresh: Bools
    facts: Mapping[str, Floats]

    def share(self, sort: Sort, repeated: bool = False) -> Share | None:
        """Whether none or most of the numbers are of a sort; `None` where neither is so, or too little was seen."""
        values = self.facts[sort]
        known = ~np.isnan(values) & (self.new | repeated)
        if self.sizes[known].sum() < LEAST_ROWS or (sort == "zero" and self.counts):
            return None
        if sort == "off centre" and self.share("fractional", repeated) != "most":
            return None  # Of ones and zeros that says how many there are, which is no matter of a centre.
        share = float((values[known] * self.sizes[known]).sum() / self.sizes[known].sum())
        low, high = _LIMITS[sort]
        return "none" if share <= low else "most" if share >= high else None

    @property
    def counts(self) -> bool:
        """Whether these are whole numbers, and not flags: that one of them is 0 says no more than any other."""
        low, high = (self.facts[which] for which in EXTREMES)
        return bool(((low < 0) | (high > 1)).any())

    def extreme(self, which: Extreme) -> int | None:
        """The extreme of all batches of whole numbers; `None` where too few were seen. One batch that is trained on
        again and again is one: whether it has an extreme is chance. A mask that is the same beside other words is not.
        """
        values = self.facts[which]
        known = ~np.isnan(values)
        if (known & self.fresh).sum() < LEAST_BATCHES:
            return None
        values = values[known]
        return int(values.min() if which == "smallest" else values.max())

    def usual(self, which: Extreme) -> int | None:
        """The extreme of all batches, where most of several different batches have it. Batches of one run share what
        was drawn or made once, so that they may agree in any number; see `is_bound`.
        """
        values, number = self.facts[which], self.extreme(which)
        values = values[~np.isnan(values) & self.new]
        often = number is not None and len(values) >= LEAST_BATCHES and float((values == number).mean()) >= USUAL
        return number if often else None

    def ever(self, which: Extreme, number: int) -> bool:
        """Whether a number is the extreme of any batch."""
        return bool((self.facts[which] == number).any())


def batches(process: Process) -> Mapping[Where, Batches]:
    """All that models and losses were given in training and in evaluation, as far as it was looked at."""

    def compute() -> Mapping[Where, Batches]:
        found: dict[Where, Batches] = {}
        for symbol in process.raw.symbols["measure"][1:]:
            name = str(symbol.get("name", ""))
            if name.startswith(ROWS):
                path = name.removeprefix(ROWS)
                for (owner, stage), rows in _owners(process, process.measures(name)):
                    found[owner, process.input_path(owner, path), stage] = _read(process, path, rows)
        steps = [process.window[mine.rows[mine.new]] for (_, _, stage), mine in found.items() if stage == TRAIN]
        fresh = np.unique(np.concatenate(steps)) if steps else np.empty(0, dtype=np.int64)
        return {
            where: replace(mine, fresh=mine.new | np.isin(process.window[mine.rows], fresh))
            for where, mine in found.items()
        }

    return process.memo("batches of inputs", compute)


def is_loss(owner: str) -> bool:
    """Whether an input is one of a loss function, and no model's."""
    return owner.startswith(F)


def answers_itself(process: Process) -> bool:
    """Whether models are called without gradients in every second step or more: what they return may come back as
    targets or as whole numbers, which says nothing about the data. The same where no steps are known.
    """

    def compute() -> bool:
        steps = [step for step in process.steps[:8] if step.row >= 0]
        entries = process.entry_rows
        unrecorded = entries[process.grad_mode[entries] != 1]
        seqs = process.events["seq"][unrecorded].astype(np.int64)
        asked = [bool(((seqs > step.previous_end) & (seqs < step.begin)).any()) for step in steps[1:]]
        return len(asked) < 2 or float(np.mean(asked)) >= 0.5

    return process.memo("answers itself", compute)


def is_answered(process: Process, given: Batches) -> bool:
    """Whether another model than those that are trained with these batches is called without gradients before the first
    of them: they may be made of what it returned, as codes, clusters or labels are.
    """
    entries, roots = process.entry_rows, module_roots(process)
    called = roots[process.events["mod"][entries]]
    trained = np.isin(process.window[entries], process.window[given.rows]) & (process.stage[entries] == TRAIN)
    others = ~np.isin(called, called[trained]) & (process.grad_mode[entries] != 1)
    return bool((entries[others] < given.rows[0]).any())


def is_bound(process: Process, which: Extreme, number: int) -> bool:
    """Whether an extreme is one of the program and not of what a seed happened to draw: numbers are counted from 0 or
    1, below which there are marks such as -100, and end where a table or the classes of a model do, or are flags.
    """

    def compute() -> frozenset[int]:
        return frozenset(size for symbol in process.raw.symbols["var"] for size in symbol.get("shape", ()))

    return number <= 1 or (which == "largest" and number + 1 in process.memo("sizes of variables", compute))


def _owners(process: Process, rows: Ints) -> Iterator[tuple[tuple[str, int], Ints]]:
    """Those rows by the model or loss, and the stage."""
    events, parents = process.events, process.parent_row[rows]
    rows, parents = rows[parents >= 0], parents[parents >= 0]
    groups: dict[tuple[str, int], list[int]] = {}
    functions: Bools = process.type_codes.isin(["function"])
    for row, parent in zip(rows.tolist(), parents.tolist(), strict=True):
        stage = int(process.stage[row])
        owner = process.api[parent] if functions[parent] else process.names.modules[int(events["mod"][row])]
        if owner and stage in (TRAIN, EVAL):
            groups.setdefault((owner, stage), []).append(row)
    for place, mine in groups.items():
        yield place, np.array(mine, dtype=np.int64)


def _new(process: Process, rows: Ints) -> Bools:
    """Which batches were not seen before."""
    digests = process.events["digest"][rows]
    new: Bools = digests == 0  # A trace that does not tell batches apart.
    new[np.unique(digests, return_index=True)[1]] = True
    return new


def _read(process: Process, path: str, rows: Ints) -> Batches:
    values = process.events["value"]
    places = {parent: position for position, parent in enumerate(process.parent_row[rows].tolist())}
    facts: dict[str, Floats] = {}
    for fact in (*SORTS, *EXTREMES):
        column = np.full(len(rows), np.nan)
        for row in process.measures(f"input.{fact}.{path}").tolist():
            position = places.get(int(process.parent_row[row]))
            if position is not None:
                column[position] = values[row]
        facts[fact] = column
    new = _new(process, rows)
    return Batches(rows, values[rows].astype(np.float64), new, new, facts)


def types(process: Process) -> Mapping[tuple[str, str], Mapping[str, int]]:
    """A model or loss, and the path of an input that is data -> each dtype that it had in training, with the first
    call.
    """

    def compute() -> Mapping[tuple[str, str], Mapping[str, int]]:
        found: dict[tuple[str, str], dict[str, int]] = {}
        wanted = {(owner, path) for owner, path, _ in batches(process)}
        owners = {owner for owner, _ in wanted}
        losses = np.flatnonzero(process.is_call & process.api.isin(filter(is_loss, owners)))
        for rows, entry in ((process.entry_rows, True), (losses, False)):
            mine = rows[process.stage[rows] == TRAIN]
            owner_of = process.events["mod"][mine] if entry else process.api.codes[mine]
            first = pairs_of(owner_of, process.events["args"][mine])[2]
            for row in sorted(mine[first].tolist()):
                owner = process.names.modules[int(process.events["mod"][row])] if entry else process.api[row]
                for path, dtype in _dtypes(process, int(process.events["args"][row])) if owner in owners else ():
                    known = process.input_path(owner, path)
                    if (owner, known) in wanted:
                        found.setdefault((owner, known), {}).setdefault(dtype, row)
        return found

    return process.memo("types of inputs", compute)


def _dtypes(process: Process, number: int) -> Iterator[tuple[str, str]]:
    values = process.raw.symbols["args"][number].get("values") or {}
    for name, value in values.items():
        yield from _walked(str(name), value)


def _walked(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(value, Mapping):
        return
    if isinstance(value.get("tensor"), Mapping):
        yield name, str(value["tensor"].get("dtype", ""))
    for kind in ("dict", "list", "tuple"):
        inside = value.get(kind)
        items = inside.items() if isinstance(inside, Mapping) else enumerate(inside or ())
        for key, item in items:
            yield from _walked(f"{name}.{key}", item)
