"""Changed code that the candidate never came to, and which therefore is not behind an incident.

Most code leaves no trace when it runs, so that nothing follows from that. A few calls always leave one: `backward`, the
making of an optimizer, and that of a layer which draws its initial values. Where such a call stands and has left none,
neither was it reached nor what can only run behind it. Nothing else is concluded here. What runs on import (decorators,
attributes of a class, its bases) never counts as unreached for want of an object of the class: it may be why there is
none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import takewhile

from pytest_traincheck.check.blocks import Block, ChangedFile, parse
from pytest_traincheck.check.marks import (
    LAYERS,
    Left,
    Step,
    goes_on,
    imports_of,
    is_optimizer,
    lines_of,
    spelled_out,
    sure_calls,
    way_to,
)
from pytest_traincheck.check.ran import Ran

_CLASS = re.compile(r"\bclass\s+(\w+)")
_OF_THE_CLASS = frozenset({"__new__", "__init_subclass__", "__class_getitem__"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Unreached:
    """Answers for one run. `sources` are the texts of the candidate's own files that were imported, by path."""

    def __init__(self, ran: Ran, sources: Mapping[str, str]) -> None:
        self._ran = ran
        self._sources = sources
        self._unused: dict[str, bool] = {}
        self._codes: dict[str, _Code | None] = {}
        self._texts: dict[str, tuple[_Code, _Code | None]] = {}

    def never_ran(self, file: ChangedFile, block: Block) -> bool:
        """Whether no line of a block was reached: nothing that was added, and nothing of what stood there before."""
        if not file.is_python or file.new_tree is None or file.path not in self._ran.imported:
            return False
        added, removed = file.added_code(block), file.removed_code(block)
        new, old = self._both(file)
        if not all(new.unreached(line) or self._of_new_class(file, block, line) for line in added):
            return False
        if not removed:
            return True
        if old is None or file.old_tree is None:
            return False
        # What stood at the same place of the same suite would not have been reached either.
        at_all = bool(added) and new.unreached(added[0])
        place = _suite_of(file.new_tree, added[0], lambda line: line) if at_all else ()
        suites = (_suite_of(file.old_tree, line, file.now_at) for line in removed if not old.unreached(line))
        return all(_begins(suite, place) for suite in suites)

    def _both(self, file: ChangedFile) -> tuple[_Code, _Code | None]:
        """The candidate's text of a file, and golden's."""
        if file.path not in self._texts:
            new = _Code(self, file.new_tree or ast.Module([], []), self._left(file.path))
            known = new.classes
            old = _Code(self, file.old_tree, self._left_before(file), known) if file.old_tree else None
            self._texts[file.path] = new, old
        return self._texts[file.path]

    def _of_new_class(self, file: ChangedFile, block: Block, line: int) -> bool:
        """Whether a line is of a class that came with the block and that nothing uses or is told of."""
        trees = (file.new_tree or ast.Module([], []), file.old_tree or ast.Module([], []))
        new, old = ({node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)} for tree in trees)
        return any(
            block.j1 < lines_of(node)[0] <= line <= lines_of(node)[-1] <= block.j2
            and not (node.decorator_list or node.keywords or name in old)
            and self.unused(name)
            for name, node in new.items()
        )

    def _left(self, path: str) -> Left:
        lines = self._ran.lines.get(path, frozenset())
        return lambda statement: not lines.isdisjoint(lines_of(statement))

    def _left_before(self, file: ChangedFile) -> Left:
        """The same for statements of golden's text. Those that are no more, or changed, may have left anything."""
        lines = self._ran.lines.get(file.path, frozenset())

        def left(statement: ast.stmt) -> bool:
            now = {file.now_at(line) for line in lines_of(statement)}
            return 0 in now or not lines.isdisjoint(now)

        return left

    @cached_property
    def backward_shows(self) -> bool:
        """Whether `backward` leaves its trace at the call: the user has no method of this name that stands between."""
        own = any(re.search(r"def backward\(\s*self\b", text) for text in self._sources.values())
        return not own and "backward" not in self._ran.functions

    def unused(self, name: str) -> bool:
        """Whether no object was ever made of a class, of none of those with this name."""
        if name not in self._unused:
            self._unused[name] = False  # While it is looked into: a class may make objects of itself.
            found = list(self._defined(name))
            self._unused[name] = bool(found) and not any(self._was_made(*where) for where in found)
        return self._unused[name]

    def _defined(self, name: str) -> Iterator[tuple[str, _Code, ast.ClassDef]]:
        for path in self._class_files.get(name, ()):
            if (code := self._code(path)) is not None:
                yield from ((path, code, node) for node in code.class_definitions if node.name == name)

    @cached_property
    def _class_files(self) -> Mapping[str, frozenset[str]]:
        """Where the classes of each name are, if not in a comment: looked for once, since few are asked about."""
        found: dict[str, set[str]] = {}
        for path, text in self._sources.items():
            for name in _CLASS.findall(text):
                found.setdefault(name, set()).add(path)
        return {name: frozenset(paths) for name, paths in found.items()}

    def _code(self, path: str) -> _Code | None:
        if path not in self._codes:
            tree = parse(self._sources[path])
            self._codes[path] = None if tree is None else _Code(self, tree, self._left(path))
        return self._codes[path]

    def _was_made(self, path: str, code: _Code, node: ast.ClassDef) -> bool:
        """Whether an object of a class may have been made: it was seen, or its making need not leave anything."""
        seen = node.name in self._ran.classes or self._left(path)(node)
        return seen or not code.making_shows(node)


