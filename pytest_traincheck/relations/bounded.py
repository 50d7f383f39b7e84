"""Bounded: the size of a result follows from an argument: examples in a batch, tokens that were generated. And for a
batch, what that argument is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final, Literal

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations import generation
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.claims import Items, Natural
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.distinct import before_training
from pytest_traincheck.relations.meaning import Change, Meaning, Place
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels
from pytest_traincheck.trace.slots import part_of_batch

BATCH: Final = "batch"
TOKENS: Final = "tokens"
CALLS: Final = "calls"
CONTEXT: Final = "context"
WANTED: Final = "batch size"
LOADER = "torch.utils.data.DataLoader"
SIZE = "max_new_tokens"
MIXED = -1
MOST = 4
"""Different batch sizes up to which they are configured: a sampler that varies them has none."""


@dataclass(frozen=True)
class RowsOfBatch(Claim):
    """All tensors of a batch have as many rows as there are examples."""

    of: Literal["batch"] = field(default=BATCH, init=False)


@dataclass(frozen=True)
class BatchSize(Claim):
    """Training batches are asked for in these sizes."""

    of: Literal["batch size"] = field(default=WANTED, init=False)
    sizes: Annotated[tuple[int, ...], Items(1, MOST)]


@dataclass(frozen=True)
class NewTokens(Claim):
    """What a call generates has no more new tokens than were asked for."""

    of: Literal["tokens"] = field(default=TOKENS, init=False)
    api: str


@dataclass(frozen=True)
class CallsAsAsked(Claim):
    """Within a call a model is called as often as an argument says."""

    of: Literal["calls"] = field(default=CALLS, init=False)
    api: str
    argument: str


@dataclass(frozen=True)
class ContextGoesOn(Claim):
    """Within a call a model is given other tokens each time."""

    of: Literal["context"] = field(default=CONTEXT, init=False)
    api: str


@dataclass(frozen=True)
class SizeAsAsked(Claim):
    """What a call returns is as large as an argument says, in one dimension."""

    of: Literal["size"] = field(default="size", init=False)
    api: str
    argument: str
    dimension: Natural


Claims = RowsOfBatch | BatchSize | NewTokens | CallsAsAsked | ContextGoesOn | SizeAsAsked


class Bounded:
    """All tensors of a batch have as many rows as the DataLoader put examples into it, no more than its `batch_size`;
    `generate` returns no more new tokens than `max_new_tokens`, calls the model as often as one of its arguments says,
    and goes on from other tokens each time.

    The batch size of training is a setting like a learning rate: it has the value that golden has. A last batch that is
    shorter does not change it.
    """

    name = "Bounded"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (
        RowsOfBatch,
        BatchSize,
        NewTokens,
        CallsAsAsked,
        ContextGoesOn,
        SizeAsAsked,
    )

    def layer(self, claim: Claims) -> int:
        return 1

    def meaning(self, rule: Invariant[Claims]) -> Meaning:
        if isinstance(rule.claim, BatchSize):
            return Meaning(Place.CHOICE, brings=frozenset({Change.BATCHES, Change.LENGTH}), general=True)
        return Meaning(Place.DATA, general=True)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            if len(process.measures("batch.size")):
                yield Hypothesis(self.name, LOADER, RowsOfBatch())
                sizes = tuple(sorted(set(_wanted(process)[1].tolist())))
                if 0 < len(sizes) <= MOST:
                    yield Hypothesis(self.name, LOADER, BatchSize(sizes), Kind.CONFIG, Scope.PINNED)
            for api in sorted({process.api[int(row)] for row in _generations(process)[0]}):
                yield Hypothesis(self.name, api, NewTokens(api))
            for api, arguments in generation.limits(process).items():
                for argument in arguments:
                    yield Hypothesis(self.name, api, CallsAsAsked(api, argument), scope=Scope.PINNED)
                yield Hypothesis(self.name, api, ContextGoesOn(api), scope=Scope.PINNED)

            for api, places in generation.sizes(process).items():
                for argument, place in places:
                    yield Hypothesis(self.name, api, SizeAsAsked(api, argument, place), scope=Scope.PINNED)

    def examples(self, claim: Claims, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: Claims, subject: str, when: str) -> str:
        if isinstance(claim, RowsOfBatch):
            return f"All tensors of a batch have the same number of rows, at most the batch size{when}."
        if isinstance(claim, BatchSize):
            return f"The batch size of training is {_either(claim.sizes)}{when}."
        if isinstance(claim, CallsAsAsked):
            return f"`{subject}` calls the model as often as its `{claim.argument}` says{when}."
        if isinstance(claim, SizeAsAsked):
            return f"`{subject}` returns as many {_along(claim)} as its `{claim.argument}` says{when}."
        if isinstance(claim, ContextGoesOn):
            return f"`{subject}` gives the model other tokens in each call than in the one before{when}."
        return f"`{subject}` returns no more new tokens than `{SIZE}`{when}."

    def finding(self, invariant: Invariant[Claims], run: Run, examples: Examples, broken: Ints) -> Finding:
        seen = examples.observed[int(broken[0])] if examples.observed is not None else "?"
        if isinstance(invariant.claim, RowsOfBatch):
            return Finding(
                "In the golden run all tensors of a batch had the same number of rows, at most the batch size; in the "
                f"candidate the batch has {seen}.",
                "as many rows as examples",
                seen,
            )
        if isinstance(invariant.claim, BatchSize):
            sizes = _either(invariant.claim.sizes)
            return Finding(
                f"The batch size of training was {sizes} in the golden run and is {seen} in the candidate.",
                f"batch_size = {sizes}",
                f"batch_size = {seen}",
                value=seen,
            )
        api = invariant.claim.api
        if isinstance(invariant.claim, CallsAsAsked):
            argument = invariant.claim.argument
            return Finding(
                f"`{api}` called the model as often as its `{argument}` says in the golden run; in the candidate it "
                f"makes {seen}.",
                f"as many calls as `{argument}`",
                seen,
            )
        if isinstance(invariant.claim, SizeAsAsked):
            along, argument = _along(invariant.claim), invariant.claim.argument
            return Finding(
                f"`{api}` returned as many {along} as its `{argument}` says in the golden run; in the candidate it "
                f"returns {seen}.",
                f"as many {along} as `{argument}`",
                seen,
            )
        if isinstance(invariant.claim, ContextGoesOn):
            return Finding(
                f"`{api}` gave the model other tokens in each call in the golden run; in the candidate the input is "
                "the same as in the call before, though a token was generated: the newest tokens are cut off, or are "
                "not put in.",
                "other tokens in each call",
                "the tokens of the call before",
            )
        return Finding(
            f"`{api}` returned no more new tokens than `{SIZE}` in the golden run; in the candidate it returns {seen}.",
            f"no more than `{SIZE}`",
            seen,
        )


def _examples(process: Process, position: int, claim: Claims) -> Examples:
    if isinstance(claim, RowsOfBatch):
        return _batches(process, position)
    if isinstance(claim, CallsAsAsked):
        return generation.calls_as_asked(process, position, claim.api, claim.argument)
    if isinstance(claim, SizeAsAsked):
        return generation.size_as_asked(process, position, claim.api, claim.argument, claim.dimension)
    if isinstance(claim, ContextGoesOn):
        return generation.contexts(process, position, claim.api)
    return (
        _configured(process, position, claim) if isinstance(claim, BatchSize) else _generated(process, position, claim)
    )


def _along(claim: SizeAsAsked) -> str:
    return ("rows", "columns")[claim.dimension] if claim.dimension < 2 else f"elements along {claim.dimension}"


def _batches(process: Process, position: int) -> Examples:
    rows = process.measures("batch.size")
    if not len(rows):
        return EMPTY
    values = process.events["value"]
    wanted, lead = values[rows].astype(np.int64), values[process.measures("batch.lead")].astype(np.int64)
    calls = process.parent_row[rows].tolist()
    texts = [
        _sizes_of(process, call) if count == MIXED else f"{count} rows for at most {size} examples"
        for call, count, size in zip(calls, lead.tolist(), wanted.tolist(), strict=True)
    ]
    return Examples(
        np.asarray((lead > 0) & (lead <= wanted)),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"rank": rank_label(process, len(rows))},
        Labels.of(np.arange(len(texts)), texts),
    )


def _either(sizes: Sequence[int]) -> str:
    return " or ".join(map(str, sizes))


def _wanted(process: Process) -> tuple[Ints, Ints]:
    """The batch sizes of the loaders that training batches come from, and their rows."""
    rows = process.measures("batch.size")
    rows = rows[before_training(process, rows)] if len(rows) else rows
    return rows, process.events["value"][rows].astype(np.int64)


def _configured(process: Process, position: int, claim: BatchSize) -> Examples:
    rows, sizes = _wanted(process)
    if not len(rows):
        return EMPTY
    return Examples(
        np.isin(sizes, claim.sizes),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"rank": rank_label(process, len(rows))},
        Labels.of(np.arange(len(rows)), [str(size) for size in sizes.tolist()]),
    )


def _sizes_of(process: Process, call: int) -> str:
    """How many rows each tensor of a batch has, by its name or place."""
    value = process.raw.symbols["ret"][int(process.events["ret"][call])].get("value") if call >= 0 else None
    value = value if isinstance(value, Mapping) else {}
    fields = value.get("dict") or dict(enumerate(value.get("tuple") or value.get("list") or ()))
    shapes = {
        str(name): field["tensor"]["shape"]
        for name, field in fields.items()
        if isinstance(field, Mapping) and field.get("tensor", {}).get("shape")
    }
    sizes = ", ".join(f"{shape[0]} in {part_of_batch(name)}" for name, shape in shapes.items())
    return f"different numbers of rows: {sizes}" if sizes else "tensors with different numbers of rows"


def _generations(process: Process) -> tuple[Ints, Ints, Ints]:
    """Rows of the calls that had a limit, the limit, and the new tokens."""

    def compute() -> tuple[Ints, Ints, Ints]:
        found: list[tuple[int, int, int]] = []
        for measure in process.measures("generate.new").tolist():
            row = int(process.parent_row[measure])
            if row < 0:
                continue
            values = process.raw.symbols["args"][int(process.events["args"][row])].get("values") or {}
            limit = values.get(SIZE)
            if type(limit) is int:
                found.append((row, limit, int(process.events["value"][measure])))
        table = np.array(found, dtype=np.int64).reshape(-1, 3)
        return table[:, 0], table[:, 1], table[:, 2]

    return process.memo("generations", compute)


def _generated(process: Process, position: int, claim: NewTokens) -> Examples:
    rows, limit, new = _generations(process)
    mine = process.api.isin([claim.api])[rows] if len(rows) else np.empty(0, dtype=bool)
    rows, limit, new = rows[mine], limit[mine], new[mine]
    if not len(rows):
        return EMPTY
    texts = [f"{made} where {asked} were asked for" for made, asked in zip(new.tolist(), limit.tolist(), strict=True)]
    return Examples(
        np.asarray(new <= limit),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"stage": process.stage_labels.take(rows)},
        Labels.of(np.arange(len(texts)), texts),
    )
