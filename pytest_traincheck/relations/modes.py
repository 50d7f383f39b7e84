"""Modes: the parts of a model are called in the same mode, train or eval, before each step and in evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, listed
from pytest_traincheck.relations.claims import Items
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.meaning import Change, Meaning, Place, Words
from pytest_traincheck.relations.mode_calls import TRAIN, set_at
from pytest_traincheck.relations.vocabulary import SENSITIVE
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Ints, Labels, pairs_of
from pytest_traincheck.trace.stages import EVAL, INIT

Moment = Literal["step", "evaluation"]
"""The last call before each step, which is what training makes of a model, or all others in evaluation."""
Mode = Literal["train", "eval", "either"]
_WHEN: Mapping[Moment, str] = {"step": "Before each step", "evaluation": "In evaluation"}


@dataclass(frozen=True)
class ModesAre(Claim):
    """Modules of a model, by their paths, are called in these modes, and so is what lies in each of them down to the
    next one that is named. `either`: now in one, now in the other, which says nothing.
    """

    model: str
    moment: Moment
    modules: Annotated[tuple[str, ...], Items(1)]
    modes: Annotated[tuple[Mode, ...], Items(1)]


class Modes:
    """The parts of a model are in train or in eval mode, as golden's are.

    By itself the mode of a module is nothing wrong: in most of them it does nothing. What it changes is said by other
    rules (functions that are called with other flags, or not at all, since torch takes a faster way in eval mode;
    numbers that are not drawn; results), and this is what a person wrote that they follow from.
    """

    name = "Modes"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (ModesAre,)

    def layer(self, claim: ModesAre) -> int:
        return 1

    def meaning(self, rule: Invariant[ModesAre]) -> Meaning:
        mode = frozenset({Change.MODE})
        words = Words(names=("train", "eval"))
        return Meaning(Place.FORWARD, brings=mode, comes_with=mode, only_explains=True, words=words)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            for (model, moment), modes in sorted(_modes(process).items()):
                borders = {path: mode for path, mode in modes.items() if _expected(modes, _above(path)) != mode}
                if set(borders.values()) != {"either"}:
                    claim = ModesAre(model, moment, tuple(borders), tuple(borders.values()))
                    yield Hypothesis(self.name, TRAIN, claim, scope=Scope.PINNED)

    def examples(self, claim: ModesAre, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: ModesAre, subject: str, when: str) -> str:
        named = zip(_names(claim, claim.modules), claim.modes, strict=True)
        parts = [f"`{name}` in {mode} mode" if mode != "either" else f"`{name}` in either" for name, mode in named]
        more = f" and {len(parts) - 4} more otherwise" if len(parts) > 4 else ""
        return f"{_WHEN[claim.moment]}, modules are called in one mode: {', '.join(parts[:4])}{more}{when}."

    def finding(self, invariant: Invariant[ModesAre], run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        assert examples.observed is not None, "every example has its mode"
        found = {_path(run, examples, position): position for position in broken.tolist()}
        top = [path for path in found if not any(path != other and _is_in(path, other) for other in found)]
        first = found[top[0]]
        process, row = run.processes[int(examples.process[first])], int(examples.row[first])
        now = examples.observed[first]
        alike = [path for path in top if examples.observed[found[path]] == now]
        names = _names(claim, alike)
        was = "eval" if now == "train" else "train"
        when = f"In step {process.step_number(row)}" if claim.moment == "step" else "In evaluation"
        last_set = set_at(process, row)
        return Finding(
            f"{when}, the golden run called {listed(names)} in {was} mode; the candidate calls "
            f"{'it' if len(names) == 1 else 'them'} in {now} mode (see `train()` and `eval()` of modules).",
            f"called in {was} mode",
            f"called in {now} mode" + (f", last set at {last_set}" if last_set else ""),
            place=last_set,
            value=", ".join(f"{name} {now}" for name in names),
            modules=tuple(_names(claim, top)),
        )


def _names(claim: ModesAre, paths: Sequence[str]) -> list[str]:
    return [f"{claim.model}.{path}" if path else claim.model for path in paths]


def _path(run: Run, examples: Examples, position: int) -> str:
    process = run.processes[int(examples.process[position])]
    number = int(process.events["mod"][int(examples.row[position])])
    return str(process.raw.symbols["mod"][number].get("path", ""))


def _above(path: str) -> str | None:
    """The path of what a module lies in; None above a model."""
    return path.rpartition(".")[0] if path else None


def _is_in(path: str, other: str) -> bool:
    return not other or path == other or path.startswith(f"{other}.")


def _expected(modes: Mapping[str, str], path: str | None) -> str:
    """The mode of the innermost module around that is known; empty where none is."""
    while path is not None:
        if path in modes:
            return modes[path]
        path = _above(path)
    return ""


def _modes(process: Process) -> Mapping[tuple[str, Moment], Mapping[str, Mode]]:
    """Model and moment -> path of each module that is called then -> its mode; outer modules come first."""

    def compute() -> Mapping[tuple[str, Moment], Mapping[str, Mode]]:
        found: dict[tuple[str, Moment], dict[str, Mode]] = {}
        for moment, rows in _calls(process).items():
            trains = (process.events["flags"][rows] & fmt.TRAINING) != 0
            seen: dict[int, set[bool]] = {}
            modules, flags, _ = pairs_of(_modules(process)[rows], trains.view(np.int8))
            for number, mode in zip(modules.tolist(), flags.tolist(), strict=True):
                seen.setdefault(number, set()).add(bool(mode))
            for number, modes in seen.items():
                symbol = process.raw.symbols["mod"][number]
                model = process.names.roots[symbol.get("root", 0)]
                if model:
                    said: Mode = "either" if len(modes) > 1 else "train" if True in modes else "eval"
                    found.setdefault((model, moment), {})[str(symbol.get("path", ""))] = said
        return {key: dict(sorted(modes.items())) for key, modes in found.items()}

    return process.memo("modes of modules", compute)


def _modules(process: Process) -> Ints:
    """The number of the module of each event. A wrapper has the place of what it wraps, and is the same module."""

    def compute() -> Ints:
        first: dict[tuple[int, str], int] = {}
        same = [
            first.setdefault((int(symbol.get("root", 0)), str(symbol.get("path", ""))), number)
            for number, symbol in enumerate(process.raw.symbols["mod"])
        ]
        numbers: Ints = np.array(same, dtype=np.int64)[process.events["mod"]]
        return numbers

    return process.memo("modules of events", compute)


def _calls(process: Process) -> Mapping[Moment, Ints]:
    """Rows of the calls of modules by moment, in order of time."""

    def compute() -> Mapping[Moment, Ints]:
        rows = process.rows_of_type("module")
        rows = rows[process.stage[rows] != INIT]
        windows, modules = process.window[rows], _modules(process)[rows]
        order = np.lexsort((rows, windows, modules))
        last = np.ones(len(rows), dtype=bool)
        last[:-1] = (np.diff(modules[order]) != 0) | (np.diff(windows[order]) != 0)
        before_step = np.zeros(len(rows), dtype=bool)
        before_step[order] = last
        before_step &= windows < process.windows
        if process.raw.joins and process.windows:
            # What one process does behind its last step comes before no step of the models that the next one makes.
            step = process.step_ends[np.minimum(windows, process.windows - 1)]
            before_step &= process.era(process.events["seq"][rows]) == process.era(step)
        return {"step": rows[before_step], "evaluation": rows[~before_step & (process.stage[rows] == EVAL)]}

    return process.memo("calls of modules by moment", compute)


def _mattering(process: Process) -> frozenset[tuple[int, str]]:
    """Root and path of each module whose mode, or that of a module in it, may change what it does."""

    def compute() -> frozenset[tuple[int, str]]:
        libraries = {symbol["name"]: symbol.get("library") for symbol in process.raw.symbols["api"][1:]}
        found: set[tuple[int, str]] = set()
        for symbol in process.raw.symbols["mod"][1:]:
            name = str(symbol.get("class", ""))
            if libraries.get(name) == "torch" and not any(part in name for part in SENSITIVE):
                continue
            path: str | None = str(symbol.get("path", ""))
            while path is not None:
                found.add((int(symbol.get("root", 0)), path))
                path = _above(path)
        return frozenset(found)

    return process.memo("modules whose mode matters", compute)


def _examples(process: Process, position: int, claim: ModesAre) -> Examples:
    """One example for each module that golden knows the mode of, and that it matters for or for something in it: its
    first call in another, or else its first.
    """
    known = dict(zip(claim.modules, claim.modes, strict=False))
    matters = _mattering(process)
    rows = _calls(process)[claim.moment]
    trains = (process.events["flags"][rows] & fmt.TRAINING) != 0
    numbers = _modules(process)[rows]
    places: list[int] = []
    observed: list[int] = []
    holds: list[bool] = []
    for number in np.unique(numbers).tolist():
        symbol = process.raw.symbols["mod"][number]
        expected = _expected(known, str(symbol.get("path", "")))
        if process.names.roots[symbol.get("root", 0)] != claim.model or expected not in ("train", "eval"):
            continue
        if (int(symbol.get("root", 0)), str(symbol.get("path", ""))) not in matters:
            continue
        mine = np.flatnonzero(numbers == number)
        other = mine[trains[mine] != (expected == "train")]
        first = int(other[0]) if other.size else int(mine[0])
        places.append(int(rows[first]))
        observed.append(int(trains[first]))
        holds.append(not other.size)
    if not places:
        return EMPTY
    size = len(places)
    return Examples(
        np.array(holds, dtype=bool),
        np.full(size, position),
        np.array(places, dtype=np.int64),
        np.zeros(size, dtype=np.int64),
        {"rank": rank_label(process, size)},
        Labels.of(observed, ("eval", "train")),
    )
