"""The texts of the errors that the package raises, read from its source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ERRORS = frozenset(
    {
        "AcceptError",
        "InitError",
        "UnknownIncidentError",
        "ConfigError",
        "GoldenError",
        "SideError",
        "TraceError",
        "ReportError",
        "CommandError",
        "WorktreeError",
        "BundleError",
        "BisectError",
        "ArtifactsError",
        "ForeignDirectoryError",
        "LinkError",
        "PluginError",
        "ScratchError",
        "PackError",
        "HistoryError",
    }
)
"""Errors that a user reads. `_Place.error` and `_Table.error` build two of them from parts."""


_END = re.compile(r"[.;]\s|: run `|: it was ")


@dataclass(frozen=True)
class Template:
    """One message: where it is raised, and its literal pieces in order, with the values between them left out."""

    place: str
    pieces: tuple[str, ...]

    @property
    def headline(self) -> str:
        """The piece by which a reader would look it up: the longest of what happened, without what to do."""
        first: list[str] = []
        for piece in self.pieces:
            sentence, *rest = _END.split(piece, maxsplit=1)
            first.append(sentence)
            if rest and any(len(part) >= 4 for part in first):
                break
        return max(first, key=len)


def templates(package: Path) -> Iterator[Template]:
    """Every message literal in the modules of `package`, the probe left out: its errors reach the user as one."""
    for path in sorted(package.rglob("*.py")):
        if "probe" in path.relative_to(package).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            argument = _message_argument(node)
            if argument is None:
                continue
            pieces = tuple(piece.strip() for piece in _pieces(argument) if len(piece.strip()) >= 4)
            if pieces:
                yield Template(f"{path.relative_to(package)}:{node.lineno}", pieces)


def _message_argument(call: ast.Call) -> ast.expr | None:
    """The argument that says what happened."""
    function = call.func
    name = (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )
    if name in ERRORS or name == "UsageError":
        return call.args[0]
    if name == "error" and isinstance(function, ast.Attribute):
        # `_Table.error(key, what, remedy)` and `_Place.error(what, remedy)`
        return call.args[1] if len(call.args) == 3 else call.args[0]
    return None


def _pieces(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        for value in node.values:
            yield from _pieces(value)
    elif isinstance(node, ast.BinOp):
        yield from _pieces(node.left)
        yield from _pieces(node.right)
