"""What each random generator has drawn: between training steps, by which calls, and for each example in workers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pytest_traincheck.relations.workers import workers_of
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.reader import read_sketches

Generator = Literal["torch", "numpy", "python", "cuda", "handed"]
GLOBAL: tuple[Generator, ...] = ("torch", "numpy", "python", "cuda")
GENERATORS: tuple[Generator, ...] = (*GLOBAL, "handed")
"""The global ones, and those that functions are handed."""
OF_TORCH: tuple[Generator, ...] = ("torch", "cuda")
"""Those that functions of torch draw from."""
BY_KERNEL: Generator = "cuda"
"""The generator of which only whether it has moved says something. How far depends on the kernels that draw: one for
twice as many numbers moves it half as far as two, and a fused one much farther.
"""

_NEXT_TO = 1
"""A function that has drawn is written right after the state that it left."""


@dataclass(frozen=True)
class Draw:
    """Numbers of 32 bits that a generator has drawn, 0 where nobody knows how many: in which module, or while a batch
    is made, or outside of all; in which call, by its row or -1; by which function and how many elements, where that is
    known; and the line of code.
    """

    place: str
    row: int
    words: int
    function: str = ""
    elements: int = 0
    source: str = ""


def by_step(process: Process, generator: Generator) -> dict[int, float]:
    """Numbers drawn for each complete training step: since the step before, or since the first forward pass. Those of
    which nobody knows how many are infinite; 1 of any that are drawn by kernels. What stands around a wait for other
    ranks comes in another step where a rank has other data.
    """
    rows = process.measures(f"rng.{generator}")
    waited = set(process.window[process.measures(fmt.WAITED)].tolist())
    found: dict[int, float] = {}
    if not process.windows or not len(rows):
        return found
    for window, value in zip(process.window[rows].tolist(), process.events["value"][rows].tolist(), strict=True):
        if window < process.windows and window not in waited and not math.isnan(value):
            found[window] = found.get(window, 0.0) + value
    return _counted(found, generator)


def _counted(found: dict[int, float], generator: Generator) -> dict[int, float]:
    if generator != BY_KERNEL:
        return found
    return {window: min(count, 1.0) if math.isfinite(count) else count for window, count in found.items()}


def by_evaluation(process: Process, generator: Generator) -> dict[int, float]:
    """Numbers drawn in calls of models without gradients behind the last step, by the number of steps. Those of which
    nobody knows how many are infinite; 1 of any that are drawn by kernels.

    Between two steps a teacher may be called for the next one, with the draws of a batch before it, and nobody can say
    where evaluation ends.
    """
    found = {int(window): 0.0 for window in process.window[process.measures("evaluated.torch")]}
    found = {window: count for window, count in found.items() if window == process.windows}
    rows = process.measures(f"evaluated.{generator}")
    for window, value in zip(process.window[rows].tolist(), process.events["value"][rows].tolist(), strict=True):
        if window in found:
            found[window] += math.inf if math.isnan(value) else value
    return _counted(found, generator)


def states_before_training(run: Run) -> tuple[int, ...]:
    """Hashes of the global generators before the first optimizer step: other ones with another seed."""
    found = []
    for process in run.processes:
        for name in GLOBAL:
            found += process.events["digest"][process.measures(f"rng.{name}")[:1]].tolist()
    return tuple(found)


def by_example(run: Run, generator: Generator) -> frozenset[float]:
    """The numbers drawn for an example in each of the first fetches of all workers, every number once."""
    # Workers may be known of which no batch was taken in the steps at hand.
    begun = (worker.process for worker in workers_of(run) if worker.row >= 0)
    return frozenset(rate for worker in begun for rate in _rates(worker, generator))


def _rates(worker: Process, generator: Generator) -> list[float]:
    rows, sizes = worker.measures(f"fetch.{generator}"), worker.measures("fetch.size")
    if not len(rows) or len(sizes) < len(rows):
        return []
    numbers, examples = worker.events["value"][rows], worker.events["value"][sizes[: len(rows)]]
    rates: list[float] = np.round(numbers / np.maximum(examples, 1.0), 6).tolist()
    return [rate for rate in rates if not math.isnan(rate)]


def calls_that_draw(process: Process) -> Mapping[str, list[tuple[int, bool]]]:
    """Of each function and module of a library that was called in training the calls that stand for a sketched step:
    the first, and whether any of the step's draws by itself from a generator of torch's. Steps of which that is not
    known are left out.
    """
    return process.memo("calls that draw", lambda: _calls_that_draw(process))


def _calls_that_draw(process: Process) -> dict[str, list[tuple[int, bool]]]:
    if any("calls within models" in what for what in process.raw.meta.get("left_out") or {}):
        return {}
    sketched = _sketched(process)
    drew: dict[int, bool] = {}
    for draw in (draw for generator in OF_TORCH for *_, draw in _draws(process, generator)):
        drew[draw.row] = bool(draw.words) and drew.get(draw.row, True)
    rows = process.rows_of_type("module", "function")
    training = (process.stage[rows] == 1) & ((process.events["flags"][rows] & fmt.TRAINING) != 0)
    modules = process.type_codes.isin(["module"])[rows]
    rows = rows[np.isin(process.window[rows], sketched) & (training | ~modules) & (process.stage[rows] == 1)]
    by_step: dict[tuple[str, int], list[int]] = {}
    for row, window in zip(rows.tolist(), process.window[rows].tolist(), strict=True):
        if _is_of_a_library(process, row):
            by_step.setdefault((process.api[row], window), []).append(row)
    found: dict[str, list[tuple[int, bool]]] = {}
    for (api, _), calls in by_step.items():
        told = [drew[row] for row in calls if row in drew]
        if all(told):
            found.setdefault(api, []).append((calls[0], bool(told)))
    return found


def _sketched(process: Process) -> list[int]:
    """The steps that were sketched from their beginning to their end."""
    slots = [number for number, symbol in enumerate(process.raw.symbols["slot"]) if symbol.get("name") == "hyper"]
    rows = read_sketches(process.raw)
    ended = np.searchsorted(process.step_ends, rows["at"][np.isin(rows["slot"], slots)].astype(np.int64))
    return sorted(set(ended.tolist()))


def _is_of_a_library(process: Process, row: int) -> bool:
    return process.raw.symbols["api"][int(process.events["subject"][row])].get("library") != "user"


def places(process: Process) -> Mapping[int, list[Draw]]:
    """What torch's generator has drawn for each training step that was sketched, in order."""
    return {step: draws for step, draws in _places(process)[0].items() if step not in half_seen(process)}


