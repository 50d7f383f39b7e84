"""Observing functions that are written in Python, in place: the same function object, in its own frame.

A function keeps its identity, its frame and its line numbers; only its code object is exchanged for one that tells a
hook when it begins and when it ends. What looks at its caller's frame (`warnings.warn(stacklevel=)`,
`torch.jit.script`, `inspect.stack`) sees the frames that it would see without the probe, and nesting is no deeper.

The new code is compiled from the function's own source, with a statement before its body and one after it. It is used
only where the source, compiled as it stands, gives the very code that the function has: a file that was changed since,
or code that was rewritten by somebody else, is left alone.
"""

from __future__ import annotations

import ast
import functools
import inspect
import tokenize
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from .names import is_user_file

Token = Any
"""What a hook makes of a call that began; `None` where nobody wants to know how it ends."""


class Hooks(NamedTuple):
    """What is told of the calls of one function.

    `enter` gets the arguments (all of them by position, as far as the function names them) and returns a token that is
    no possible result of the function, or `None`. `leave` gets the token and the result, `raised` the token alone.
    """

    enter: Callable[..., Token]
    leave: Callable[[Token, Any], None]
    raised: Callable[[Token], None]


class Portable(functools.partial[Any]):
    """A hook in the code of a function of the user's. Such a function may be pickled by value, with the constants of
    its code: what another process gets of this one does nothing there, and needs nothing.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, ("lambda *_, **__: None",)  # what everybody has


class NotObservable(Exception):
    """A callable that cannot be observed in place. The text says why."""


# No name that a program could write, so none that it could use as well.
_CALL, _RESULT = "@traincheck call", "@traincheck result"
_HOOKS = tuple(f"@traincheck {name}" for name in Hooks._fields)
_TOO_DEEP = "@traincheck too deep"
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_LOOKS_AT_ITSELF = frozenset({"locals", "vars", "dir", "eval", "exec", "f_locals"})
"""Names in a function that may show it the variables that hooks add."""
_FUTURE_FLAGS = 0x1FFE000  # what `from __future__ import` leaves in the flags of a code object


class InPlace:
    """One function of Python's and the two codes that it may have. Raises `NotObservable`."""

    def __init__(self, function: FunctionType, hooks: Hooks) -> None:
        self.function = function
        self.original = function.__code__
        if is_user_file(self.original.co_filename):
            if not _LOOKS_AT_ITSELF.isdisjoint(self.original.co_names):
                raise NotObservable("it looks at its own local variables")
            hooks = Hooks(*(Portable(hook) for hook in hooks))
        self.observed = _filled(_prepared(function), hooks)
        self.plan = function, self.original, self.observed
        """What the compiled core exchanges."""

    def apply(self) -> None:
        self.function.__code__ = self.observed

    def restore(self) -> bool:
        """Give the function its own code back, unless somebody has exchanged it since; true if it was given back."""
        if self.function.__code__ is not self.observed:
            return False
        self.function.__code__ = self.original
        return True


def _qualified(function: FunctionType) -> str:
    """`Class.method`. A decorator may have given the function another one's name."""
    code = function.__code__
    if hasattr(code, "co_qualname"):  # Python 3.11
        return str(code.co_qualname)
    name = function.__qualname__
    return name if name.rpartition(".")[2] == code.co_name else code.co_name


_PREPARED: weakref.WeakKeyDictionary[FunctionType, tuple[CodeType, CodeType]] = weakref.WeakKeyDictionary()
"""Functions that were observed before in this process, with their code and what it was compiled to."""


def _prepared(function: FunctionType) -> CodeType:
    """The code with places for hooks. It is compiled once: a test session may observe hundreds of trainings."""
    code = function.__code__
    before = _PREPARED.get(function)
    if before is not None and before[0] is code:
        return before[1]
    made = _instrumented(code, _qualified(function))
    _PREPARED[function] = code, made
    return made


