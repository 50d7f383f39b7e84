"""APIOutput: the dtype of results, and that they and what is made of them are finite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations import vocabulary
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, listed, variable_names
from pytest_traincheck.relations.compiled import graph_examples
from pytest_traincheck.relations.context import call_context, rank_label
from pytest_traincheck.relations.meaning import Deviation, Meaning, Place, Words, place_of_call
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Ints, Labels, pairs_of
from pytest_traincheck.trace.variables import Variables

COMPILED = "compiled:"
"""How measures of functions in compiled graphs begin, before API and dtype."""


@dataclass(frozen=True)
class Returns(Claim):
    """A function returns tensors of one dtype; `compiled`: in graphs of compiled regions."""

    api: str
    dtype: str
    compiled: bool = False


@dataclass(frozen=True)
class Reduces(Claim):
    """In the backward pass a collective reduces floating-point numbers of one dtype."""

    reduced: Literal[True] = field(default=True, init=False)
    api: str
    dtype: str


@dataclass(frozen=True)
class PositiveNorm(Claim):
    """What clipping returns is not zero."""

    api: str
    positive: Literal[True] = field(default=True, init=False)


@dataclass(frozen=True)
class FiniteLoss(Claim):
    """What loss functions return is finite."""

    finite: Literal[True] = field(default=True, init=False)


@dataclass(frozen=True)
class FiniteParameters(Claim):
    """What is trained stays finite."""

    finite: Literal["parameters"] = field(default="parameters", init=False)


_Claim = Returns | Reduces | PositiveNorm | FiniteLoss | FiniteParameters


class APIOutput:
    """A function returns tensors of one dtype in a context (under autocast, in training), and ranks reduce gradients in
    one; a loss is finite, and so are the parameters behind every step.
    """

    name = "APIOutput"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (Returns, Reduces, PositiveNorm, FiniteLoss, FiniteParameters)

    def layer(self, claim: _Claim) -> int:
        return 3

    def meaning(self, rule: Invariant[_Claim]) -> Meaning:
        if isinstance(rule.claim, FiniteLoss):
            return Meaning(Place.DIVERGED, general=True)
        if isinstance(rule.claim, FiniteParameters):
            return Meaning(Place.DIVERGED, general=True, words=Words(finds_variables=True))
        return Meaning(place_of_call(rule.subject))

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            rows = _rows(process)
            if len(rows):
                apis, results, _ = pairs_of(process.api.codes[rows], process.events["ret"][rows])
                numbers = zip(apis.tolist(), results.tolist(), strict=True)
                pairs = {(process.api.values[api], _dtype(process)[result]) for api, result in numbers}
                for api, dtype in sorted(pair for pair in pairs if pair[1]):
                    yield Hypothesis(self.name, api, Returns(api, dtype), Kind.BEHAVIOUR, Scope.TRANSFERABLE)
            for api, dtype in sorted(_reduced(process)):
                yield Hypothesis(self.name, api, Reduces(api, dtype), scope=Scope.PINNED)
            for api, dtype in sorted(_compiled(process)):
                claim = Returns(api, dtype, compiled=True)
                yield Hypothesis(self.name, api, claim, Kind.BEHAVIOUR, Scope.PINNED)
            for api in sorted(process.api.groups(_clip_rows(process))):
                yield Hypothesis(self.name, api, PositiveNorm(api))
            if len(_loss_rows(process)):
                yield Hypothesis(self.name, "torch.nn.functional", FiniteLoss())
            if process.steps:
                yield Hypothesis(self.name, "torch.nn.Parameter", FiniteParameters())

    def examples(self, claim: _Claim, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: _Claim, subject: str, when: str) -> str:
        if isinstance(claim, FiniteLoss):
            return f"The result of every loss function is finite{when}."
        if isinstance(claim, FiniteParameters):
            return f"Parameters that are finite stay finite{when}."
        if isinstance(claim, PositiveNorm):
            return f"The norm that `{subject}` returns is not zero{when}."
        if isinstance(claim, Reduces):
            return f"In the backward pass `{subject}` reduces {claim.dtype}{when}."
        where = " in compiled regions" if claim.compiled else ""
        return f"`{subject}` returns {claim.dtype}{where}{when}."

    def finding(self, invariant: Invariant[_Claim], run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        first = int(broken[0])
        process = run.processes[int(examples.process[first])]
        if isinstance(claim, FiniteParameters):
            names = listed(variable_names(run, examples, broken))
            return Finding(
                "Every parameter was finite in the golden run; in the candidate there are NaN or infinite numbers in "
                f"{names}.",
                "finite",
                f"NaN or infinity in {names}",
                deviation=Deviation.NOT_FINITE,
            )
        if isinstance(claim, FiniteLoss):
            api = process.api[int(examples.row[first])]
            return Finding(
                f"`{api}` returned finite losses in the golden run; in the candidate it returns NaN or infinity.",
                "finite",
                "NaN or infinity",
                deviation=Deviation.NOT_FINITE,
            )
        if isinstance(claim, PositiveNorm):
            return Finding(
                f"`{claim.api}` returned a norm above 0 in the golden run; in the candidate it returns 0: it is "
                "given no gradients, and clips nothing.",
                "a norm above 0",
                "0",
            )
        seen = examples.observed[first] if examples.observed is not None else "?"
        if isinstance(claim, Reduces):
            return Finding(
                f"In the backward pass `{claim.api}` reduced {claim.dtype} in the golden run; in the candidate it "
                f"reduces {seen}: gradients are added up in another precision (see `reduce_dtype` of a "
                "`MixedPrecisionPolicy`, and communication hooks).",
                claim.dtype,
                seen,
                value=seen,
            )
        where = " in a compiled region (see `torch.autocast`)" if claim.compiled else ""
        return Finding(
            f"`{claim.api}` returned {claim.dtype} in the golden run; in the candidate it returns {seen}{where}.",
            claim.dtype,
            seen,
            value=seen,
            common_cause=f"compiled, {seen}" if claim.compiled else "",
        )


def _examples(process: Process, position: int, claim: _Claim) -> Examples:
    if isinstance(claim, FiniteLoss):
        return _finite(process, position)
    if isinstance(claim, FiniteParameters):
        return _stay_finite(process, position)
    if isinstance(claim, PositiveNorm):
        return _positive(process, position, claim)
    if isinstance(claim, Reduces):
        return _reductions(process, position, claim)
    return _in_graphs(process, position, claim) if claim.compiled else _typed(process, position, claim)


def _clip_rows(process: Process) -> Ints:
    """Calls of clipping that returned a number."""
    rows = process.rows_of_type("clip")
    known: Ints = rows[~np.isnan(process.events["value"][rows])]
    return known


def _positive(process: Process, position: int, claim: PositiveNorm) -> Examples:
    rows = _clip_rows(process)
    rows = rows[process.api.isin([claim.api])[rows]]
    return Examples(
        np.asarray(process.events["value"][rows] > 0),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"rank": call_context(process, rows)["rank"]},
    )


def _compiled(process: Process) -> Mapping[tuple[str, str], Ints]:
    """Measures of the functions in compiled graphs by API and dtype of the result."""

    def compute() -> Mapping[tuple[str, str], Ints]:
        found: dict[tuple[str, str], Ints] = {}
        for symbol in process.raw.symbols["measure"]:
            name = str(symbol.get("name", ""))
            if name.startswith(COMPILED):
                api, _, dtype = name.removeprefix(COMPILED).rpartition("=")
                if api in vocabulary.LINEAR_ALGEBRA or api in vocabulary.LAYER_FUNCTIONS:
                    found[api, dtype] = process.measures(name)
        return found

    return process.memo("compiled functions", compute)


def _reduced(process: Process) -> Mapping[tuple[str, str], Ints]:
    """Rows of the reductions in the backward pass by API and dtype: there it is gradients that ranks add up."""

    def compute() -> Mapping[tuple[str, str], Ints]:
        rows = process.rows_of_type("collective")
        rows = rows[process.inside("autograd")[rows] & ~process.inside("collective")[rows]]
        found: dict[tuple[str, str], list[int]] = {}
        for row, args in zip(rows.tolist(), process.events["args"][rows].tolist(), strict=True):
            dtype = _first_dtype({"list": [*(process.raw.symbols["args"][args].get("values") or {}).values()]})
            if "reduce" in process.api[row] and "float" in dtype:
                found.setdefault((process.api[row], dtype), []).append(row)
        return {key: np.array(mine, dtype=np.int64) for key, mine in found.items()}

    return process.memo("reductions in the backward pass", compute)


def _reductions(process: Process, position: int, claim: Reduces) -> Examples:
    mine = {dtype: rows for (api, dtype), rows in _reduced(process).items() if api == claim.api}
    if not mine:
        return EMPTY
    rows = np.concatenate([*mine.values()])
    observed = Labels.of(np.repeat(np.arange(len(mine)), [len(each) for each in mine.values()]), [*mine])
    context = call_context(process, rows)
    return Examples(
        observed.isin([claim.dtype]),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {name: context[name] for name in ("rank", "root", "module")},
        observed,
    )


def _in_graphs(process: Process, position: int, claim: Returns) -> Examples:
    mine = {dtype: rows for (api, dtype), rows in _compiled(process).items() if api == claim.api}
    return graph_examples(position, mine, claim.dtype)


def _rows(process: Process) -> Ints:
    def compute() -> Ints:
        mask = process.is_call & ~process.inside("function", "clip", "optimizer")
        names = [
            name
            for name in process.api.values
            if name in vocabulary.LINEAR_ALGEBRA or name in vocabulary.LAYER_FUNCTIONS or vocabulary.is_loss(name)
        ]
        mask &= process.api.isin(names)
        closure = process.is_call & process.inside("optimizer") & process.api.isin(names) & ~process.inside("function")
        return vocabulary.without_metrics(process, np.flatnonzero(mask | closure))

    return process.memo("output rows", compute)


def _dtype(process: Process) -> tuple[str, ...]:
    """dtype of the first tensor of each interned result; empty if it has none."""
    return process.memo(
        "result dtypes", lambda: tuple(_first_dtype(symbol.get("value")) for symbol in process.raw.symbols["ret"])
    )


def _first_dtype(value: Any) -> str:
    if not isinstance(value, Mapping):
        return ""
    if "tensor" in value:
        return str(value["tensor"].get("dtype", ""))
    for key in ("tuple", "list"):
        for item in value.get(key, ()):
            found = _first_dtype(item)
            if found:
                return found
    return ""


def _typed(process: Process, position: int, claim: Returns) -> Examples:
    rows = _rows(process)
    rows = rows[process.api.isin([claim.api])[rows]]
    if not len(rows):
        return EMPTY
    observed = Labels.of(process.events["ret"][rows], _dtype(process))
    known = ~observed.isin([""])
    rows, observed = rows[known], observed.take(known)
    context = call_context(process, rows)
    kept = {name: context[name] for name in ("autocast", "stage", "backward", "rank", "root", "module")}
    return Examples(
        observed.isin([claim.dtype]),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        kept,
        observed,
    )


def _loss_rows(process: Process) -> Ints:
    names = [name for name in process.api.values if vocabulary.is_loss(name)]
    scalar = ~np.isnan(process.events["value"]) | ((process.events["flags"] & fmt.NONFINITE_RESULT) != 0)
    return vocabulary.without_metrics(process, np.flatnonzero(process.is_call & process.api.isin(names) & scalar))


def _finite(process: Process, position: int) -> Examples:
    rows = _loss_rows(process)
    holds = (process.events["flags"][rows] & fmt.NONFINITE_RESULT) == 0
    context = call_context(process, rows)
    return Examples(
        np.asarray(holds, dtype=bool),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"stage": context["stage"], "rank": context["rank"]},
    )


def _stay_finite(process: Process, position: int) -> Examples:
    """One example for each step of an optimizer, and one for each parameter that is not finite any more, though nobody
    may have looked at it just before.
    """
    events, variables = process.events, Variables.of(process)
    changes = np.flatnonzero((events["kind"] == fmt.CHANGE) & (events["new"] == fmt.NONFINITE))
    changes = changes[np.isin(events["subject"][changes], variables.ids("parameter"))]
    before = variables.state(events["subject"][changes].astype(np.int64), events["seq"][changes].astype(np.int64) - 1)
    changes = changes[np.isin(before, (fmt.ZERO, fmt.NONZERO))]
    steps = np.array([step.row for step in process.steps], dtype=np.int64)
    rows = np.concatenate([steps, changes])
    return Examples(
        np.arange(len(rows)) < len(steps),
        np.full(len(rows), position),
        rows,
        np.concatenate([np.zeros(len(steps), dtype=np.int64), events["subject"][changes].astype(np.int64)]),
        {"rank": rank_label(process, len(rows))},
    )
