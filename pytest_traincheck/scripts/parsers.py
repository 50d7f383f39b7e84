"""The options that a script takes, from the calls and classes that declare them.

Four sorts of declarations are read: calls that name options (argparse and what derives from it, click, absl), fields of
data classes that a parser is given, arguments of a function that a parser is given, and fields of classes of libraries
(`frameworks`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from pytest_traincheck.frameworks.built_in import command_lines
from pytest_traincheck.scripts.model import UNKNOWN, Option
from pytest_traincheck.scripts.source import Source, called, dotted, keyword, literal, text_of

_GIVEN_CLASSES = ("ArgumentParser", "Parser", "cli", "CLI", "auto_cli", "parse", "add_arguments", "add_class_arguments")
"""Functions that make options of the fields of a class: `tyro.cli(Args)`, `HfArgumentParser((A, B))`."""
_GIVEN_FUNCTIONS = ("Fire", "CLI", "auto_cli", "cli", "run", "entrypoint")
"""Functions that make options of the arguments of a function: `fire.Fire(main)`, `typer.run(main)`."""
_MARKS = ("command", "wrap")
"""Decorators that do: `@app.command()`, `@pyrallis.wrap()`."""
_DEEPEST = 3


def options_of(sources: Sequence[Source]) -> tuple[Option, ...]:
    """The options that any of these files declares, by name, those of the first ones first."""
    classes = {name: node for source in reversed(sources) for name, node in source.classes.items()}
    found: dict[str, Option] = {}
    for source in sources:
        for option in (*_named(source), *_of_classes(source, classes), *_of_functions(source)):
            found.setdefault(option.name, option)
    return tuple(found.values())


def fields_of(name: str, sources: Sequence[Source]) -> tuple[Option, ...]:
    """The fields of a class of these files."""
    classes = {key: node for source in reversed(sources) for key, node in source.classes.items()}
    return tuple(_fields(classes[name], classes, "", dashes=False)) if name in classes else ()


def _named(source: Source) -> Iterator[Option]:
    """What is declared one by one."""
    for call in source.calls:
        name = called(call)
        if name == "add_argument" or name == "option":
            yield from _declared(call)
        elif name.startswith("DEFINE_") and call.args and (text := text_of(call.args[0])):
            kind = {"integer": "int", "string": "str", "boolean": "bool"}.get(name[7:], name[7:])
            default = literal(call.args[1]) if len(call.args) > 1 else UNKNOWN
            yield Option(text, f"--{text}", default, kind, about=text_of(call.args[2]) if len(call.args) > 2 else "")


def _declared(call: ast.Call) -> Iterator[Option]:
    flags = [text for text in map(text_of, call.args) if text and " " not in text]
    if not flags:
        return
    spelled = next((flag for flag in flags if flag.startswith("--")), flags[-1])
    # click takes `--on/--off` for a switch, and a word without dashes for the name of the variable.
    spelled = spelled.partition("/")[0]
    action = text_of(keyword(call, "action"))
    switch = action.startswith("store_") or literal(keyword(call, "is_flag")) is True
    choices = literal(keyword(call, "choices"))
    default = literal(keyword(call, "default")) if keyword(call, "default") is not None else None
    number = literal(keyword(call, "nargs"))
    named = spelled.startswith("-")
    yield Option(
        spelled.lstrip("-").replace("-", "_"),
        spelled if named else "",
        default,
        "bool" if switch else dotted(keyword(call, "type") or ast.Pass()),
        tuple(map(str, choices)) if isinstance(choices, (list, tuple)) else (),
        literal(keyword(call, "required")) is True or (not named and number not in ("?", "*") and default is None),
        text_of(keyword(call, "help")),
    )


def _of_classes(source: Source, classes: Mapping[str, ast.ClassDef]) -> Iterator[Option]:
    """The fields of classes that a parser is given, own ones and those of libraries."""
    for call in source.calls:
        if not called(call).endswith(_GIVEN_CLASSES):
            continue
        dashes = called(call) == "cli"
        for name in _names_in(call):
            last = name.rpartition(".")[2]
            if last in classes:
                yield from _fields(classes[last], classes, "", dashes=dashes)
            yield from _of_library(source, name, classes)


def _names_in(call: ast.Call) -> list[str]:
    """The classes that a call is given, alone or in a tuple or list."""
    given = [*call.args, *(item.value for item in call.keywords)]
    parts = [part for item in given for part in (item.elts if isinstance(item, (ast.Tuple, ast.List)) else [item])]
    return [name for name in map(dotted, parts) if name]


def _fields(
    node: ast.ClassDef, classes: Mapping[str, ast.ClassDef], prefix: str, *, dashes: bool, depth: int = 0
) -> Iterator[Option]:
    for base in map(dotted, node.bases):
        if base in classes and classes[base] is not node and depth < _DEEPEST:
            yield from _fields(classes[base], classes, prefix, dashes=dashes, depth=depth + 1)
    for item in node.body:
        if not isinstance(item, ast.AnnAssign) or not isinstance(item.target, ast.Name):
            continue
        name, kind = f"{prefix}{item.target.id}", dotted(item.annotation)
        if kind in classes and depth < _DEEPEST:
            yield from _fields(classes[kind], classes, f"{name}.", dashes=dashes, depth=depth + 1)
            continue
        default = item.value
        if isinstance(default, ast.Call) and called(default) == "field":
            default = keyword(default, "default") or keyword(default, "default_factory")
        spelled = name.replace("_", "-") if dashes else name
        yield Option(name, f"--{spelled}", literal(default), kind, required=item.value is None)


def _of_library(source: Source, name: str, classes: Mapping[str, ast.ClassDef]) -> Iterator[Option]:
    """The fields of a class of a library, given by itself or as a base of an own class."""
    own = classes.get(name.rpartition(".")[2])
    names = [name] if own is None else [dotted(base) for base in own.bases]
    for line in command_lines():
        origins = (source.imported.get(item.partition(".")[0], item) for item in names)
        if line.settings and any(
            item.endswith(line.settings) and origin.partition(".")[0] in line.libraries
            for item, origin in zip(names, origins, strict=True)
        ):
            for field, default in line.fields:
                yield Option(field, f"--{field}", default, type(default).__name__)


def _of_functions(source: Source) -> Iterator[Option]:
    for call in source.calls:
        if called(call) in _GIVEN_FUNCTIONS:
            for name in _names_in(call):
                if name in source.functions:
                    yield from _arguments(source.functions[name])
    for function in source.functions.values():
        marks = (called(mark) if isinstance(mark, ast.Call) else "" for mark in function.decorator_list)
        # click gives its options by further decorators, and those have been read.
        if "typer" in source.libraries and any(mark in _MARKS for mark in marks):
            yield from _arguments(function, dashes=True)


def _arguments(function: ast.FunctionDef, *, dashes: bool = False) -> Iterator[Option]:
    arguments = [*function.args.posonlyargs, *function.args.args]
    defaults: list[ast.expr | None] = [None] * (len(arguments) - len(function.args.defaults))
    pairs = zip(
        [*arguments, *function.args.kwonlyargs],
        [*defaults, *function.args.defaults, *function.args.kw_defaults],
        strict=True,
    )
    for argument, default in pairs:
        spelled = argument.arg.replace("_", "-") if dashes else argument.arg
        kind = dotted(argument.annotation) if argument.annotation is not None else ""
        if isinstance(default, ast.Call) and default.args:
            # `typer.Option(8, help=...)`.
            default = default.args[0]
        yield Option(argument.arg, f"--{spelled}", literal(default), kind, required=default is None)
