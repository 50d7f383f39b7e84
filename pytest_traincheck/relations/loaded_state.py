"""What of a model's state is a plain attribute, and so in no file: what it was where the model was loaded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_traincheck.trace import Process
from pytest_traincheck.trace.labels import Ints

STORED = "attributes.stored"
"""The measure of a call that saves or loads, before or after which attributes were looked at."""

Named = Mapping[str, tuple[Ints, tuple[str, ...]]]
"""Name below a root -> times at which the value of an attribute was seen to be another, and the values."""


def looked_at(process: Process) -> frozenset[int]:
    """Rows of the calls at which attributes were looked at."""
    rows = process.parent_row[process.measures(STORED)]
    return frozenset(rows[rows >= 0].tolist())


def attributes_of(process: Process, root: str) -> Named:
    """The plain attributes of the modules of a model, tensors among them."""

    def compute() -> Mapping[str, Named]:
        found: dict[str, dict[str, list[tuple[int, str]]]] = {}
        for symbol in process.raw.symbols["attribute"][1:]:
            module = process.raw.symbols["mod"][symbol["mod"]]
            name = process.names.roots[module.get("root", 0)] if module else ""
            path = str(module.get("path", "")) if module else ""
            plain = {key: repr(value) for key, value in symbol["values"].items()}
            for key, text in {**plain, **(symbol.get("tensors") or {})}.items():
                place = f"{path}.{key}" if path else key
                found.setdefault(name, {}).setdefault(place, []).append((symbol["seq"], text))
        return {
            name: {
                place: (np.array([seq for seq, _ in values], dtype=np.int64), tuple(text for _, text in values))
                for place, values in places.items()
            }
            for name, places in found.items()
        }

    return process.memo("attributes beside the state", compute).get(root, {})


def users_modules(process: Process, root: str) -> frozenset[str]:
    """Paths of the modules of a model whose classes are the user's: what a library's keep is not up to them."""
    users = {symbol["name"] for symbol in process.raw.symbols["api"][1:] if symbol.get("library") == "user"}
    return frozenset(
        str(module.get("path", ""))
        for module in process.raw.symbols["mod"][1:]
        if module.get("class") in users and process.names.roots[module.get("root", 0)] == root
    )


def value_at(known: Named, name: str, seq: int) -> str | None:
    """The value that an attribute had at a time; `None` where it was not there."""
    times, values = known.get(name, (np.empty(0, dtype=np.int64), ()))
    place = int(np.searchsorted(times, seq, side="right")) - 1
    return values[place] if place >= 0 else None
