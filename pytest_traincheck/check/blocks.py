"""Changed files cut into blocks of changed lines, with the functions and statements that they lie in."""

from __future__ import annotations

import ast
import difflib
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

CONTEXT = 3
"""Unchanged lines before and after a change, as in any unified diff."""

MAX_LINES = 40
"""Longest hunk that is kept for an incident."""

MAX_WIDTH = 300
"""Longest line of a hunk, in characters."""

EXACT_LINES = 2000
"""Files up to this length are compared line by line; longer ones without their most frequent lines."""

_HASH_COMMENTS = frozenset({".py", ".pyi", ".toml", ".yaml", ".yml", ".cfg", ".ini", ".sh"})
"""What a line that begins with `#` is a comment in; in a file of data it is a line like any other."""

_Operation = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class Block:
    """Lines `old[i1:i2]` of golden became lines `new[j1:j2]` of the candidate; lines count from 0."""

    i1: int
    i2: int
    j1: int
    j2: int


@dataclass(frozen=True)
class Span:
    """A function, or a compound statement outside any; `begin` and `end` are its first and last line, from 1."""

    name: str
    begin: int
    end: int


class ChangedFile:
    """One file in both trees, and how it changed. `path` is that in the candidate's tree; `renamed` are the golden and
    the candidate name of modules, as an import has them.
    """

    def __init__(self, path: str, old: str, new: str, renamed: Sequence[tuple[str, str]] = ()) -> None:
        self.path = path
        self._renamed = [(re.compile(rf"(?<!\w){re.escape(before)}\b"), after) for before, after in renamed]
        self.old = _lines(old)
        self.new = _lines(new)
        self._texts = old, new

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Changes that are more than layout, comments, docstrings and new names of files, in order."""
        codes = self._matcher.get_opcodes()
        changed = [Block(i1, i2, j1, j2) for tag, i1, i2, j1, j2 in codes if tag != "equal"]
        return tuple(block for block in changed if self._says_otherwise(block))

    def _says_otherwise(self, block: Block) -> bool:
        removed = [self.old[line - 1].rstrip() for line in self.removed_code(block)]
        for before, after in self._renamed:
            removed = [before.sub(after, line) for line in removed]
        added = [self.new[line - 1].rstrip() for line in self.added_code(block)]
        return removed != added and not (self.is_python and _same_program(removed, added))

    @property
    def is_python(self) -> bool:
        return PurePosixPath(self.path).suffix in (".py", ".pyi")

    def removed_code(self, block: Block) -> list[int]:
        """Numbers, from 1, of the removed lines of a block that say anything to an interpreter."""
        numbers = range(block.i1 + 1, block.i2 + 1)
        return [line for line in numbers if self._is_code(self.old[line - 1]) and line not in self._old_docstrings]

    def added_code(self, block: Block) -> list[int]:
        """Numbers, from 1, of the added lines of a block that say anything to an interpreter."""
        numbers = range(block.j1 + 1, block.j2 + 1)
        return [line for line in numbers if self._is_code(self.new[line - 1]) and line not in self._new_docstrings]

    def _is_code(self, line: str) -> bool:
        text = line.strip()
        return bool(text) and not (text.startswith("#") and PurePosixPath(self.path).suffix in _HASH_COMMENTS)

    @cached_property
    def _old_docstrings(self) -> frozenset[int]:
        return _docstrings(self.old_tree) if self.is_python else frozenset()

    @cached_property
    def _new_docstrings(self) -> frozenset[int]:
        return _docstrings(self.new_tree) if self.is_python else frozenset()

    def now_at(self, line: int) -> int:
        """The candidate's number of an unchanged line of golden, both from 1; 0 where it was changed or removed."""
        return self._unchanged.get(line, 0)

    @cached_property
    def _unchanged(self) -> dict[int, int]:
        same = (code for code in self._matcher.get_opcodes() if code[0] == "equal")
        return {i1 + at + 1: j1 + at + 1 for _, i1, i2, j1, _ in same for at in range(i2 - i1)}

    def removed(self, block: Block) -> list[str]:
        return self.old[block.i1 : block.i2]

    def added(self, block: Block) -> list[str]:
        return self.new[block.j1 : block.j2]

    def lost(self, block: Block) -> list[str]:
        """Removed lines that stand nowhere among the added ones: not moved, indented or put under a condition."""
        return [line for line in self.removed(block) if line.strip() not in self._added_texts]

    @cached_property
    def _added_texts(self) -> frozenset[str]:
        return frozenset(line.strip() for block in self.blocks for line in self.added(block))

    def touches(self, block: Block, line: int) -> bool:
        """Whether a change is in the candidate's statement at a line, counted from 1."""
        begin, end = self._statement(line)
        if block.j1 == block.j2:
            return begin <= block.j1 < end  # Lines were removed from inside it.
        return block.j1 < end and block.j2 >= begin

    def in_function(self, block: Block, line: int) -> bool:
        """Whether a change is in the function, or in the loop or branch outside any, that holds a candidate's line."""
        here = _innermost(self._new_spans, line)
        if here is None:
            return False
        if block.j1 < block.j2 and any(_innermost(self._new_spans, at + 1) == here for at in range(block.j1, block.j2)):
            return True
        if here.name:
            names = [_innermost(self._old_spans, at + 1) for at in range(block.i1, block.i2)]
            return any(span is not None and span.name == here.name for span in names)
        return here.begin <= block.j1 <= here.end

    @cached_property
    def _matcher(self) -> difflib.SequenceMatcher[str]:
        # Exact matching is quadratic in lines that repeat, of which a long file of data has many.
        exact = max(len(self.old), len(self.new)) <= EXACT_LINES
        return difflib.SequenceMatcher(None, self.old, self.new, autojunk=not exact)

    @cached_property
    def old_tree(self) -> ast.Module | None:
        """The syntax tree of golden's text; None where it is no Python."""
        return parse(self._texts[0])

    @cached_property
    def new_tree(self) -> ast.Module | None:
        """The syntax tree of the candidate's text; None where it is no Python."""
        return parse(self._texts[1])

    @cached_property
    def _new_spans(self) -> tuple[Span, ...]:
        return tuple(_spans(self.new_tree)) if self.new_tree else ()

    @cached_property
    def _old_spans(self) -> tuple[Span, ...]:
        return tuple(_spans(self.old_tree)) if self.old_tree else ()

    def _statement(self, line: int) -> tuple[int, int]:
        """First and last line of the innermost statement at a line; of a compound one its header only."""
        around = [(line, line)]
        for node in ast.walk(self.new_tree) if self.new_tree else ():
            if isinstance(node, ast.stmt):
                body = getattr(node, "body", None)
                end = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
                if node.lineno <= line <= end:
                    around.append((node.lineno, end))
        return max(around[1:], key=lambda found: (found[0], -found[1]), default=around[0])

    def hunk(self, block: Block) -> tuple[str, int]:
        """The text of the hunk around a block, and the place of the block's first line in it.

        Changes close by are in the same hunk, as `diff -u` has it, as far as `MAX_LINES` allow.
        """
        group = self._group_of(block)
        focus = len(self._marked(group[: next(at for at, code in enumerate(group) if _is_of(code, block))]))
        lines = self._marked(group)
        first = max(0, min(focus - CONTEXT, len(lines) - MAX_LINES))
        shown = lines[first : first + MAX_LINES]
        begin_old = group[0][1] + sum(line[0] != "+" for line in lines[:first])
        begin_new = group[0][3] + sum(line[0] != "-" for line in lines[:first])
        head = f"@@ -{_range(begin_old, shown, '+')} +{_range(begin_new, shown, '-')} @@"
        return "\n".join([head, *(line[:MAX_WIDTH] for line in shown)]), focus - first + 1

    def hunks(self, blocks: Sequence[Block]) -> list[str]:
        """The hunks that hold some blocks, as text; one that is too long is cut around the first of them."""
        firsts = {self._groups.index(self._group_of(block)): block for block in reversed(blocks)}
        return [self.hunk(firsts[place])[0] for place in sorted(firsts)]

    def _group_of(self, block: Block) -> list[_Operation]:
        return next(group for group in self._groups if any(_is_of(code, block) for code in group))

    @cached_property
    def _groups(self) -> list[list[_Operation]]:
        return [list(group) for group in self._matcher.get_grouped_opcodes(CONTEXT)]

    def _marked(self, operations: Sequence[_Operation]) -> list[str]:
        """Lines as a unified diff has them."""
        lines: list[str] = []
        for tag, i1, i2, j1, j2 in operations:
            if tag == "equal":
                lines += [" " + line for line in self.old[i1:i2]]
            else:
                lines += ["-" + line for line in self.old[i1:i2]] + ["+" + line for line in self.new[j1:j2]]
        return lines


