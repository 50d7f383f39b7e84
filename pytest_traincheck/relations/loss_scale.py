"""LossScale: what `backward` starts from, as a fixed multiple of what the loss functions returned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from pytest_traincheck.looks import LATER, LOSSES, TERMS, Looks
from pytest_traincheck.relations import vocabulary
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.meaning import Change, Deviation, Excuse, Meaning, Place
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints, Labels, among

SUBJECT = "torch.autograd.backward"
TOLERANCE = 1e-3
"""Relative: half precision and the order of summation stay inside, a changed divisor does not."""
EXACT = 5e-5
"""Relative spread in golden: a fixed multiple is one to the last digits, where a small second term makes none."""

Normalisation = Literal["mean", "kept", "targets", "sum"]
PER: Mapping[Normalisation, str] = {
    "mean": "the mean that the loss function returned",
    "kept": "the loss averaged over the targets that are not ignored",
    "targets": "the loss averaged over all targets",
    "sum": "the loss summed over all targets",
}


@dataclass(frozen=True)
class Multiple(Claim):
    """A backward pass starts from this multiple of a normalisation of the losses."""

    per: Normalisation
    factor: float


@dataclass(frozen=True)
class Together(Claim):
    """Losses that weigh so much each make no more than a whole before a step."""

    share: float


class LossScale:
    """The number that a backward pass starts from is always the same multiple of the losses that were computed since
    the backward pass before: 1 for a plain mean, 1/4 under accumulation over four micro-batches, one over the number
    of targets where sums are divided by hand.

    It holds where one kind of loss is all there is; where other terms are added, golden shows no fixed multiple and
    nothing is claimed.

    Where all losses before a step weigh 1/4, no more than four go backward before one, in later steps too. Fewer may,
    at the end of an epoch; and as many more as their divisor has grown.
    """

    name = "LossScale"
    looks: ClassVar[Looks] = frozenset({LOSSES, TERMS, LATER})
    claims: ClassVar[tuple[type[Claim], ...]] = (Multiple, Together)

    def layer(self, claim: Multiple | Together) -> int:
        return 2

    def meaning(self, rule: Invariant[Multiple | Together]) -> Meaning:
        # What a loss function returns when it is called or given something differently, or batches of another size, is
        # in another proportion to what is differentiated.
        comes_with = frozenset({Change.LOSS_INPUT, Change.BATCHES})
        return Meaning(Place.LOSS, comes_with=comes_with, excuse=Excuse.OWN_RESULT)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            table = multiples(process)
            for per in PER:
                ratios = table.ratio.get(per, np.empty(0))
                ratios = ratios[np.isfinite(ratios)]
                if len(ratios) >= 2 and np.ptp(ratios) <= EXACT * abs(float(np.median(ratios))):
                    factor = _rounded(float(np.median(ratios)))
                    yield Hypothesis(
                        self.name, SUBJECT, Multiple(per, factor), scope=Scope.PINNED, family=f"loss {per}"
                    )
            if share := _common_share(process):
                yield Hypothesis(self.name, SUBJECT, Together(share), scope=Scope.PINNED)

    def examples(self, claim: Multiple | Together, run: Run) -> Examples:
        processes = enumerate(run.processes)
        if isinstance(claim, Together):
            return Examples.concatenate([_in_steps(process, number, claim) for number, process in processes])
        return Examples.concatenate([_examples(process, number, claim) for number, process in processes])

    def sentence(self, claim: Multiple | Together, subject: str, when: str) -> str:
        if isinstance(claim, Together):
            most, share = round(1 / claim.share), _spoken(claim.share)
            return f"At most {most} losses that weigh {share} go backward before a step{when}."
        return f"`backward` starts from {_multiple(claim)}{when}."

    def finding(self, invariant: Invariant[Multiple | Together], run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        if isinstance(claim, Together):
            return _too_many(claim, examples, broken)
        seen = examples.observed[int(broken[0])] if examples.observed is not None else "another number"
        first = run.processes[int(examples.process[int(broken[0])])] if len(broken) else run.processes[0]
        passes = len(multiples(first).rows) / max(first.windows, 1)
        averaged = passes > 1 and math.isclose(claim.factor * round(passes), 1.0, rel_tol=TOLERANCE)
        why = f", which averaged over the {round(passes)} micro-batches that a step accumulates" if averaged else ""
        now = f"from {seen} times that" if claim.factor == 1 else f"the factor is {seen}"
        return Finding(
            f"In the golden run `backward` started from {_multiple(claim)}{why}; in the candidate {now}: the loss is "
            "scaled or normalised differently.",
            _multiple(claim),
            f"{seen} times",
            value=seen,
        )


class Multiples:
    """Rows of backward passes, and by normalisation the ratio of what they start from to the losses before them."""

    def __init__(self, rows: Ints, ratio: Mapping[str, npt.NDArray[np.float64]]) -> None:
        self.rows = rows
        self.ratio = ratio


def _multiple(claim: Multiple) -> str:
    times = "" if claim.factor == 1 else f"{_spoken(claim.factor)} times "
    return f"{times}{PER[claim.per]}"


def _spoken(factor: float) -> str:
    inverse = 1 / factor if factor else 0.0
    if abs(inverse) > 1.5 and math.isclose(inverse, round(inverse), rel_tol=TOLERANCE):
        return f"1/{round(inverse)}"
    return f"{factor:.4g}"


def _rounded(factor: float) -> float:
    """Four digits, so that golden files do not change with the last bits; the simple fraction next to it if close."""
    inverse = 1 / factor if factor else 0.0
    if math.isclose(factor, round(factor), rel_tol=TOLERANCE / 4) and round(factor):
        return float(round(factor))
    if math.isclose(inverse, round(inverse), rel_tol=TOLERANCE / 4) and round(inverse):
        return 1 / round(inverse)
    return float(f"{factor:.4g}")


def _close(ratios: npt.NDArray[np.float64], factor: float) -> Bools:
    return np.asarray(np.isclose(ratios, factor, rtol=TOLERANCE, atol=0.0), dtype=bool)


def _doubled(ratios: npt.NDArray[np.float64]) -> Bools:
    """Which are powers of two, and not 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.log2(ratios)
    return np.asarray((np.abs(power - np.round(power)) < TOLERANCE) & (np.round(power) != 0), dtype=bool)


