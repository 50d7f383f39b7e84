"""Names of roots, variables, modules and optimizers of one process, as rules use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_traincheck.optimizer_label import label_of
from pytest_traincheck.trace.reader import RawTrace


@dataclass(frozen=True)
class Names:
    """Tables indexed by symbol id; entry 0 is empty.

    A root is named by its class, with `#1`, `#2` from the second root of that class on. An optimizer is named by its
    class and
    the roots whose parameters it holds, e.g. `AdamW[TinyGPT]`.
    """

    roots: tuple[str, ...]
    variables: tuple[str, ...]
    modules: tuple[str, ...]
    optimizers: tuple[str, ...]


def build_names(
    raw: RawTrace, roots: Mapping[str, str] | None = None, optimizers: Mapping[str, str] | None = None
) -> Names:
    """Names as written by the process, or as the golden calls them where `roots` and `optimizers` map them."""
    root_names = tuple((roots or {}).get(name, name) for name in _number(raw.symbols["root"], "name"))
    variables = [""]
    for symbol in raw.symbols["var"][1:]:
        variables.append(_variable_name(symbol, root_names))
    modules = [""]
    for symbol in raw.symbols["mod"][1:]:
        modules.append(_join(root_names[symbol.get("root", 0)], symbol.get("path", "")))
    plain = _optimizer_names(raw, root_names)
    return Names(
        root_names,
        tuple(variables),
        tuple(modules),
        tuple((optimizers or {}).get(name, name) for name in plain),
    )


def _number(symbols: Sequence[Mapping[str, Any]], key: str) -> list[str]:
    counts: dict[str, int] = {}
    by_id: dict[int, str] = {}
    for symbol in sorted(symbols[1:], key=lambda item: (item.get("ordinal", 0), item.get("i", 0))):
        name = symbol.get(key, "")
        if not name:
            continue
        number = counts.get(name, 0)
        counts[name] = number + 1
        by_id[symbol.get("i", 0)] = name if number == 0 else f"{name}#{number}"
    return ["", *(by_id.get(number, "") for number in range(1, len(symbols)))]


def _join(root: str, path: str) -> str:
    return f"{root}.{path}" if root and path else root or path


def _variable_name(symbol: Mapping[str, Any], roots: Sequence[str]) -> str:
    if not symbol:
        return ""
    root = symbol.get("root", 0)
    return _join(roots[root] if root < len(roots) else "", symbol.get("name", ""))


def _optimizer_names(raw: RawTrace, roots: Sequence[str]) -> list[str]:
    held: dict[int, list[str]] = {}
    variables = raw.symbols["var"]
    first_seen: dict[tuple[int, int], bool] = {}
    for group in raw.symbols["group"][1:]:
        key = (group.get("opt", 0), group.get("index", 0))
        if key in first_seen:
            continue  # Only the first shape of a group names the optimizer.
        first_seen[key] = True
        for number in group.get("params", ()):
            name = roots[variables[number].get("root", 0)] if number < len(variables) else ""
            if name and name not in held.setdefault(key[0], []):
                held[key[0]].append(name)
    names = [""]
    counts: dict[str, int] = {}
    for symbol in raw.symbols["opt"][1:]:
        short = str(symbol.get("class", "")).rsplit(".", 1)[-1]
        models = sorted(held.get(symbol.get("i", 0), []))
        name = label_of(short, models)
        number = counts.get(name, 0)
        counts[name] = number + 1
        names.append(label_of(short, models, number))
    return names
