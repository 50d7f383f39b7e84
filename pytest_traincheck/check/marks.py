"""Statements that leave a trace wherever they run, and the way through a text to one of its lines."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

LAYERS = frozenset(
    f"torch.nn.{name}"
    for name in (
        "Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
        "Embedding", "EmbeddingBag", "RNN", "LSTM", "GRU",
    )
)  # fmt: skip
"""Layers that draw initial values whatever they are given. A normalisation need not have parameters."""

_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)
_MAYBE = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await, ast.Assert, ast.Call)


@dataclass(frozen=True)
class Step:
    """One suite of statements on the way to a line, and the place in it of the statement that the line is in, or is
    in the head of, where the way ends. In the head of a function it ends before the first statement, at -1.
    """

    owner: ast.AST
    suite: Sequence[ast.stmt]
    index: int
    is_last: bool
    part: str = ""
    """Which of its owner's suites it is."""


def lines_of(node: ast.stmt) -> range:
    """The lines of a statement, without its decorators."""
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def way_to(tree: ast.Module, line: int) -> list[Step]:
    """The suites around a line, the outermost first, as far as there are statements at it."""
    steps: list[Step] = []
    owner: ast.AST = tree
    suite: Sequence[ast.stmt] = tree.body
    part = ""
    while True:
        index = next((at for at, node in enumerate(suite) if _first(node) <= line <= lines_of(node)[-1]), None)
        if index is None:
            return steps
        node = suite[index]
        inner = next((found for found in _suites(node) if _holds(found[0], found[1], line)), None)
        steps.append(Step(owner, suite, index, inner is None, part))
        if inner is None:
            return steps
        owner, suite, part = inner
        if line < _first(suite[0]):
            return [*steps, Step(owner, suite, -1, True, part)]


def _first(node: ast.stmt) -> int:
    decorators: Sequence[ast.expr] = getattr(node, "decorator_list", ())
    return min([node.lineno, *(item.lineno for item in decorators)])


def _suites(node: ast.stmt) -> Iterator[tuple[ast.AST, Sequence[ast.stmt], str]]:
    """The suites of a compound statement, each with what it belongs to and which one of that it is."""
    for name in ("body", "orelse", "finalbody"):
        if suite := getattr(node, name, None):
            yield node, suite, name
    for name in ("handlers", "cases"):
        for number, part in enumerate(getattr(node, name, ())):
            yield node, part.body, f"{name} {number}"


def _holds(owner: ast.AST, suite: Sequence[ast.stmt], line: int) -> bool:
    begin = _first(suite[0])
    if isinstance(owner, (ast.FunctionDef, ast.AsyncFunctionDef)):
        # What stands in the head of a function matters when it is called, but for its decorators.
        begin = owner.lineno
    return begin <= line <= lines_of(suite[-1])[-1]


def sure_calls(node: ast.stmt) -> Iterator[tuple[ast.stmt, ast.Call]]:
    """The calls that a statement makes in any case before it is done, each with the simple statement it is in."""
    if isinstance(node, (ast.With, ast.AsyncWith)):
        for inner in node.body:
            yield from sure_calls(inner)
    elif isinstance(node, _SIMPLE):
        for call in _sure(node):
            yield node, call


def _sure(node: ast.AST) -> Iterator[ast.Call]:
    if isinstance(node, _MAYBE):
        return
    if isinstance(node, ast.IfExp):
        yield from _sure(node.test)
        return
    if isinstance(node, ast.BoolOp):
        yield from _sure(node.values[0])
        return
    if isinstance(node, ast.Call):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _sure(child)


def goes_on(node: ast.stmt) -> bool:
    """Whether nothing in a statement can keep the next one from running."""
    return not any(isinstance(part, _LEAVING) for part in ast.walk(node))


def imports_of(tree: ast.Module) -> Mapping[str, str]:
    """What names stand for, as far as the imports of a text say."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                top = item.name.partition(".")[0]
                names[item.asname or top] = item.name if item.asname else top
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names.update({item.asname or item.name: f"{module}.{item.name}" for item in node.names})
    return names


def spelled_out(node: ast.expr, imports: Mapping[str, str]) -> str:
    """A name as `torch.optim.SGD`; empty for what is no plain name or an attribute of a variable."""
    if isinstance(node, ast.Name):
        return imports.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        base = node.value
        while isinstance(base, ast.Attribute):
            base = base.value
        if isinstance(base, ast.Name) and base.id in imports:
            return f"{spelled_out(node.value, imports)}.{node.attr}"
    return ""


def is_optimizer(name: str) -> bool:
    """Whether a name is that of one of torch's optimizers."""
    module, _, last = name.rpartition(".")
    return module == "torch.optim" and last[:1].isupper()


Left = Callable[[ast.stmt], bool]
"""Whether a statement may have left a trace."""