def _instrumented(code: CodeType, qualified: str) -> CodeType:
    if code.co_flags & _GENERATORS:
        raise NotObservable("a generator or coroutine ends when it is used up, not when it returns")
    definition = _definition(code)
    if not _same(_compiled(definition, code, qualified), code):
        raise NotObservable(f"the source at {code.co_filename}:{code.co_firstlineno} is not that of the running code")
    _add_hooks(definition, code.co_firstlineno)
    return _compiled(definition, code, qualified)


def _filled(made: CodeType, hooks: Hooks) -> CodeType:
    """The code with the hooks in their places."""
    replacing = {**dict(zip(_HOOKS, hooks, strict=True)), _TOO_DEEP: RecursionError}
    return made.replace(
        co_consts=tuple(replacing.get(item, item) if type(item) is str else item for item in made.co_consts)
    )


# The source of a function


@functools.lru_cache(maxsize=64)
def _lines(filename: str) -> list[str]:
    with tokenize.open(filename) as file:
        return file.readlines()


@functools.lru_cache(maxsize=64)
def _imported(filename: str) -> frozenset[str]:
    """The names that a module gets by `import`; to parse all of a large file would take a tenth of a second."""
    found: set[str] = set()
    within = False
    lines = _lines(filename)
    for number, line in enumerate(lines):
        if line[:1] not in _NO_STATEMENT:
            within = line.startswith(("def ", "class ", "async ", "@"))
        if within or not line.lstrip().startswith(("import ", "from ")):
            continue
        for end in range(number + 1, min(number + _LONGEST_STATEMENT, len(lines)) + 1):
            try:
                statement = ast.parse("".join(lines[number:end]).lstrip()).body[0]
            except SyntaxError:
                continue
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                found |= {item.asname or item.name.partition(".")[0] for item in statement.names}
            break
    return frozenset(found)


_NO_STATEMENT = (" ", "\t", "\n", "\r", "#", ")", "]", "}", "")
"""How lines begin that do not end a definition."""


def forget_sources() -> None:
    """Give back the texts of the files that functions were read from."""
    _lines.cache_clear()
    _imported.cache_clear()


def _definition(code: CodeType) -> ast.FunctionDef:
    """The `def` that a code object was compiled from, at the lines and columns where it stands in its file."""
    try:
        lines = _lines(code.co_filename)
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise NotObservable(f"no source: {error}") from None
    first = code.co_firstlineno - 1
    last = _last_line(code)
    if not 0 <= first < len(lines) or last > len(lines):
        raise NotObservable(f"the source {code.co_filename} has no line {last}")
    # The last line that has code may be the first of a statement, or the middle of an expression.
    for end in range(last, min(last + _LONGEST_STATEMENT, len(lines)) + 1):
        try:
            # After so many empty lines it stands where it does in its file. An indented definition is parsed as the
            # body of something, so that its columns stay as they are too.
            before = "\n" * (first - 1) + "if 1:\n" if lines[first][:1].isspace() else "\n" * first
            tree = ast.parse(before + "".join(lines[first:end]))
        except SyntaxError:
            continue
        statement = tree.body[0].body[0] if isinstance(tree.body[0], ast.If) else tree.body[0]
        if not isinstance(statement, ast.FunctionDef) or statement.name != code.co_name:
            break
        return statement
    raise NotObservable(f"no definition of {code.co_name} at {code.co_filename}:{code.co_firstlineno}")


_LONGEST_STATEMENT = 60
"""Lines that a function may have after the last that holds code: the rest of a call, a bracket, a comment."""


def _last_line(code: CodeType) -> int:
    lines = [line for _, _, line in code.co_lines() if line]
    inner = [_last_line(item) for item in code.co_consts if isinstance(item, CodeType)]
    return max((*lines, *inner, code.co_firstlineno))


# Compiling it


