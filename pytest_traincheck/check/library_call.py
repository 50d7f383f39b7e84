"""The call into a library that is nearest to an incident."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_traincheck.check.result import Incident, Violation
from pytest_traincheck.trace import Run
from pytest_traincheck.trace.process import Process

_MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class LibraryCall:
    """A callable of the library, and how it was found."""

    api: str
    how: str
    """`is the subject`, `is around the place`, `is called there` or `is the model`."""
    source: str = ""


def library_call(incident: Incident, run: Run | None, modules: Collection[str], cwd: Path) -> LibraryCall | None:
    """The nearest call into a library whose top-level modules are given; None where none is known.

    Looked at are, in this order: what the rule is about; the calls that were open around the place; the statement of
    the user's that led there, in a file below `cwd`; the model.
    """
    root = incident.cause
    subject = root.invariant.subject
    if _top(subject) in modules and "." in subject:
        return LibraryCall(subject, "is the subject", root.source)
    for process in _processes(root, run):
        for name in _enclosing(process, root.seq):
            if _top(name) in modules:
                return LibraryCall(name, "is around the place", root.source)
    called = _called_in_source(root.source, modules, cwd)
    if called:
        return LibraryCall(called, "is called there", root.source)
    for process in _processes(root, run):
        model = _class_of(process, root)
        if _top(model) in modules:
            return LibraryCall(model, "is the model", root.source)
    return None


def _top(name: str) -> str:
    return name.partition(".")[0]


def _processes(root: Violation, run: Run | None) -> list[Process]:
    if run is None:
        return []
    return [process for process in run.processes if not root.ranks or process.rank in root.ranks]


def _enclosing(process: Process, seq: int) -> Iterator[str]:
    """Names of the call with this number and of those around it, the innermost first."""
    row = int(process.row_at(seq))
    while row >= 0:
        yield str(process.api.values[process.api.codes[row]])
        row = int(process.parent_row[row])


def _class_of(process: Process, root: Violation) -> str:
    """The class of the module at the place or, without one, of the model whose variables are meant."""
    wanted = root.module or next((name.partition(".")[0] for name in root.variables), "")
    for number, symbol in enumerate(process.raw.symbols["mod"]):
        if number < len(process.names.modules) and process.names.modules[number] == wanted and wanted:
            return str(symbol.get("class", ""))
    return ""


def _called_in_source(source: str, modules: Collection[str], cwd: Path) -> str:
    """The library's callable that the statement at `FILE:LINE` calls, as far as names in that file tell."""
    name, _, line = source.rpartition(":")
    path = cwd / name
    try:
        if not name or not path.resolve().is_relative_to(cwd.resolve()) or path.stat().st_size > _MAX_BYTES:
            return ""
        tree = ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return ""
    meanings = _meanings(tree)
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and line.isdecimal() and node.lineno <= int(line) <= (node.end_lineno or 0)
    ]
    # The call that begins last is the one that the line is in; of several on one line, the outermost.
    for node in sorted(calls, key=lambda call: (-call.lineno, call.col_offset)):
        meant = _resolved(node.func, meanings)
        if _top(meant) in modules:
            return meant
    return ""


def _meanings(tree: ast.Module) -> dict[str, str]:
    """What names of a file stand for: imported things, and what was made by calling them.

    One name in two functions may mean two things; the last one wins, which is good enough for a hint.
    """
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or _top(alias.name)] = alias.name if alias.asname else _top(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for _ in range(2):
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                meant = _resolved(node.value.func, found)
                for target in node.targets:
                    if isinstance(target, ast.Name) and meant:
                        found.setdefault(target.id, meant)
    return found


def _resolved(node: ast.expr, meanings: dict[str, str]) -> str:
    """`trainer.train` as `transformers.Trainer.train`; empty for what does not begin with a known name."""
    if isinstance(node, ast.Name):
        return meanings.get(node.id, "")
    if isinstance(node, ast.Call):
        return _resolved(node.func, meanings)
    if isinstance(node, ast.Attribute):
        inner = _resolved(node.value, meanings)
        return f"{inner}.{node.attr}" if inner else ""
    return ""
