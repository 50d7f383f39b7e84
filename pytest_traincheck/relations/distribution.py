"""How the initial values of parameters are distributed, in words that need no band: evenly between two bounds or with
tails, at right angles, with one row of zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pytest_traincheck.relations.base import Finding, listed
from pytest_traincheck.relations.beginnings import First, Shape
from pytest_traincheck.relations.claims import Items, Natural
from pytest_traincheck.rules.claims import Claim

MOST = 64
"""Names in a claim."""
Distribution = Literal["even", "with tails", "orthogonal"]
_OPPOSITE: Mapping[Distribution, Shape] = {
    "even": "with tails",
    "with tails": "even",
    "orthogonal": "not orthogonal",
}
_WORDS: Mapping[Shape, str] = {
    "even": "lie evenly between two bounds",
    "with tails": "are drawn with tails",
    "orthogonal": "stand at right angles",
    "not orthogonal": "do not stand at right angles",
}
_WERE: Mapping[Distribution, str] = {
    "even": "lay evenly between two bounds",
    "with tails": "were drawn with tails",
    "orthogonal": "stood at right angles",
}
_HINTS: Mapping[Distribution, str] = {
    "even": "a normal distribution instead of a uniform one",
    "with tails": "a uniform distribution instead of a normal one",
    "orthogonal": "they are drawn one by one",
}


@dataclass(frozen=True)
class BeginsDistributed(Claim):
    """Parameters of a model, whose names have a `*` for each number, are drawn from a sort of distribution."""

    begins: Literal["distributed"] = field(default="distributed", init=False)
    root: str
    names: Annotated[tuple[str, ...], Items(1, MOST)]
    how: Distribution


@dataclass(frozen=True)
class BeginsWithEmptyRow(Claim):
    """One row of a parameter is zero and no other, as that of padding."""

    begins: Literal["empty row"] = field(default="empty row", init=False)
    root: str
    name: str
    row: Natural


def distributions(items: Iterable[tuple[str, str, First]]) -> Iterator[BeginsDistributed | BeginsWithEmptyRow]:
    """What may be claimed of parameters, given their root, the pattern of their name and their first look."""
    shapes: dict[tuple[str, str], frozenset[Shape]] = {}
    rows: dict[tuple[str, str], set[int | None]] = {}
    for root, name, item in items:
        shapes[root, name] = shapes.get((root, name), item.shape) & item.shape
        rows.setdefault((root, name), set()).add(item.zero_row)
    for how in _OPPOSITE:
        by_root: dict[str, list[str]] = {}
        for (root, name), shape in sorted(shapes.items()):
            if how in shape:
                by_root.setdefault(root, []).append(name)
        for root, names in by_root.items():
            if len(names) <= MOST:
                yield BeginsDistributed(root, tuple(names), how)
    for (root, name), found in rows.items():
        row = next(iter(found))
        if len(found) == 1 and row is not None and row >= 0:
            yield BeginsWithEmptyRow(root, name, row)


def places(claim: BeginsDistributed | BeginsWithEmptyRow, items: Iterable[tuple[str, str, First]]) -> dict[First, bool]:
    """Whether a claim holds, for each parameter that it is about and of which it is clear."""
    found = {}
    for root, name, item in items:
        if root != claim.root:
            continue
        if isinstance(claim, BeginsWithEmptyRow):
            if name == claim.name and item.zero_row is not None:
                found[item] = item.zero_row == claim.row
        elif name in claim.names and item.shape & {claim.how, _OPPOSITE[claim.how]}:
            found[item] = claim.how in item.shape
    return found


def observed(claim: BeginsDistributed | BeginsWithEmptyRow, item: First) -> str:
    """What a parameter begins with, in words."""
    if isinstance(claim, BeginsDistributed):
        return _WORDS[_OPPOSITE[claim.how]]
    return "no single row is zero" if item.zero_row == -1 else f"row {item.zero_row} is"


def said(claim: BeginsDistributed | BeginsWithEmptyRow) -> str:
    """What a rule says."""
    if isinstance(claim, BeginsDistributed):
        whose = "rows or columns" if claim.how == "orthogonal" else "elements"
        return f"The {whose} of {listed(claim.names)} of `{claim.root}` {_WORDS[claim.how]} at the beginning"
    return f"Row {claim.row} of `{claim.name}` of `{claim.root}` is zero at the beginning, and no other"


def finding(claim: BeginsDistributed | BeginsWithEmptyRow, names: str, seen: str) -> Finding:
    if isinstance(claim, BeginsDistributed):
        whose = "rows or columns" if claim.how == "orthogonal" else "elements"
        return Finding(
            f"In the golden run the {whose} of {names} {_WERE[claim.how]} at the beginning; in the candidate they "
            f"{seen}: {_HINTS[claim.how]}.",
            f"they {_WORDS[claim.how]}",
            f"they {seen}",
        )
    return Finding(
        f"In the golden run row {claim.row} of {names} was zero at the beginning, and no other; in the candidate "
        f"{seen}: it is drawn like the others, or another one is set.",
        f"row {claim.row} is zero",
        seen,
    )
