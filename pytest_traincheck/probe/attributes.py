"""Plain attributes of modules: numbers, texts, flags and short tuples that somebody has set on them, and small tensors.

They are what a module computes with beside its parameters (a rate of dropout, a scale, a flag that says that adapters
are merged), and whoever has the module can change them. Read are the entries of its `__dict__`, so that no property and
no code of the user's runs.

They are looked at before steps; at the beginning of an evaluation that follows a step, or calls a model that was not
there before; and where models are saved and loaded, tensors only there: what is no parameter and no buffer is in no
state.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from . import digest as content
from . import summary
from .context import Call, ThreadState, quiet, unobservable
from .core import native
from .modules import ModuleInfo, Modules
from .switches import Switches
from .symbols import Symbols

if TYPE_CHECKING:
    from .measures import Measures

STEPS = 32
"""Optimizer steps (of the optimizer that has taken most) before which attributes are looked at."""
EVALUATIONS = 32
"""Evaluations at the beginning of which they are looked at."""
STATES = 32
"""How often they are looked at where something is saved or loaded."""
SEEN = "attributes.seen"
"""Name of the measure that says that an evaluation begins before which they were looked at."""
STORED = "attributes.stored"
"""The same of a call that saves or loads."""
MODULES = 1000
"""Modules whose attributes are looked at; what is behind them is left."""
_NUMBERS = frozenset({bool, int, float})
_KINDS = frozenset({bool, int, float, str, tuple, type(None)})
_RATES = frozenset({float})
_ITEMS = 8
_LETTERS = 40
"""Items of the longest tuple, and characters of the longest text, that are values and not data."""
_ELEMENTS = 4096
"""Elements of the largest tensor that is looked at."""
_PLACES = frozenset({"cpu", "cuda", "mps", "xpu", "meta"})
"""Names of devices: which there are is up to the machine."""


class Attributes(Switches):
    """Writes symbols of kind `attribute`: the first values of each module, and later what has changed."""

    def __init__(self, symbols: Symbols, modules: Modules, *, wanted: bool = True) -> None:
        self._symbols = symbols
        self._modules = modules
        self._looks: dict[int, int] = {}
        self._looks_left = STEPS if wanted else 0
        self._evaluations_left = EVALUATIONS if wanted else 0
        self._states_left = STATES if wanted else 0
        self._evaluated = (0, 0)
        self._steps = 0

    def look(self, optimizer: int, seq: int) -> None:
        """Look at the attributes of all modules, before a step of an optimizer that begins at `seq`."""
        self._steps += 1
        looks = self._looks[optimizer] = self._looks.get(optimizer, 0) + 1
        if looks <= self._looks_left:
            self._look(seq)

    @property
    def evaluated(self) -> bool:
        """Whether nothing is looked at any more when a model is called without gradients."""
        return self._evaluations_left <= 0

    def evaluate(self, state: ThreadState, call: Call, measures: Measures) -> None:
        """Look at them when a model is called without gradients, once after each step, and after new models."""
        now = (self._steps, self._modules.generation)
        if not self._steps or now == self._evaluated or self._evaluations_left <= 0:
            return
        self._evaluated = now
        self._evaluations_left -= 1
        self._look(call.seq)
        measures.take(state, SEEN, call)

    def stored(self, state: ThreadState, call: Call, measures: Measures) -> None:
        """Look at them, and at tensors, when models are saved or were loaded."""
        if self._states_left <= 0 or unobservable():
            return
        self._states_left -= 1
        self._look(call.seq)
        measures.take(state, STORED, call)
        for info in self._modules.known()[:MODULES]:
            module = info.ref()
            if module is None or info.wrapper or not (info.root or info.mod):
                continue
            with quiet(state):
                found = _tensors(module.__dict__)
            fresh = {name: hashed for name, hashed in found.items() if info.tensors.get(name) != hashed}
            info.tensors = found
            if fresh:
                info.told = self._modules.mod(info)
                self._symbols.new("attribute", {"mod": info.told, "values": {}, "tensors": fresh, "seq": call.seq})

    def _look(self, seq: int) -> None:
        known = self._modules.known()
        if native is not None and native.same_attributes(known, MODULES):
            return
        for info in known[:MODULES]:
            module = info.ref()
            # What was never called and holds no tensors has no name that would come again.
            if module is None or info.wrapper or not (info.root or info.mod):
                continue
            if info.told and info.told != info.mod:
                info.plain, info.tensors, info.entries, info.told = {}, {}, -1, 0
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
            info.told = self._modules.mod(info)
            self._symbols.new("attribute", {"mod": info.told, "values": values, "seq": seq})


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


def _tensors(entries: dict[str, Any]) -> dict[str, str]:
    """Small tensors that a module holds as plain attributes, by name: hashes of their content. Call under `quiet()`."""
    found = {}
    for name, value in list(entries.items()):
        if type(value) is torch.Tensor and name[:1] != "_" and 0 < value.numel() <= _ELEMENTS:
            readable = content.local(value)
            if readable is not None and readable.layout is torch.strided:
                found[name] = f"{content.digest(readable):x}"
    return found


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
