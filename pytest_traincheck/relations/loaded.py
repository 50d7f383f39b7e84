"""Loaded: what `load_state_dict` loads into a model, and whose values these are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from pytest_traincheck.looks import ATTRIBUTES, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, listed, variable_names
from pytest_traincheck.relations.claims import Items
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.loaded_state import attributes_of, looked_at, users_modules, value_at
from pytest_traincheck.relations.meaning import Deviation, Meaning, Place, Words
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Ints, Labels
from pytest_traincheck.trace.variables import Variables

SUBJECT = "torch.nn.Module.load_state_dict"
MEASURE, SAVED = "load.given", "save.content"
MISSING, GIVEN, ITS_OWN, CHANGED = range(4)
"""As the probe writes them."""
_LOADED = (GIVEN, CHANGED)
_SEEN = {
    MISSING: "no entry for it in the state",
    GIVEN: "loaded",
    ITS_OWN: "given the model's own memory, so that nothing is loaded",
    CHANGED: "loaded with what has changed since `state_dict()` returned it",
}
_MOST = 64
"""Names in a claim; of a model of which more is loaded, but not all, nothing is claimed."""
_WORDS = Words(
    names=("load_state_dict", "state_dict", "load", "save", "load_checkpoint", "save_checkpoint"),
    words=("strict", "checkpoint", "state"),
)


@dataclass(frozen=True)
class Loads(Claim):
    """`load_state_dict` has something for every parameter and buffer of a model, or for those of these names, in which
    `*` stands for a number.
    """

    root: str
    names: Annotated[tuple[str, ...], Items(1, _MOST)] | None = None


@dataclass(frozen=True)
class LoadedFrom(Claim):
    """What a model is loaded with are values that another one, or itself, had before."""

    root: str
    source: str


@dataclass(frozen=True)
class LoadsCopies(Claim):
    """What a model is loaded with was kept as a copy until then."""

    copies: Literal[True] = field(default=True, init=False)
    root: str


@dataclass(frozen=True)
class HasState(Claim):
    """Buffers of a model, by the patterns of their names, that are loaded: where they are plain attributes, which no
    state has, these are what they are in the model whose values are loaded.
    """

    root: str
    source: str
    state: Annotated[tuple[str, ...], Items(1, _MOST)]


AnyClaim = Loads | LoadedFrom | LoadsCopies | HasState


class Loaded:
    """`load_state_dict` loads the same parameters and buffers of a model whenever it is called, and with the values of
    the same model.

    What comes between two forward passes or steps is looked at together, so that it does not matter whether a model is
    loaded as a whole or part by part.
    """

    name = "Loaded"
    looks: ClassVar[Looks] = frozenset({ATTRIBUTES})
    claims: ClassVar[tuple[type[Claim], ...]] = (Loads, LoadedFrom, LoadsCopies, HasState)

    def layer(self, claim: AnyClaim) -> int:
        return 1

    def meaning(self, rule: Invariant[AnyClaim]) -> Meaning:
        return Meaning(Place.RESUMED, words=replace(_WORDS, finds_variables=True))

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            table = _Table.of(process)
            for root in table.roots:
                names, subject = _names(process, table, root), table.loader(root)
                if names is None or len(names):
                    yield Hypothesis(self.name, subject, Loads(root, names), scope=Scope.PINNED)
                if subject == SUBJECT and table.loads_earlier(root):
                    yield Hypothesis(self.name, subject, LoadsCopies(root), scope=Scope.PINNED)
                for source in sorted({source for _, found in table.sources(root) for source in found}):
                    yield Hypothesis(self.name, subject, LoadedFrom(root, source), scope=Scope.PINNED)
                    buffers = _buffers(process, table.below(root), root)
                    if source != root and 0 < len(buffers) <= _MOST:
                        yield Hypothesis(self.name, subject, HasState(root, source, buffers), scope=Scope.PINNED)

    def examples(self, claim: AnyClaim, run: Run) -> Examples:
        of = _sources if isinstance(claim, LoadedFrom) else _of_state if isinstance(claim, HasState) else _covering
        return Examples.concatenate([of(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: AnyClaim, subject: str, when: str) -> str:
        if isinstance(claim, LoadedFrom):
            return f"{_loader(subject)} gives `{claim.root}` values that {_had(claim)}{when}."
        if isinstance(claim, HasState):
            return f"{listed(claim.state)} of `{claim.root}` come to it with what is loaded of `{claim.source}`{when}."
        if isinstance(claim, LoadsCopies):
            return (
                f"What {_loader(subject)} gives `{claim.root}` has not changed since `state_dict()` returned it{when}."
            )
        return f"{_loader(subject)} loads {_all(claim)}{when}."

    def finding(self, invariant: Invariant[AnyClaim], run: Run, examples: Examples, broken: Ints) -> Finding:
        claim, loader = invariant.claim, _loader(invariant.subject)
        first = int(broken[0])
        seen = examples.observed[first] if examples.observed is not None else "?"
        if isinstance(claim, LoadedFrom):
            return Finding(
                f"In the golden run {loader} gave `{claim.root}` values that {_had(claim)}; in the candidate "
                f"{seen}: another state is saved or loaded.",
                f"values that {_had(claim)}",
                seen,
                value=seen,
            )
        if isinstance(claim, HasState):
            shown = [examples.observed[place] for place in broken.tolist()] if examples.observed is not None else []
            return Finding(
                f"In the golden run {listed(claim.state)} were buffers, and `{claim.root}` got them with the state of "
                f"`{claim.source}`; in the candidate {listed(shown)} of `{claim.root}` differ from those of "
                f"`{claim.source}`: plain attributes are not saved and not loaded.",
                "buffers, which are saved and loaded",
                f"plain attributes: {listed(shown)}",
                deviation=Deviation.LACKING,
            )
        names = variable_names(run, examples, broken)
        if isinstance(claim, LoadsCopies):
            return Finding(
                f"In the golden run {loader} gave `{claim.root}` values of an earlier time; in the candidate "
                f"what it gives {listed(names)} was kept without a copy and has changed since `state_dict()` returned "
                "it.",
                "values of an earlier time",
                "values of now",
            )
        if seen == _SEEN[ITS_OWN]:
            how = (
                f"in the candidate the state that it is given is the model's own memory for {listed(names)}, as "
                "`state_dict()` returns it without a copy, and nothing is loaded"
            )
        else:
            how = f"in the candidate it is given nothing for {listed(names)}: keys are missing or have other names"
        return Finding(
            f"In the golden run {loader} loaded {_all(claim)}; {how}.",
            f"loads {_all(claim)}",
            f"{seen}: {listed(names)}",
            deviation=Deviation.LACKING,
        )


def _loader(subject: str) -> str:
    return "`load_state_dict`" if subject == SUBJECT else f"`{subject}`"


def _all(claim: Loads) -> str:
    if claim.names is None:
        return f"all parameters and buffers of `{claim.root}`"
    return f"{listed(claim.names)} of `{claim.root}`"


def _had(claim: LoadedFrom) -> str:
    return "it had before" if claim.source == claim.root else f"`{claim.source}` had"


def pattern(name: str) -> str:
    """A name with its numbers left open: `layers.*.q.weight`."""
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", name)


@dataclass(frozen=True)
class _Table:
    """What was loaded: one line for each parameter or buffer in each occasion, parallel columns.

    An occasion is what lies between two forward passes or steps; `status` is the best of its calls, `row` that call.
    """

    process: Process
    row: Ints
    variable: Ints
    occasion: Ints
    status: Ints

    @staticmethod
    def of(process: Process) -> _Table:
        return process.memo("loaded", lambda: _table(process))

    @property
    def roots(self) -> tuple[str, ...]:
        """Names of the models that are loaded."""
        found = np.unique(Variables.of(self.process).root[self.variable]).tolist()
        return tuple(name for name in (self.process.names.roots[number] for number in found) if name)

    def loader(self, root: str) -> str:
        """What loads the model, where several functions load something the one that loads most of it."""
        mine = self.below(root)
        loading = mine.row[np.isin(mine.status, _LOADED)]
        names, counts = np.unique(self.process.api.codes[loading], return_counts=True)
        return self.process.api.values[int(names[np.argmax(counts)])] if len(names) else SUBJECT

    def below(self, root: str) -> _Table:
        """The lines of one model."""
        roots = Labels.of(Variables.of(self.process).root[self.variable], self.process.names.roots)
        mine = roots.isin([root])
        return _Table(self.process, self.row[mine], self.variable[mine], self.occasion[mine], self.status[mine])

    def sources(self, root: str) -> Sequence[tuple[int, frozenset[str]]]:
        """For each occasion a row, and the models that had before all that is loaded; left out where none had."""
        return self.process.memo(("sources of", root), lambda: list(_sources_of(self.below(root))))

    def loads_earlier(self, root: str) -> bool:
        """Whether a parameter was loaded with what one of some model had before, and has no longer."""
        mine = self.below(root)
        process = self.process
        variables, events, history = Variables.of(process), process.events, history_of(process)
        for row, number in zip(mine.row.tolist(), mine.variable.tolist(), strict=True):
            begin = int(events["seq"][row])
            digest = _loaded(variables, events, number, int(events["end"][row]))
            had = np.array([variable for _, before, variable in history.of(digest) if before < row], np.int64)
            if len(had):
                last = variables.last(had, np.full(len(had), begin))
                now = np.where(last >= 0, events["digest"][np.maximum(last, 0)], digest)
                if bool((now != digest).all()):
                    return True
        return False


def _table(process: Process) -> _Table:
    events = process.events
    rows = process.measures(MEASURE)
    rows = rows[process.parent_row[rows] >= 0]
    steps = np.array([step.row for step in process.steps], dtype=np.int64)
    work = np.sort(np.concatenate([process.entry_rows, steps]))
    variable, status = events["args"][rows].astype(np.int64), events["value"][rows].astype(np.int64)
    rows = process.parent_row[rows]  # what is said of a parameter that was not looked at yet is said later
    occasion = np.searchsorted(work, rows)
    if not len(rows):
        return _Table(process, rows, variable, occasion, status)
    # What one call of several gives is given; of the others the worse is told.
    rank = np.array([2, 0, 3, 1])[status]
    order = np.lexsort((rank, variable, occasion))
    keys = np.stack([occasion[order], variable[order]])
    first = np.concatenate([[True], np.any(keys[:, 1:] != keys[:, :-1], axis=0)])
    kept = np.sort(order[first])
    return _Table(process, rows[kept], variable[kept], occasion[kept], status[kept])


def plain_names(process: Process, variable: Ints) -> list[str]:
    """Names below the root."""
    symbols = Variables.of(process).symbols
    return [str(symbols[number].get("name", "")) for number in variable.tolist()]


def _names(process: Process, table: _Table, root: str) -> tuple[str, ...] | None:
    """What is loaded on every occasion, by the patterns of the names; `None`: all of it."""
    mine = table.below(root)
    if bool(np.isin(mine.status, _LOADED).all()):
        return None
    found: dict[str, bool] = {}
    for name, status in zip(plain_names(process, mine.variable), mine.status.tolist(), strict=True):
        found[pattern(name)] = found.get(pattern(name), True) and status in _LOADED
    names = tuple(sorted(name for name, always in found.items() if always))
    return names if len(names) <= _MOST else ()


def _covering(process: Process, position: int, claim: Any) -> Examples:
    """One example for each parameter and buffer on each occasion."""
    table = _Table.of(process).below(claim.root)
    if isinstance(claim, Loads) and claim.names is not None:
        wanted = [pattern(name) in claim.names for name in plain_names(process, table.variable)]
        mine = np.array(wanted, dtype=bool)
        table = replace(
            table, row=table.row[mine], variable=table.variable[mine], occasion=table.occasion[mine],
            status=table.status[mine],
        )  # fmt: skip
    if not len(table.row):
        return EMPTY
    holds = np.isin(table.status, _LOADED) if isinstance(claim, Loads) else table.status != CHANGED
    return Examples(
        np.asarray(holds),
        np.full(len(table.row), position),
        table.row,
        table.variable,
        {"rank": rank_label(process, len(table.row))},
        Labels.of(table.status, [_SEEN[status] for status in sorted(_SEEN)]),
    )


def _buffers(process: Process, table: _Table, root: str) -> tuple[str, ...]:
    """Patterns of the names of the buffers that are loaded, of modules of the user's own."""
    kinds = Variables.of(process).kind.isin(["buffer"])
    mine = table.variable[np.isin(table.status, _LOADED) & kinds[table.variable]]
    of_users = users_modules(process, root)
    names = plain_names(process, mine)
    return tuple(sorted({pattern(name) for name in names if name.rpartition(".")[0] in of_users}))