def _compiled(definition: ast.FunctionDef, code: CodeType, qualified: str) -> CodeType:
    """The code of a definition with what it stands in: the variables of outer functions, a class."""
    body: list[ast.stmt] = [definition]
    *outer, _ = qualified.split(".")
    if outer and outer[-1] != "<locals>":
        body = [ast.ClassDef(outer[-1], [], [], body, [], **_EXTRA)]
    elif "__class__" in code.co_freevars:
        body = [ast.ClassDef("_", [], [], body, [], **_EXTRA)]
    if code.co_flags & inspect.CO_NESTED:
        free = [ast.Name(name, ast.Store()) for name in code.co_freevars if name != "__class__"]
        known: list[ast.stmt] = [ast.Assign([name], ast.Constant(None)) for name in free]
        no_arguments = ast.arguments([], [], None, [], [], None, [])
        body = [ast.FunctionDef("_", no_arguments, [*known, *body], [], None, **_EXTRA)]
    # The compiler calls what belongs to an imported module in another way than what belongs to an object.
    imports = [ast.Import([ast.alias("_", name)]) for name in sorted(_imported(code.co_filename) & _names(code))]
    module = ast.Module([*imports, *body], [])
    _place(module, definition)
    try:
        made = compile(module, code.co_filename, "exec", flags=code.co_flags & _FUTURE_FLAGS, dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise NotObservable(f"{code.co_filename}:{code.co_firstlineno} does not compile: {error}") from None
    found = next((item for item in _codes(made) if _is_of(item, code)), None)
    if found is None or found.co_freevars != code.co_freevars:
        raise NotObservable(f"{code.co_name} of {code.co_filename} uses variables that its source does not show")
    named: dict[str, Any] = {"co_qualname": code.co_qualname} if hasattr(code, "co_qualname") else {}  # Python 3.11
    return found.replace(**named)


def _place(node: ast.AST, definition: ast.FunctionDef) -> None:
    """Give what stands around a definition a place, as the compiler asks for: the first line. What is within has one,
    and to look through it all, as `ast.fix_missing_locations` does, takes most of the time of an observation.
    """
    for child in ast.iter_child_nodes(node):
        if child is not definition:
            if "lineno" in child._attributes:
                _put(child, 1)
            _place(child, definition)


def _put(node: Any, line: int) -> None:
    node.lineno = node.end_lineno = line
    node.col_offset = node.end_col_offset = 0


_EXTRA: dict[str, Any] = {"type_params": []} if "type_params" in ast.FunctionDef._fields else {}  # Python 3.12


def _names(code: CodeType) -> set[str]:
    return set(code.co_names).union(*(_names(item) for item in code.co_consts if isinstance(item, CodeType)))


def _codes(code: CodeType) -> Iterator[CodeType]:
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield item
            yield from _codes(item)


def _is_of(made: CodeType, code: CodeType) -> bool:
    return made.co_name == code.co_name and made.co_firstlineno == code.co_firstlineno


def _same(made: CodeType, code: CodeType) -> bool:
    """Whether two codes do the same. Their constants are compared one by one: inner functions have long names."""
    return (
        made.co_code == code.co_code
        and made.co_names == code.co_names
        and made.co_varnames == code.co_varnames
        and made.co_cellvars == code.co_cellvars
        and made.co_freevars == code.co_freevars
        and made.co_flags == code.co_flags
        and made.co_argcount == code.co_argcount
        and made.co_posonlyargcount == code.co_posonlyargcount
        and made.co_kwonlyargcount == code.co_kwonlyargcount
        and len(made.co_consts) == len(code.co_consts)
        and all(
            _same(mine, its) if isinstance(mine, CodeType) and isinstance(its, CodeType)
            else type(mine) is type(its) and mine == its
            for mine, its in zip(made.co_consts, code.co_consts, strict=True)
        )
    )  # fmt: skip


# Adding the hooks


def _add_hooks(definition: ast.FunctionDef, line: int) -> None:
    """Rewrite a definition so that hooks are told of its calls::

        try: call = result = enter(...)
        except RecursionError: call = result = None
        try:
            BODY, with `return (result := VALUE)`
            result = None
        finally:
            if call is not None:
                try:
                    if result is call: raised(call)
                    else: leave(call, result)
                except RecursionError: pass

    A program may be so deep in calls that there is no room for a hook: then it is not told, and that is all.
    """
    body = definition.body
    docstring = body[:1] if ast.get_docstring(definition, clean=False) is not None else []
    body = body[len(docstring) :] or [ast.Pass()]
    begin = _constant_call(_HOOKS[0], *_arguments(definition.args))
    both = (ast.Name(_CALL, ast.Store()), ast.Name(_RESULT, ast.Store()))
    unasked = ast.Assign([*both], ast.Constant(None))
    opening = ast.Try([ast.Assign([*both], begin)], [_if_too_deep(unasked)], [], [])
    left = _constant_call(_HOOKS[1], [_load(_CALL), _load(_RESULT)], [])
    failed = _constant_call(_HOOKS[2], [_load(_CALL)], [])
    raising = ast.Compare(_load(_RESULT), [ast.Is()], [_load(_CALL)])
    closing = ast.If(
        ast.Compare(_load(_CALL), [ast.IsNot()], [ast.Constant(None)]),
        [ast.Try([ast.If(raising, [ast.Expr(failed)], [ast.Expr(left)])], [_if_too_deep(ast.Pass())], [], [])],
        [],
    )
    returning = _Returns()
    body = [returning.visit(statement) for statement in body]
    ended = ast.Assign([ast.Name(_RESULT, ast.Store())], ast.Constant(None))
    guarded = ast.Try([*body, ended], [], [], [closing])
    # What is added belongs to the first line: no tool shows it as a line of its own.
    for statement in (opening, ended, closing):
        for node in ast.walk(statement):
            if "lineno" in node._attributes:
                _put(node, line)
    ast.copy_location(guarded, body[0])
    definition.body = [*docstring, opening, guarded]


def _if_too_deep(otherwise: ast.stmt) -> ast.ExceptHandler:
    # A constant, as the hooks are: a module may have a `RecursionError` of its own.
    return ast.ExceptHandler(_constant(_TOO_DEEP), None, [otherwise])


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _constant_call(hook: str, args: list[ast.expr], keywords: list[ast.keyword]) -> ast.expr:
    """A call of a hook, whose place a text takes until the code is made; hidden from the compiler's own check that
    what is called can be called.
    """
    return ast.Call(_constant(hook), args, keywords)


def _constant(name: str) -> ast.expr:
    return ast.IfExp(ast.Constant(name), ast.Constant(name), ast.Constant(name))


def _arguments(given: ast.arguments) -> tuple[list[ast.expr], list[ast.keyword]]:
    args: list[ast.expr] = [_load(item.arg) for item in (*given.posonlyargs, *given.args)]
    if given.vararg is not None:
        args.append(ast.Starred(_load(given.vararg.arg), ast.Load()))
    keywords = [ast.keyword(item.arg, _load(item.arg)) for item in given.kwonlyargs]
    if given.kwarg is not None:
        keywords.append(ast.keyword(None, _load(given.kwarg.arg)))
    return args, keywords


class _Returns(ast.NodeTransformer):
    """Notes what a function returns before it does; functions within have returns of their own."""

    def visit_Return(self, node: ast.Return) -> ast.Return:
        value = node.value or ast.copy_location(ast.Constant(None), node)
        name = ast.copy_location(ast.Name(_RESULT, ast.Store()), value)
        return ast.copy_location(ast.Return(ast.copy_location(ast.NamedExpr(name, value), value)), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node

    def generic_visit(self, node: ast.AST) -> Any:
        # Expressions hold no `return`.
        return node if isinstance(node, ast.expr) else super().generic_visit(node)