def half_seen(process: Process) -> frozenset[int]:
    """The steps in which numbers were drawn that may have been drawn in steps before them, which were not sketched."""
    return _places(process)[1]


def _places(process: Process) -> tuple[Mapping[int, list[Draw]], frozenset[int]]:
    return process.memo("places of draws", lambda: _found(process))


def _found(process: Process) -> tuple[Mapping[int, list[Draw]], frozenset[int]]:
    found: dict[int, list[Draw]] = {}
    begin = _begin(process)
    unknown = set()
    for since, at, draw in _draws(process, "torch"):
        before, window = np.searchsorted(process.step_ends, [since, at], side="left").tolist()
        if draw.words and at >= begin and window < process.windows:
            found.setdefault(window, []).append(draw)
            if window - before > 1:
                unknown.add(window)
    return found, frozenset(unknown)


def _begin(process: Process) -> float:
    """When draws begin to count: with the first forward pass after the optimizers of the first step were made."""
    made = process.rows_of_type("construct")
    made = made[process.window[made] == 0]
    since = int(process.events["end"][made].max()) if len(made) else 0
    modules = process.rows_of_type("module")
    entries = modules[process.parent_row[modules] < 0]
    begins = process.events["seq"][entries].astype(np.int64)
    later = begins[begins > since]
    return float(later.min()) if len(later) else math.inf


def _draws(process: Process, generator: Generator) -> Iterator[tuple[float, float, Draw]]:
    """What was drawn between two looks at a generator, with both times."""
    before = f"before.{generator}"
    slots = [str(symbol.get("name", "")) for symbol in process.raw.symbols["slot"]]
    rows = read_sketches(process.raw)
    wanted = {number for number, name in enumerate(slots) if name in (f"rng.{generator}", before)}
    looks = np.flatnonzero(np.isin(rows["slot"], list(wanted))).tolist()
    for last, position in itertools.pairwise(looks):
        row = rows[position]
        call, at = int(process.row_at([int(row["call"])])[0]), float(row["at"])
        if slots[int(row["slot"])] == before and call >= 0:
            at = float(process.events["seq"][call]) - 0.5
            call = int(process.parent_row[call])
        function, elements = "", 0
        if position + 1 < len(rows) and rows["at"][position + 1] <= row["at"] + _NEXT_TO:
            name = slots[int(rows["slot"][position + 1])]
            if name.startswith("draw."):
                function, elements = name.removeprefix("draw."), int(rows["size"][position + 1])
        source = process.source(call) if call >= 0 else ""
        yield (
            float(rows["at"][last]),
            at,
            Draw(_place(process, call), call, int(row["size"]), function, elements, source),
        )


def _place(process: Process, row: int) -> str:
    while row >= 0:
        if name := process.module_name(row):
            return name
        if process.type_codes[row] == "data":
            return process.api[row]
        row = int(process.parent_row[row])
    return ""
