"""The module tree as a heat map of deviations: the model in front, its parts behind it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from pytest_traincheck.check.result import ModuleAgreement
from pytest_traincheck.report.pictures.picture import Key, Picture, Table
from pytest_traincheck.report.pictures.svg import CHARACTER, drawing, element, fitted, group, rect, text
from pytest_traincheck.text import one_line, plural

_WIDTH, _COLUMN, _ROW = 880.0, 240.0, 26.0
_ENOUGH, _ROWS = 24, 40
"""Rows beyond which more is folded, and beyond which the rest is left to the table."""
_DEPTH, _DEEPEST = 5, 8
"""Levels of a drawing where nothing deviates, and where something does."""
DEVIATES, DRIFTED, SAME, UNKNOWN = "deviates", "drifted", "same", "not comparable"
_WORST = (DEVIATES, DRIFTED, SAME, UNKNOWN)


@dataclass
class _Node:
    path: str
    name: str
    found: ModuleAgreement | None = None
    parts: list[_Node] = field(default_factory=list)
    folded: int = 0
    """Modules that it stands for, where it is no single one."""

    def all(self) -> Iterator[ModuleAgreement]:
        if self.found is not None:
            yield self.found
        for part in self.parts:
            yield from part.all()

    @property
    def status(self) -> str:
        """Its own; of one that was not called itself, that some part deviates, or else the best of its parts."""
        if self.found is not None:
            return self.found.status
        known = {item.status for part in self.parts for item in part.all()}
        return next((status for status in (DEVIATES, SAME, DRIFTED) if status in known), UNKNOWN)

    @property
    def off(self) -> float:
        return max((item.off for item in self.all() if item.status in (DEVIATES, DRIFTED)), default=0.0)

    @property
    def height(self) -> int:
        return sum(part.height for part in self.parts) or 1


def tree(modules: Sequence[ModuleAgreement]) -> Picture | None:
    """The heat map; None where no module was compared. `modules` are in the order of their first calls."""
    if not modules:
        return None
    start = begins(modules)
    roots = _folded(modules, start)
    counts = {status: sum(item.status == status for item in modules) for status in _WORST}
    levels = max(map(_levels, roots))
    return Picture(
        "modules",
        "Which module computes something else first?",
        _answer(counts, start, modules),
        (_draw(roots, levels, start, counts),),
        _table(modules, start),
        tuple(
            Key(class_, meaning)
            for class_, meaning, shown in (
                ("p-same", "the same", counts[SAME]),
                ("p-drifted", "within rounding", counts[DRIFTED]),
                ("p-off-2", "deviates, the darker the further", counts[DEVIATES]),
                ("p-unknown", "not comparable", counts[UNKNOWN]),
            )
            if shown
        ),
        wide=True,
    )


def begins(modules: Sequence[ModuleAgreement]) -> str:
    """The first module that deviates though none within it does; empty where none deviates."""
    off = [item.path for item in modules if item.status == DEVIATES]
    return next((path for path in off if not any(other.startswith(f"{path}.") for other in off)), "")


def _nodes(modules: Sequence[ModuleAgreement]) -> list[_Node]:
    roots: list[_Node] = []
    by_path: dict[str, _Node] = {}
    for item in modules:
        siblings = roots
        for path in _above(item.path):
            if path not in by_path:
                by_path[path] = _Node(path, path.rpartition(".")[2])
                siblings.append(by_path[path])
            siblings = by_path[path].parts
        by_path[item.path].found = item
    return roots


def _folded(modules: Sequence[ModuleAgreement], start: str) -> list[_Node]:
    """The trees with as many levels as there are rows for."""
    roots: list[_Node] = []
    for depth in range(_DEPTH, 1, -1):
        roots = _nodes(modules)
        for root in roots:
            _fold(root, 1, depth, start)
        if sum(root.height for root in roots) <= _ENOUGH:
            break
    return roots


def _fold(node: _Node, level: int, depth: int, start: str) -> None:
    """Fold what lies too deep, and neighbours of which nothing is to be said; never what deviates."""
    kept: list[_Node] = []
    for part in node.parts:
        found = list(part.all())
        quiet = not any(item.status == DEVIATES for item in found) or level >= _DEEPEST
        alike = len({item.status for item in found}) <= 1
        _fold(part, level + 1, depth, start)
        if quiet and part.parts and (alike or level + 1 >= depth):
            below = len(found) - (part.found is not None)
            part.folded, part.parts = len(found), []
            part.name = f"{part.name} and {plural(below, 'part')}"
        last = kept[-1] if kept else None
        if quiet and last is not None and last.folded and last.status == part.status and part.folded:
            last.folded += part.folded
            last.name = f"{last.folded} modules"
        else:
            kept.append(part)
    node.parts = kept


def _levels(node: _Node) -> int:
    return 1 + max((_levels(part) for part in node.parts), default=0)


def _answer(counts: dict[str, int], start: str, modules: Sequence[ModuleAgreement]) -> str:
    total = sum(counts.values())
    if not counts[DEVIATES]:
        drifted = f", {counts[DRIFTED]} of them within rounding" if counts[DRIFTED] else ""
        known = total - counts[UNKNOWN]
        rest = (
            f" {plural(counts[UNKNOWN], 'module')} had other inputs and cannot be compared." if counts[UNKNOWN] else ""
        )
        if not known:
            return f"None can be compared: {plural(total, 'module')} had other inputs than in the golden run."
        return f"None: {known} of {plural(total, 'module')} return what they returned in the golden run{drifted}.{rest}"
    off = next(item.off for item in modules if item.path == start)
    return (
        f"`{one_line(start)}`, which is {share(off)} off though its inputs are golden's. {counts[DEVIATES]} of "
        f"{plural(total, 'module')} deviate{'s' * (counts[DEVIATES] == 1)}."
    )


def share(off: float) -> str:
    """ "0.02 %", "4 %", "infinitely far"."""
    if not math.isfinite(off):
        return "infinitely far"
    return f"{100 * off:.2g} %" if off < 10 else f"{off:.2g} times"


def heat(node_status: str, off: float) -> str:
    """The class of a cell."""
    if node_status == DEVIATES:
        return f"p-off-{1 + (off >= 1e-3) + (off >= 0.03) + (off >= 0.3)}"
    return {DRIFTED: "p-drifted", SAME: "p-same"}.get(node_status, "p-unknown")


def _draw(roots: Sequence[_Node], levels: int, start: str, counts: dict[str, int]) -> Markup:
    column = min(_COLUMN, _WIDTH / levels)
    width = column * levels
    parts: list[Markup] = []
    row = 0
    for root in roots:
        parts += _cells(root, 0, row, column, levels, start)
        row += root.height
    shown = min(row, _ROWS)
    said = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    more = (
        [text(f"and {row - shown} more rows, in the table below", 0, shown * _ROW + 16, "p-tick")]
        if row > shown
        else []
    )
    return drawing(
        width,
        shown * _ROW + (24 if more else 2),
        "Tree of modules",
        f"The model at the left, its parts to the right of it: {said}."
        + (f" The first that deviates is {one_line(start)}." if start else ""),
        *(part for part in parts if part),
        *more,
    )


def _cells(node: _Node, level: int, row: int, column: float, levels: int, start: str) -> Iterator[Markup]:
    height = node.height
    if row < _ROWS:
        leaf = not node.parts
        x, y = level * column, row * _ROW
        width = (column * (levels - level) if leaf else column) - 2
        rows = min(height, _ROWS - row)
        first = bool(start) and (node.path == start or (leaf and start.startswith(f"{node.path}.")))
        class_ = heat(node.status, node.off) + (" p-start" if first else "")
        said = f"{one_line(node.path)}: {node.status}" + (f", {share(node.off)} off" if node.off else "")
        note = "starts here" if first else ""
        amount = share(node.off) if node.status == DEVIATES and node.off else ""
        note = f"{amount}, {note}" if amount and note else amount or note
        tall = rows > 1 and not leaf
        label = fitted(one_line(node.name), width - 16 - (len(note) * CHARACTER + 8 if note and not tall else 0))
        noted = (x + 9, y + 1.5 * _ROW, "start") if tall else (x + width - 7, y + _ROW / 2 + 4, "end")
        yield group(
            [
                element("title", said),
                rect(x + 1, y + 1, width, rows * _ROW - 2, class_, radius=3),
                text(label, x + 9, y + _ROW / 2 + 4, "p-cell"),
                *([text(note, noted[0], noted[1], "p-cell p-strong", noted[2])] if note else []),
            ]
        )
    for part in node.parts:
        yield from _cells(part, level + 1, row, column, levels, start)
        row += part.height


def _table(modules: Sequence[ModuleAgreement], start: str) -> Table:
    """Parents before their parts, siblings in order of their first call."""
    order: dict[str, int] = {}
    for place, item in enumerate(modules):
        for path in _above(item.path):
            order.setdefault(path, place)

    def key(path: str) -> list[int]:
        return [order[part] for part in _above(path)]

    rows = []
    for item in sorted(modules, key=lambda item: key(item.path)):
        off = "" if item.status in (SAME, UNKNOWN) else share(item.off)
        rows.append((item.path, item.status, off, str(item.calls), "starts here" if item.path == start else ""))
    return Table(("module", "result", "off", "calls", ""), tuple(rows))


def _above(path: str) -> list[str]:
    """A path and those of all that it is a part of, the model first."""
    parts = path.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