def _in_later_steps(process: Process, rows: Ints) -> Bools:
    stretch = process.raw.stretch
    seq = process.events["seq"][rows]
    return np.zeros(len(rows), dtype=bool) if stretch is None else np.asarray(seq > stretch.head_end)


def _by_call(process: Process, name: str) -> Mapping[int, float]:
    rows = process.measures(name)
    events = process.events
    return dict(zip(events["parent"][rows].tolist(), events["value"][rows].tolist(), strict=True))


def _loss_calls(process: Process) -> Ints:
    """Outermost calls of loss functions that a backward pass could start from.

    The inner loss of meta-learning is used up: by `torch.autograd.grad`, which was given that very number, or inside a
    transform such as `torch.func.grad`, where its number is not known.
    """
    names = {name for name in process.api_names if vocabulary.is_loss(name)}
    rows = np.flatnonzero(process.is_call & process.api.isin(names))
    rows = vocabulary.without_metrics(process, rows[~process.inside("function", "autograd")[rows]])
    events = process.events
    value = events["value"][rows]
    summed = events["parent"][process.measures("loss.sum")]
    known = np.isfinite(value) | ((events["flags"][rows] & fmt.NONFINITE_RESULT) != 0)
    used_up = np.isin(value, events["value"][process.measures("grad.root")])
    return np.asarray(rows[(known & ~used_up) | np.isin(events["seq"][rows], summed)])


