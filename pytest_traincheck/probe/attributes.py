"""Plain attributes of modules: numbers, texts, flags and short tuples that somebody has set on them.

They are what a module computes with beside its parameters (a rate of dropout, a scale, a flag that says that adapters
are merged), and whoever has the module can change them. Read are the entries of its `__dict__`, so that no property and
no code of the user's runs.
"""

from __future__ import annotations

import math
from typing import Any

from . import summary
from .modules import ModuleInfo, Modules
from .symbols import Symbols

STEPS = 32
"""Optimizer steps (of the optimizer that has taken most) before which attributes are looked at."""
MODULES = 1000
"""Modules whose attributes are looked at; what is behind them is left."""
_NUMBERS = frozenset({bool, int, float})
_KINDS = frozenset({bool, int, float, str, tuple, type(None)})
_RATES = frozenset({float})
_ITEMS = 8
_LETTERS = 40
"""Items of the longest tuple, and characters of the longest text, that are values and not data."""
_PLACES = frozenset({"cpu", "cuda", "mps", "xpu", "meta"})
"""Names of devices: which there are is up to the machine."""


class Attributes:
    """Writes symbols of kind `attribute`: the first values of each module, and later what has changed."""

    def __init__(self, symbols: Symbols, modules: Modules) -> None:
        self._symbols = symbols
        self._modules = modules
        self._looks: dict[int, int] = {}

    def look(self, optimizer: int, seq: int) -> None:
        """Look at the attributes of all modules, before a step of an optimizer that begins at `seq`."""
        looks = self._looks[optimizer] = self._looks.get(optimizer, 0) + 1
        if looks > STEPS:
            return
        for info in self._modules.known()[:MODULES]:
            module = info.ref()
            # What was never called and holds no tensors has no name that would come again.
            if module is None or info.wrapper or not (info.root or info.mod):
                continue
            entries, before = module.__dict__, info.plain
            # Looked at in each of the first steps: as a rule nothing is new, and no value another object.
            if len(entries) == info.entries and all(entries.get(name, self) is value for name, value in before.items()):
                continue
            info.entries = len(entries)
            now = _plain(entries, self._modules.api(info).library == "torch")
            info.plain = now
            fresh = {name: value for name, value in now.items() if name not in before or before[name] != value}
            self._write(info, fresh, seq)

    def _write(self, info: ModuleInfo, changed: dict[str, Any], seq: int) -> None:
        if changed:
            values = {name: summary.from_key(summary.key_of(value)) for name, value in changed.items()}
            self._symbols.new("attribute", {"mod": self._modules.mod(info), "values": values, "seq": seq})


def _plain(entries: dict[str, Any], of_torch: bool) -> dict[str, Any]:
    """What of a module's entries is a value. Of torch's own modules rates alone: sizes show in their parameters, and
    what they do otherwise in the functions that they call.
    """
    return {
        name: value
        for name, value in list(entries.items())
        if type(value) in (_RATES if of_torch else _KINDS)
        and name[:1] != "_"
        and name != "training"
        and _is_plain(value)
        and not (type(value) is str and _names_an_entry(entries, value))
    }


def _names_an_entry(entries: dict[str, Any], text: str) -> bool:
    """Whether a text is the name of an attribute or part of the same module, which somebody may call otherwise."""
    name = text.partition(".")[0]
    held = (entries.get(kind) for kind in ("_modules", "_parameters", "_buffers"))
    return name in entries or any(type(part) is dict and name in part for part in held)


def _is_plain(value: Any) -> bool:
    """Whether something of one of these kinds is a value, and no data or name of a thing of this machine."""
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is str:
        # Paths are up to the machine as well.
        return len(value) <= _LETTERS and "/" not in value and "\\" not in value and value.split(":")[0] not in _PLACES
    return type(value) is not tuple or (len(value) <= _ITEMS and all(type(item) in _NUMBERS for item in value))