def _of_state(process: Process, position: int, claim: Any) -> Examples:
    """One example for each of these buffers that is loaded, and for each plain attribute of such a name."""
    table = _Table.of(process).below(claim.root)
    if claim.source not in process.names.roots:
        return EMPTY
    ours, theirs = (attributes_of(process, root) for root in (claim.root, claim.source))
    found: list[tuple[int, int, bool, str]] = []
    for occasion in np.unique(table.occasion).tolist():
        mine = table.occasion == occasion
        row = int(table.row[mine].max())
        for name, number in zip(plain_names(process, table.variable[mine]), table.variable[mine].tolist(), strict=True):
            if pattern(name) in claim.state:
                found.append((row, number, True, name))
        if row not in looked_at(process):
            continue
        seq = int(process.events["seq"][row])
        for name in sorted(ours):
            values = value_at(ours, name, seq), value_at(theirs, name, seq)
            if pattern(name) in claim.state and None not in values:
                found.append((row, 0, values[0] == values[1], name))
    if not found:
        return EMPTY
    size = len(found)
    return Examples(
        np.array([holds for _, _, holds, _ in found], dtype=bool),
        np.full(size, position),
        np.array([row for row, _, _, _ in found], dtype=np.int64),
        np.array([number for _, number, _, _ in found], dtype=np.int64),
        {"rank": rank_label(process, size)},
        Labels.of(np.arange(size), [name for _, _, _, name in found]),
    )


