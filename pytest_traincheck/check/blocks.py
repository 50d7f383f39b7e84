"""Changed files cut into blocks of changed lines, with the functions and statements that they lie in."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

CONTEXT = 3
"""Unchanged lines before and after a change, as in any unified diff."""

MAX_LINES = 40
"""Longest hunk that is kept for an incident."""

MAX_WIDTH = 300
"""Longest line of a hunk, in characters."""

EXACT_LINES = 2000
"""Files up to this length are compared line by line; longer ones without their most frequent lines."""


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
    """One file in both trees, and how it changed. `path` is that in the candidate's tree."""

    def __init__(self, path: str, old: str, new: str) -> None:
        self.path = path
        self.old = _lines(old)
        self.new = _lines(new)
        self._texts = old, new

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Changes that are more than blank lines and comments, in order."""
        codes = self._matcher.get_opcodes()
        changed = [Block(i1, i2, j1, j2) for tag, i1, i2, j1, j2 in codes if tag != "equal"]
        return tuple(block for block in changed if any(map(_is_code, self.removed(block) + self.added(block))))

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
    def _tree(self) -> ast.Module | None:
        return _parse(self._texts[1])

    @cached_property
    def _new_spans(self) -> tuple[Span, ...]:
        return tuple(_spans(self._tree)) if self._tree else ()

    @cached_property
    def _old_spans(self) -> tuple[Span, ...]:
        tree = _parse(self._texts[0])
        return tuple(_spans(tree)) if tree else ()

    def _statement(self, line: int) -> tuple[int, int]:
        """First and last line of the innermost statement at a line; of a compound one its header only."""
        around = [(line, line)]
        for node in ast.walk(self._tree) if self._tree else ():
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
        group = next(
            group
            for group in self._matcher.get_grouped_opcodes(CONTEXT)
            if any((i1, j1) == (block.i1, block.j1) and tag != "equal" for tag, i1, _, j1, _ in group)
        )
        lines: list[str] = []
        focus = 0
        for tag, i1, i2, j1, j2 in group:
            if (i1, j1) == (block.i1, block.j1) and tag != "equal":
                focus = len(lines)
            if tag == "equal":
                lines += [" " + line for line in self.old[i1:i2]]
            else:
                lines += ["-" + line for line in self.old[i1:i2]] + ["+" + line for line in self.new[j1:j2]]
        first = max(0, min(focus - CONTEXT, len(lines) - MAX_LINES))
        shown = lines[first : first + MAX_LINES]
        begin_old = group[0][1] + sum(line[0] != "+" for line in lines[:first])
        begin_new = group[0][3] + sum(line[0] != "-" for line in lines[:first])
        head = f"@@ -{_range(begin_old, shown, '+')} +{_range(begin_new, shown, '-')} @@"
        return "\n".join([head, *(line[:MAX_WIDTH] for line in shown)]), focus - first + 1


def _range(begin: int, lines: Sequence[str], other: str) -> str:
    """`first,count` of a hunk's header, for the side whose lines do not begin with `other`."""
    count = sum(line[0] != other for line in lines)
    # An empty range is named by the line before it.
    return f"{begin + 1 if count else begin},{count}"


def _lines(text: str) -> list[str]:
    """Lines as Python counts them; `str.splitlines` would also split at form feeds and Unicode's separators."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _is_code(line: str) -> bool:
    text = line.strip()
    return bool(text) and not text.startswith("#")


def _parse(text: str) -> ast.Module | None:
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