def _passes(process: Process) -> Ints:
    """Rows of backward passes. `torch.autograd.grad`, in meta-learning or a penalty, is none: it leaves the losses for
    the one that comes.
    """
    rows = process.rows_of_type("autograd")
    return np.asarray(rows[~process.inside("autograd")[rows] & process.api.isin([SUBJECT])[rows]])


def multiples(process: Process, *, later: bool = False) -> Multiples:
    """`later`: also in steps that are only followed, of which it is not known what a scaler makes of a loss."""

    def compute() -> Multiples:
        events = process.events
        roots, unscaled = _by_call(process, "backward.root"), _by_call(process, "scaler.unscaled")
        if later and not len(process.rows_of_type("scaler")):
            roots = {**_by_call(process, "later.loss"), **roots}
        backward = _passes(process)
        losses = _losses(process)
        scales = process.rows_of_type("scaler")
        scales = scales[among(events["seq"][scales], np.array([*unscaled], dtype=np.uint32))]
        scaled = [unscaled[seq] for seq in events["seq"][scales].tolist()]
        terms = _by_call(process, "loss.terms.fine")
        lines = dict(zip(events["seq"][backward].tolist(), events["src"][backward].tolist(), strict=True))
        by_line = {lines[seq]: count for seq, count in terms.items() if seq in lines}
        rows: list[int] = []
        ratio: dict[str, list[float]] = {per: [] for per in PER}
        # What was computed since the backward pass before lies between two places of these tables.
        of_loss, of_scale = (np.searchsorted(table, backward).tolist() for table in (losses.rows, scales))
        seqs = events["seq"][backward].tolist()
        first, first_scale = 0, 0
        for row, seq, last, last_scale in zip(backward.tolist(), seqs, of_loss, of_scale, strict=True):
            root = scaled[last_scale - 1] if last_scale > first_scale else roots.get(seq, math.nan)
            # A sum of n terms holds n losses at most: those before them were evaluated for their numbers.
            summands = int(terms.get(seq, by_line.get(lines[seq], 0) if later else 0)) or last
            mine = slice(max(first, last - summands), last)
            first, first_scale = last, last_scale
            if mine.start == last or not math.isfinite(root):
                continue
            rows.append(row)
            for per, parts in losses.totals.items():
                total = 0.0
                for part in parts[mine]:  # not `sum`, whose last digit depends on the version of Python
                    total += part
                ratio[per].append(root / total if total else math.nan)
        return Multiples(np.array(rows, dtype=np.int64), {per: np.array(values) for per, values in ratio.items()})

    return process.memo(f"loss ratios {later}", compute)


@dataclass(frozen=True)
class _Steps:
    """The optimizer steps before which each backward pass has a known multiple of its losses, all of the same one."""

    rows: Ints
    """The first backward pass of each."""
    passes: Ints
    share: npt.NDArray[np.float64]


def _steps(process: Process) -> _Steps:
    def compute() -> _Steps:
        table = multiples(process, later=True)
        backward = _passes(process)
        ratios = np.full(len(backward), np.nan)
        ratios[np.searchsorted(backward, table.rows)] = table.ratio["mean"]
        ends = np.sort(np.array([step.end for step in process.steps], dtype=np.int64))
        before = np.searchsorted(ends, process.events["seq"][backward].astype(np.int64))
        taken = before < len(ends)
        backward, ratios, before = backward[taken], ratios[taken], before[taken]
        _, first, passes = np.unique(before, return_index=True, return_counts=True)
        if not len(first):
            return _Steps(first, passes, ratios)
        # NaN where any is not known, which no spread is close to.
        low, high = np.minimum.reduceat(ratios, first), np.maximum.reduceat(ratios, first)
        same = (high - low) <= EXACT * np.abs(high)
        return _Steps(backward[first[same]], passes[same], high[same])

    return process.memo("losses before steps", compute)