def _sources(process: Process, position: int, claim: Any) -> Examples:
    """One example for each occasion on which some model is known to have had before what is loaded."""
    if claim.source not in process.names.roots:
        return EMPTY  # no model is recognised as golden's source
    found = _Table.of(process).sources(claim.root)
    if not found:
        return EMPTY
    texts = ["those of " + " and ".join(f"`{name}`" for name in sorted(sources)) for _, sources in found]
    return Examples(
        np.array([claim.source in sources for _, sources in found]),
        np.full(len(found), position),
        np.array([row for row, _ in found], dtype=np.int64),
        np.zeros(len(found), dtype=np.int64),
        {"rank": rank_label(process, len(found))},
        Labels.of(np.arange(len(texts)), texts),
    )


def _sources_of(table: _Table) -> Iterator[tuple[int, frozenset[str]]]:
    """Compares by content, all parameters of the model that are loaded on an occasion and not zero."""
    process = table.process
    variables, events, names = Variables.of(process), process.events, process.names
    parameters = variables.kind.isin(["parameter"])
    history = history_of(process)
    for occasion in np.unique(table.occasion).tolist():
        mine = (table.occasion == occasion) & np.isin(table.status, _LOADED) & parameters[table.variable]
        if not mine.any():
            continue
        begin, end = int(table.row[mine].min()), int(table.row[mine].max())
        sources: set[int] | None = None
        for number in table.variable[mine].tolist():
            digest = _loaded(variables, events, number, int(events["end"][end]))
            if digest:
                had = {root for root, row, _ in history.of(digest) if row < begin}
                sources = had if sources is None else sources & had
        if sources:
            yield begin, frozenset(names.roots[root] for root in sources if names.roots[root])


