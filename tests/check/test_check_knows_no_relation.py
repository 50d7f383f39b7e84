"""What is decided about incidents is decided by types: no relation is known by its name, and no sentence is read."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pytest_traincheck
import pytest_traincheck.check
from pytest_traincheck.relations import builtin

FILES = sorted(Path(pytest_traincheck.check.__file__).parent.glob("*.py"))
HOUSE = Path(pytest_traincheck.__file__).parent
OTHERS = sorted(path for path in HOUSE.rglob("*.py") if not path.is_relative_to(HOUSE / "relations"))
HISTORY = {"golden/format_1.py"}
"""What once stood in a file, which no relation that is added ever changes."""
RELATIONS = {type(item).__module__.rpartition(".")[2]: item.name for item in builtin.relations()}

TEXTS = {"candidate", "title", "golden", "sentence", "value"}
"""Fields of violations and rules that are made for reading."""
READING = {
    "startswith", "endswith", "partition", "rpartition", "split", "rsplit", "removeprefix", "removesuffix", "find",
    "index", "count", "lower", "upper", "strip", "replace",
}  # fmt: skip


def decisions_on_text(source: str) -> list[str]:
    """Places where a program looks into a text that people read, or for words of a sentence."""
    return [ast.unparse(node) for node in ast.walk(ast.parse(source)) if _reads(node)]


def _reads(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READING:
        return _is_text(node.func.value) or any(_is_sentence(item) for item in node.args)
    if isinstance(node, ast.Compare):
        sides = (node.left, *node.comparators)
        within = any(isinstance(kind, (ast.In, ast.NotIn)) for kind in node.ops)
        literal = any(_is_sentence(side) or (isinstance(side, ast.Constant) and side.value) for side in sides)
        return (any(map(_is_text, sides)) and (within or literal)) or any(map(_is_sentence, sides))
    return False


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in TEXTS


def _is_sentence(node: ast.expr) -> bool:
    """A literal of several words, or a tuple with one in it."""
    if isinstance(node, (ast.Tuple, ast.Set, ast.List)):
        return any(map(_is_sentence, node.elts))
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip()


def test_no_relation_is_known_by_name() -> None:
    known = {path.relative_to(HOUSE).as_posix() for path in OTHERS if _literals(path) & set(RELATIONS.values())}
    assert known == HISTORY


def _literals(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_relation_is_asked_itself(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {
        node.module.rpartition(".")[2]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and ".relations." in node.module
    }
    assert not imported & set(RELATIONS), "what a relation means it says in `meaning`"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_sentence_is_read(path: Path) -> None:
    assert not decisions_on_text(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "line",
    [
        'violation.candidate.startswith("never called")',
        '"not finite" in effect.candidate',
        'violation.candidate == "called twice"',
        "violation.title.split()",
        'text in ("called twice", "called many times")',
        'text.startswith(("no call of", UNCHANGED))',
    ],
)
def test_the_scan_finds_what_it_is_for(line: str) -> None:
    assert decisions_on_text(line)


@pytest.mark.parametrize("line", ["violation.deviation is Deviation.NEVER", 'api.startswith("torch.")', "value == 3"])
def test_the_scan_leaves_code_alone(line: str) -> None:
    assert not decisions_on_text(line)