class _Code:
    """One text of a file, with what its statements have left. `known` are the classes that are still there."""

    def __init__(self, told: Unreached, tree: ast.Module, left: Left, known: frozenset[str] | None = None) -> None:
        self._told = told
        self._tree = tree
        self._left = left
        self._known = known

    @cached_property
    def class_definitions(self) -> tuple[ast.ClassDef, ...]:
        return tuple(node for node in ast.walk(self._tree) if isinstance(node, ast.ClassDef))

    @cached_property
    def classes(self) -> frozenset[str]:
        """Names of all classes."""
        return frozenset(node.name for node in self.class_definitions)

    @cached_property
    def _imports(self) -> Mapping[str, str]:
        return imports_of(self._tree)

    def unreached(self, line: int) -> bool:
        """Whether a line, counted from 1, was not reached.

        In a class layers count for the class as a whole alone: some loaders of checkpoints make them without values.
        """
        within: ast.ClassDef | None = None
        layers, guarded = True, False
        for step in way_to(self._tree, line):
            if isinstance(step.owner, ast.ClassDef):
                within, layers = step.owner, False
            elif isinstance(step.owner, _FUNCTIONS):
                guarded = False
                if within is not None and _takes_object(step.owner) and self._is_unused(within):
                    return True
                within = None
            guarded = guarded or (isinstance(step.owner, ast.Try) and step.suite is step.owner.body)
            if self._cut_off(step, layers=layers, guarded=guarded):
                return True
        return False

    def _is_unused(self, node: ast.ClassDef) -> bool:
        return (self._known is None or node.name in self._known) and self._told.unused(node.name)

    def _cut_off(self, step: Step, *, layers: bool, guarded: bool) -> bool:
        """Whether a statement of a suite cannot have run, since one that runs with it has left no trace."""
        if any(self._lacks(node, layers=layers) for node in step.suite[: max(step.index, 0)]):
            return True
        if guarded or not step.is_last:
            # Where errors are caught, what comes later may be missing because of this very line.
            return False
        for node in step.suite[max(step.index, 0) :]:
            if self._lacks(node, layers=layers):
                return True
            if not goes_on(node):
                return False
        return False

    def _lacks(self, node: ast.stmt, *, layers: bool) -> bool:
        """Whether a statement should have left a trace and has not."""
        return any(self._shows(call, layers=layers) and not self._left(inner) for inner, call in sure_calls(node))

    def _shows(self, call: ast.Call, *, layers: bool) -> bool:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
            return self._told.backward_shows
        name = spelled_out(call.func, self._imports)
        if is_optimizer(name) or (layers and name in LAYERS):
            return True
        last = name.rpartition(".")[2]
        return bool(last) and self._told.unused(last)

    def making_shows(self, node: ast.ClassDef) -> bool:
        """Whether objects of a class cannot be made without a trace within its text."""
        makers = [item for item in node.body if isinstance(item, _FUNCTIONS) and item.name == "__init__"]
        optimizes = any(is_optimizer(spelled_out(base, self._imports)) for base in node.bases)
        return any(
            self._shows(call, layers=True) or (optimizes and ast.unparse(call.func) == "super().__init__")
            for maker in makers
            for statement in takewhile(_does_not_return, maker.body)
            for _, call in sure_calls(statement)
        )


def _suite_of(tree: ast.Module, line: int, now_at: Callable[[int], int]) -> tuple[tuple[int, str], ...]:
    """The suites that a line is in, each by the candidate's line of what it belongs to; 0 where that has changed."""
    owners = [(getattr(step.owner, "lineno", None), step.part) for step in way_to(tree, line)]
    return tuple((0 if number is None else now_at(number), part) for number, part in owners)


def _begins(suites: Sequence[tuple[int, str]], with_these: Sequence[tuple[int, str]]) -> bool:
    """Whether the innermost of some suites is in these."""
    kept = all(number for number, _ in with_these[1:])
    return bool(with_these) and kept and tuple(suites[: len(with_these)]) == tuple(with_these)


def _takes_object(node: ast.AST) -> bool:
    """Whether a method is called on an object of its class, and not on the class itself."""
    decorators = {ast.unparse(item) for item in getattr(node, "decorator_list", ())}
    return decorators.isdisjoint({"staticmethod", "classmethod"}) and getattr(node, "name", "") not in _OF_THE_CLASS


def _does_not_return(node: ast.stmt) -> bool:
    return not any(isinstance(part, ast.Return) for part in ast.walk(node))
