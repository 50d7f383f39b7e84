"""Whether what a loss compares carries gradients on both sides: a target that was to be fixed moves then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples, Finding
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.meaning import Change, Evidence, Meaning, Place, Words
from pytest_traincheck.relations.vocabulary import is_loss
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.trace import Process
from pytest_traincheck.trace.labels import Bools, Ints
from pytest_traincheck.trace.stages import TRAIN

_SIDES = ("input", "target")


@dataclass(frozen=True)
class OneSide(Claim):
    """Of the two tensors that a loss function compares, at most one carries gradients."""

    of: Literal["loss.sides"] = field(default="loss.sides", init=False)
    api: str


def compared(process: Process) -> Mapping[str, tuple[Ints, Bools]]:
    """For each loss function that is given tensors as input and targets its calls in training, and which of them have
    gradients on both sides. Which one is called the target does not matter to a loss that is the same either way.
    """

    def compute() -> Mapping[str, tuple[Ints, Bools]]:
        found: dict[str, tuple[Ints, Bools]] = {}
        training = process.is_call & (process.stage == TRAIN) & ~process.inside("function")
        for api in sorted(filter(is_loss, process.api.values)):
            calls = _known(process, np.flatnonzero(training & process.api.isin([api])))
            used, inverse = np.unique(process.events["args"][calls], return_inverse=True)
            carried = [_carried(process, number) for number in used.tolist()]
            known = np.array([len(sides) == len(_SIDES) for sides in carried], dtype=bool)[inverse]
            both = np.array([all(sides) for sides in carried], dtype=bool)[inverse]
            if known.any():
                found[api] = calls[known], both[known]
        return found

    return process.memo("sides of losses", compute)


def _carried(process: Process, number: int) -> list[bool]:
    values = process.raw.symbols["args"][number].get("values") or {}
    sides = [values.get(name) for name in _SIDES]
    tensors = [each["tensor"] for each in sides if isinstance(each, dict) and "tensor" in each]
    # Classes have no gradients whatever comes.
    return [bool(each.get("requires_grad")) for each in tensors if "float" in str(each.get("dtype"))]


def _known(process: Process, calls: Ints) -> Ints:
    """Of later steps those at lines that called the loss in the first ones: what a further loss compares, which begins
    on the way, golden does not know.
    """
    stretch, events = process.raw.stretch, process.events
    if stretch is None:
        return calls
    lines = events["src"][calls]
    return calls[np.isin(lines, lines[events["seq"][calls] <= stretch.head_end])]


def examples(process: Process, position: int, claim: OneSide) -> Examples:
    """One example for each call of the loss function in training."""
    rows, both = compared(process).get(claim.api, (np.empty(0, dtype=np.int64), None))
    if both is None:
        return EMPTY
    nothing = np.zeros(len(rows), dtype=np.int64)
    return Examples(~both, np.full(len(rows), position), rows, nothing, {"rank": rank_label(process, len(rows))})


def meaning() -> Meaning:
    return Meaning(
        Place.LOSS,
        brings=frozenset({Change.LOSS_INPUT}),
        # What a loss returns is the same: only what is trained shows that gradients have gone another way.
        shown_by=Evidence.TRAINED,
        words=Words(words=("detach", "no_grad", "stop_gradient"), parts=("target", "targets", "teacher")),
    )


def finding(claim: OneSide) -> Finding:
    return Finding(
        f"In the golden run at most one side of what `{claim.api}` compares had gradients; in the candidate input and "
        "target have: a target that was fixed is trained as well (see `detach` and `torch.no_grad`).",
        "gradients on one side",
        "gradients on both sides",
        common_cause=claim.of,
    )