def _is_of(operation: _Operation, block: Block) -> bool:
    return operation[0] != "equal" and (operation[1], operation[3]) == (block.i1, block.j1)


def _range(begin: int, lines: Sequence[str], other: str) -> str:
    """`first,count` of a hunk's header, for the side whose lines do not begin with `other`."""
    count = sum(line[0] != other for line in lines)
    # An empty range is named by the line before it.
    return f"{begin + 1 if count else begin},{count}"


def _lines(text: str) -> list[str]:
    """Lines as Python counts them; `str.splitlines` would also split at form feeds and Unicode's separators."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _same_program(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether lines were only laid out in another way, from the same column on."""
    if not old or not new or _indentation(old[0]) != _indentation(new[0]):
        return False
    trees = [parse(textwrap.dedent("\n".join(lines))) for lines in (old, new)]
    one, other = (None if tree is None else ast.dump(tree) for tree in trees)
    return one is not None and one == other


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _docstrings(tree: ast.Module | None) -> frozenset[int]:
    """The lines of texts that stand by themselves."""
    texts = (
        node
        for node in (ast.walk(tree) if tree else ())
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return frozenset(line for node in texts for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))


def parse(text: str) -> ast.Module | None:
    """The syntax tree, or None for what is no Python: a configuration file, or one written for another version."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _spans(tree: ast.Module) -> Iterator[Span]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from _functions(node, "")
        elif getattr(node, "body", None):
            # A script's loop is its function; it has no name, so it is known by its place.
            yield Span("", node.lineno, node.end_lineno or node.lineno)
            for child in ast.walk(node):
                if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield from _functions(child, "")


def _functions(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, prefix: str) -> Iterator[Span]:
    name = f"{prefix}{node.name}"
    if not isinstance(node, ast.ClassDef):
        begin = min([node.lineno, *(item.lineno for item in node.decorator_list)])
        yield Span(name, begin, node.end_lineno or node.lineno)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from _functions(child, f"{name}.")


def _innermost(spans: Sequence[Span], line: int) -> Span | None:
    around = [span for span in spans if span.begin <= line <= span.end]
    return min(around, key=lambda span: span.end - span.begin, default=None)