def _common_share(process: Process) -> float:
    """What each loss weighs where those before every step make a whole, or, as at the end of an epoch, less; else 0."""
    steps = _steps(process)
    most = int(steps.passes.max(initial=0))
    whole = steps.passes == most
    if most < 2 or np.count_nonzero(whole) < 2 or not np.allclose(steps.share * most, 1.0, rtol=TOLERANCE / 4, atol=0):
        return 0.0
    return 1 / most


def _in_steps(process: Process, position: int, claim: Together) -> Examples:
    steps = _steps(process)
    mine = _close(steps.share, claim.share)
    rows, passes = steps.rows[mine], steps.passes[mine]
    return Examples(
        np.asarray(passes <= round(1 / claim.share)),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"rank": rank_label(process, len(rows))},
        Labels.of(np.arange(len(passes)), [str(count) for count in passes.tolist()]),
    )


def _too_many(claim: Together, examples: Examples, broken: Ints) -> Finding:
    most, share = round(1 / claim.share), _spoken(claim.share)
    seen = examples.observed[int(broken[0])] if examples.observed is not None else "more"
    weigh = f", which together weigh {int(seen) * claim.share:.4g}" if seen.isdecimal() else ""
    return Finding(
        f"In the golden run no more than {most} losses that weigh {share} each went backward before a step; in the "
        f"candidate {seen} do{weigh}: gradients add up over more batches than the loss is divided by.",
        f"at most {most} losses of {share}",
        f"{seen} losses of {share}",
        value=seen,
        deviation=Deviation.EXTRA,
    )


@dataclass(frozen=True)
class _Losses:
    """Calls of loss functions in order, and each of them by each way of dividing it."""

    rows: Ints
    totals: Mapping[Normalisation, list[float]]


def _losses(process: Process) -> _Losses:
    events, rows = process.events, _loss_calls(process)
    (targets, _), (kept, _), (sums, summed) = (
        _looked_up(process, rows, f"loss.{name}") for name in ("targets", "kept", "sum")
    )
    value = events["value"][rows].astype(np.float64)
    means = [(symbol.get("values") or {}).get("reduction", "mean") != "sum" for symbol in process.raw.symbols["args"]]
    mean = np.array(means, dtype=bool)[events["args"][rows]]
    total = np.where(summed, sums, np.where(mean, value * kept, value))
    with np.errstate(divide="ignore", invalid="ignore"):
        by_kept, by_targets = (np.where(count == 0, np.nan, total / count) for count in (kept, targets))
    of_mean = np.where(mean & ~summed, value, np.nan)
    columns = {"mean": of_mean, "sum": total, "kept": by_kept, "targets": by_targets}
    return _Losses(rows, {per: columns[per].tolist() for per in PER})


def _looked_up(process: Process, calls: Ints, name: str) -> tuple[npt.NDArray[np.float64], Bools]:
    """The number that a measure has for each of some calls, NaN without one, and whether there is one."""
    events, rows = process.events, process.measures(name)
    rows = rows[np.argsort(events["parent"][rows], kind="stable")]
    parents, seq = events["parent"][rows], events["seq"][calls]
    place = np.searchsorted(parents, seq, side="right") - 1
    known = np.append(parents, np.uint32(0))[place] == seq
    return np.where(known, np.append(events["value"][rows], np.nan)[place], np.nan), known


def _examples(process: Process, position: int, claim: Multiple) -> Examples:
    table = multiples(process)
    ratios = table.ratio.get(claim.per, np.empty(0))
    known = np.isfinite(ratios)
    if claim.factor > 1:
        # What a loss is scaled by grows as training goes on: behind a resume it may have been doubled.
        known &= ~(_in_later_steps(process, table.rows) & _doubled(ratios / claim.factor))
    rows, ratios = table.rows[known], ratios[known]
    if not len(rows):
        return EMPTY
    texts = [_spoken(_rounded(float(value))) if value else "0" for value in ratios.tolist()]
    return Examples(
        _close(ratios, claim.factor),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"first_step": Labels.flags(process.window[rows] == 0), "rank": rank_label(process, len(rows))},
        Labels.of(np.arange(len(texts)), texts),
    )
