"""Settings that are written `key=value`: those of Hydra and OmegaConf, from YAML files and data classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from pytest_traincheck.frameworks.built_in import command_lines
from pytest_traincheck.scripts.model import Option
from pytest_traincheck.scripts.parsers import fields_of
from pytest_traincheck.scripts.source import LARGEST, Source, called, dotted, keyword, text_of

_OUTPUT = Option("hydra.run.dir", "hydra.run.dir=")
_DEEPEST = 8
_TARGET = "_target_"


@dataclass(frozen=True)
class Keys:
    """The settings of a script, and those whose value for a short run is known."""

    options: tuple[Option, ...]
    settled: tuple[tuple[Option, str], ...] = ()


def hydra_main(source: Source) -> ast.Call | None:
    """`@hydra.main(...)` of a function of this file."""
    for node in source.nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and _origin(source, mark).startswith("hydra.main"):
                    return mark
    return None


def _origin(source: Source, call: ast.Call) -> str:
    first, _, rest = dotted(call.func).partition(".")
    return ".".join(filter(None, (source.imported.get(first, first), rest)))


def of_hydra(root: Path, source: Source, mark: ast.Call, sources: Sequence[Source]) -> Keys:
    """The settings of a script that Hydra starts, each with the value that the files of its configuration give it."""
    path, name = text_of(keyword(mark, "config_path")), text_of(keyword(mark, "config_name"))
    found: dict[str, Any] = {}
    if name:
        folder = (root / source.path).parent / path
        _compose(folder, name.removesuffix(".yaml"), "", found)
        found = found or dict(_stored(sources, name))
    options = tuple(Option(key, f"{key}=", value, type(value).__name__) for key, value in found.items())
    return Keys(options, ((_OUTPUT, "{tmp}"), *_of_trainers(found)))


def _of_trainers(found: Mapping[str, Any]) -> Iterator[tuple[Option, str]]:
    """What makes a trainer short that is made of these settings. Those that they do not name are added with a `+`."""
    for key, value in found.items():
        for line in command_lines():
            if (
                key.endswith(f".{_TARGET}")
                and str(value).endswith(line.trainers)
                and str(value).partition(".")[0] in line.libraries
            ):
                for name, wanted in line.short:
                    own = f"{key.removesuffix(_TARGET)}{name}"
                    yield Option(own, f"{'' if own in found else '+'}{own}="), wanted


def _compose(folder: Path, name: str, package: str, found: dict[str, Any], depth: int = 0) -> None:
    """Enter what a file of the configuration says, and those that its defaults name, as `a.b.c` -> value."""
    content = _yaml(folder / f"{name}.yaml")
    if not isinstance(content, dict) or depth > _DEEPEST:
        return
    for entry in content.get("defaults") or ():
        if isinstance(entry, str) and entry != "_self_":
            _compose(folder, entry.removesuffix(".yaml"), package, found, depth + 1)
        for group, chosen in entry.items() if isinstance(entry, dict) else ():
            word = str(group).split()[-1]
            if isinstance(chosen, str) and not str(group).startswith("override"):
                directory, _, renamed = word.partition("@")
                own = renamed or directory.replace("/", ".")
                place = folder / directory
                _compose(place, chosen.removesuffix(".yaml"), ".".join(filter(None, (package, own))), found, depth + 1)
    _flatten({key: value for key, value in content.items() if key != "defaults"}, package, found)


def _flatten(content: Mapping[Any, Any], prefix: str, found: dict[str, Any]) -> None:
    for key, value in content.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, dict):
            _flatten(value, name, found)
        else:
            found[name] = value


def _yaml(path: Path) -> object:
    """What a file holds; None for one that cannot be read or is none."""
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            return None
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError):
        return None


def _stored(sources: Sequence[Source], name: str) -> Iterator[tuple[str, object]]:
    """The fields of the class that is registered under the name of the configuration."""
    for source in sources:
        for call in source.calls:
            if called(call) == "store" and text_of(keyword(call, "name")) == name:
                for option in fields_of(_class(keyword(call, "node")), sources):
                    yield option.name, option.default


def _class(node: ast.expr | None) -> str:
    """The class that is meant by it, or by a call of it."""
    return "" if node is None else dotted(node.func if isinstance(node, ast.Call) else node)


def of_omegaconf(root: Path, sources: Sequence[Source]) -> Keys | None:
    """The settings of a script that hands its command line to OmegaConf; None where none does."""
    if not any(called(call) == "from_cli" for source in sources for call in source.calls):
        return None
    found: dict[str, Any] = {}
    options: list[Option] = []
    for source in sources:
        for call in source.calls:
            if called(call) == "load" and call.args and text_of(call.args[0]).endswith((".yaml", ".yml")):
                for folder in (root, (root / source.path).parent):
                    content = _yaml(folder / text_of(call.args[0]))
                    _flatten(content if isinstance(content, dict) else {}, "", found)
            if called(call) == "structured" and call.args:
                options += fields_of(_class(call.args[0]), sources)
    options += (Option(key, "", value, type(value).__name__) for key, value in found.items())
    return Keys(tuple(replace(option, spelled=f"{option.name}=") for option in options))
