"""Over how many numbers at a time functions go that choose, sort, add up or weigh along one dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Annotated, Any, Literal

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples, Finding
from pytest_traincheck.relations.claims import Items
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.meaning import Change, Evidence, Meaning, Place, Words
from pytest_traincheck.relations.vocabulary import F
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.trace import Process
from pytest_traincheck.trace.labels import Ints, Labels, pairs_of
from pytest_traincheck.trace.stages import INIT, STAGES, Stage

CHOICE = "choice"
"""The type of calls that choose."""
_WEIGHING = (F + "softmax", F + "log_softmax")
MOST = 4
"""Numbers of which one function has more are up to the data."""


_DOING: Mapping[Stage, str] = {"init": "in set-up", "train": "in training", "eval": "in evaluation"}


@dataclass(frozen=True)
class Along(Claim):
    """A function goes along a dimension of these sizes, in a stage."""

    of: Literal["along"] = field(default="along", init=False)
    api: str
    stage: Stage
    sizes: Annotated[tuple[int, ...], Items(1, MOST)]


def sizes(process: Process) -> Mapping[tuple[str, Stage], Mapping[int, int]]:
    """API and stage -> each size of the dimension that it went along, with the first call."""

    def compute() -> Mapping[tuple[str, Stage], Mapping[int, int]]:
        wanted = process.type_codes.isin([CHOICE]) | process.api.isin(_WEIGHING)
        calls = _known(process, np.flatnonzero(process.is_call & wanted & (process.stage != INIT)))
        first = pairs_of(process.stage[calls], process.events["args"][calls])[2]
        found: dict[tuple[str, Stage], dict[int, int]] = {}
        for row in sorted(calls[first].tolist()):
            values = process.raw.symbols["args"][int(process.events["args"][row])].get("values") or {}
            size = _size(process.api[row], values)
            if size is not None:
                found.setdefault((process.api[row], STAGES[int(process.stage[row])]), {}).setdefault(size, row)
        return found

    return process.memo("sizes along", compute)


def _known(process: Process, calls: Ints) -> Ints:
    """Those that come from lines that made such calls in the first steps; all where nothing but these is there."""
    stretch, events = process.raw.stretch, process.events
    if stretch is None:
        return calls
    key = (events["subject"][calls].astype(np.int64) << 32) + events["src"][calls]
    return calls[np.isin(key, key[events["seq"][calls] <= stretch.head_end])]


def up_to_the_data(process: Process) -> frozenset[tuple[str, Stage]]:
    """APIs and stages in which one line of one module goes over several sizes: sequences are as long as they are."""

    def compute() -> frozenset[tuple[str, Stage]]:
        wanted = process.type_codes.isin([CHOICE]) | process.api.isin(_WEIGHING)
        inner = process.events["mod"] != 0
        calls = np.flatnonzero(process.is_call & wanted & inner & (process.stage != INIT))
        columns = [process.stage[calls], *(process.events[name][calls] for name in ("src", "mod", "args"))]
        _, first = np.unique(np.stack(columns, axis=1), axis=0, return_index=True)
        known: dict[tuple[str, Stage, int, int], int] = {}
        varied: set[tuple[str, Stage]] = set()
        for row in calls[first].tolist():
            values = process.raw.symbols["args"][int(process.events["args"][row])].get("values") or {}
            size, key = _size(process.api[row], values), (process.api[row], STAGES[int(process.stage[row])])
            place = (*key, int(process.events["src"][row]), int(process.events["mod"][row]))
            if size is not None and known.setdefault(place, size) != size:
                varied.add(key)
        return frozenset(varied)

    return process.memo("sizes up to the data", compute)


def examples(process: Process, position: int, claim: Along) -> Examples:
    """One example for a process. It is none where one of the usual numbers never came up, and another one did: a
    further use of a function, or one less, is no change of those that are there. In steps that golden's runs never came
    to, how much is evaluated at once is up to the data, and golden knows nothing of lines that no step had come to.
    """
    if claim.stage == "eval" and process.raw.stretch is not None:
        return EMPTY
    found = sizes(process).get((claim.api, claim.stage))
    if not found:
        return EMPTY
    other = [size for size in found if size not in claim.sizes]
    broken = bool(other) and any(size not in found for size in claim.sizes)
    row = found[other[0]] if broken else next(iter(found.values()))
    return Examples(
        np.array([not broken]),
        np.array([position]),
        np.array([row]),
        np.zeros(1, dtype=np.int64),
        {"rank": rank_label(process, 1)},
        Labels.of(np.zeros(1, dtype=np.int64), (_listing(other[:MOST]) if broken else "as many",)),
    )


def meaning(claim: Along) -> Meaning:
    shown_by = Evidence.TRAINED if claim.stage == "train" else Evidence.NONE
    return Meaning(
        Place.FORWARD, comes_with=frozenset({Change.BATCHES}), shown_by=shown_by, words=Words(words=("dim",))
    )


def said(claim: Along) -> str:
    """What a rule says that the function does."""
    return f"goes over {_listing(claim.sizes)} numbers at a time, {_DOING[claim.stage]}"


def finding(claim: Along, seen: str) -> Finding:
    was = _listing(claim.sizes)
    return Finding(
        f"In the golden run `{claim.api}` went over {was} numbers at a time, {_DOING[claim.stage]}; in the candidate "
        f"it goes over {seen}: along another dimension, or through all rows at once.",
        f"over {was} numbers at a time",
        f"over {seen} numbers at a time",
        value=seen,
    )


def _listing(sizes: Sequence[int]) -> str:
    return " or ".join(map(str, sizes))


def _size(api: str, values: Mapping[str, Any]) -> int | None:
    given, dim = values.get("input"), values.get("dim")
    shape = given.get("tensor", {}).get("shape") if isinstance(given, Mapping) else None
    if not isinstance(shape, list) or "dim" not in values:
        return None
    if dim is None:  # The largest number of a tensor is a matter of checks and of padding, its place is a choice.
        return prod(shape) if "arg" in api else None
    return int(shape[dim]) if type(dim) is int and -len(shape) <= dim < len(shape) else None
