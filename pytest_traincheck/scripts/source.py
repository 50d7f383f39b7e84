"""One Python file, parsed, and the questions that are asked of it."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pytest_traincheck.scripts.model import UNKNOWN

LARGEST = 2**20
"""Bytes of the largest file that is read."""


@dataclass(frozen=True, eq=False)
class Source:
    """A file at `path`, relative to the top of the tree, with `/`."""

    path: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Everything in it."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        """The calls in it."""
        return tuple(node for node in self.nodes if isinstance(node, ast.Call))

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """The classes at its top level, by name."""
        return {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """The functions at its top level, by name."""
        return {node.name: node for node in self.tree.body if isinstance(node, ast.FunctionDef)}

    @cached_property
    def imported(self) -> dict[str, str]:
        """The names that imports bind, each with what it stands for: `nn` -> `torch.nn`; own ones begin with a dot."""
        found: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    found[alias.asname or alias.name.partition(".")[0]] = alias.name
            elif isinstance(node, ast.ImportFrom):
                start = "." * node.level + (node.module or "")
                for alias in node.names:
                    joint = "" if start.endswith(".") or not start else "."
                    found[alias.asname or alias.name] = f"{start}{joint}{alias.name}"
        return found

    @cached_property
    def libraries(self) -> frozenset[str]:
        """The first parts of what it imports."""
        return frozenset(name.partition(".")[0] for name in self.imported.values() if not name.startswith("."))

    @cached_property
    def main(self) -> ast.If | None:
        """`if __name__ == "__main__":`."""
        for node in self.tree.body:
            if isinstance(node, ast.If) and any(
                isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test)
            ):
                return node
        return None

    def place(self, node: ast.AST) -> str:
        """`train.py:41`."""
        return f"{self.path}:{getattr(node, 'lineno', 0)}"


def read(root: Path, path: str) -> Source | None:
    """The file, or None for one that cannot be read or is no Python of today."""
    try:
        place = root / path
        if not place.is_file() or place.stat().st_size > LARGEST:
            return None
        with warnings.catch_warnings():
            # Of invalid escapes in other people's texts.
            warnings.simplefilter("ignore")
            return Source(path, ast.parse(place.read_bytes()))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def dotted(node: ast.AST) -> str:
    """The name that an expression spells: `torch.nn.Linear`; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def called(call: ast.Call) -> str:
    """The last part of the name of what is called: `add_argument`."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def literal(node: ast.AST | None) -> object:
    """The value that an expression spells out, or `UNKNOWN`."""
    if node is None:
        return UNKNOWN
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return UNKNOWN


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The argument of a call that has this name."""
    return next((item.value for item in call.keywords if item.arg == name), None)


def text_of(node: ast.AST | None) -> str:
    """The text that an expression is, or nothing."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def outside_functions(nodes: list[ast.stmt]) -> Iterator[ast.AST]:
    """What runs as soon as a file is: everything but the bodies of functions and classes."""
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        waiting: list[ast.AST] = [node]
        while waiting:
            found = waiting.pop()
            yield found
            waiting += [
                child
                for child in ast.iter_child_nodes(found)
                if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda))
            ]