def _loaded(variables: Variables, events: Any, variable: int, seq: int) -> int:
    """The content of a parameter after it was loaded; 0 where it is zero, or was never seen."""
    one = np.array([variable])
    row = int(variables.last(one, np.array([seq]))[0])
    if row < 0:  # not seen before it was loaded: its first sight is what it was loaded with
        first = int(variables.first_seen(one)[0])
        row = int(variables.process.row_at(np.array([first]))[0]) if first < np.iinfo(np.int64).max else -1
    return int(events["digest"][row]) if row >= 0 and int(events["new"][row]) == fmt.NONZERO else 0


@dataclass(frozen=True)
class History:
    """The contents that parameters had or were saved with, sorted, with the row that says so and the parameter."""

    contents: npt.NDArray[np.uint64]
    root: Ints
    row: Ints
    variable: Ints

    def of(self, content: int) -> Sequence[tuple[int, int, int]]:
        """The model, the row and the parameter wherever one had this content."""
        one = np.array([content], dtype=np.uint64)
        low, high = (int(np.searchsorted(self.contents, one, side=side)[0]) for side in _SIDES)
        return [*zip(*(column[low:high].tolist() for column in (self.root, self.row, self.variable)), strict=True)]


_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")


def history_of(process: Process) -> History:
    """What each parameter had and was saved with."""

    def compute() -> History:
        events, variables = process.events, Variables.of(process)
        saved = process.measures(SAVED)
        saved = saved[process.parent_row[saved] >= 0]
        changes = variables.rows
        rows = np.concatenate([changes, process.parent_row[saved]])
        number = np.concatenate([events["subject"][changes], events["args"][saved]]).astype(np.int64)
        contents = np.concatenate([events["digest"][changes], events["digest"][saved]])
        kept = np.flatnonzero(variables.kind.isin(["parameter"])[number] & (contents != 0))
        kept = kept[np.argsort(contents[kept], kind="stable")]
        return History(contents[kept], variables.root[number[kept]], rows[kept], number[kept])

    return process.memo("contents of parameters", compute)
