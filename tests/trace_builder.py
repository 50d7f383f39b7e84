"""Writes traces as `docs/trace-format.md` describes them, without torch: the vocabulary of the analysis tests.

`TraceBuilder` is one process and knows calls and variables; `training_story.py` tells whole training loops with it.
The layout of a row is spelled out here a second time on purpose: reader and writer share only the documented format.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROW = struct.Struct("<BBHIIIIIIIIIHBBIQd")
SKETCH_ROW = struct.Struct("<IIIIIIQ6d")
NAN = float("nan")
RAISED, ENTRY, TRAINING, NONFINITE_RESULT = 1, 2, 4, 8
ABSENT, ZERO, NONZERO, NONFINITE, FALSE, TRUE, VALUE, UNSEEN = range(8)

Shape = tuple[int, ...]


def digest_of(*parts: object) -> int:
    """A content hash that depends on nothing but its arguments."""
    text = "|".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def tensor(*shape: int, dtype: str = "float32", requires_grad: bool = False) -> dict[str, Any]:
    """The summary of a tensor."""
    return {"tensor": {"dtype": dtype, "device": "cpu", "shape": list(shape), "requires_grad": requires_grad}}


@dataclass
class Parameter:
    """One parameter with the variables that track it; a tied name shares the state of the first."""

    name: str
    root: int
    shape: Shape
    variable: int
    flag: int
    gradient: int
    requires_grad: bool
    first: Parameter | None = None

    @property
    def holder(self) -> Parameter:
        """The first name of the same tensor."""
        return self.first or self


@dataclass
class Layer:
    """A layer that calls one function: path below the root, module class, function."""

    path: str
    module: str
    function: str
    args: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0


@dataclass
class Model:
    """A root module as the probe sees it."""

    name: str
    root: int
    number: int
    parameters: dict[str, Parameter]
    buffers: dict[str, int]
    layers: list[Layer]
    training: bool = True


@dataclass
class Optimizer:
    """An optimizer and its groups of parameters."""

    kind: str
    number: int
    groups: list[list[Parameter]]
    rates: list[float]
    rate_variables: list[int]

    @property
    def parameters(self) -> list[Parameter]:
        return [parameter for group in self.groups for parameter in group]


class TraceBuilder:
    """One process of a run. Rows are kept in the order of `end` and written by `write`."""

    def __init__(self, run: Path, *, rank: int = 0, world_size: int = 1, seed: int = 0, started: float = 1.0) -> None:
        self.path = run / f"proc-{100 + rank}-{int(started * 1000)}"
        self.rank, self.world_size, self.seed = rank, world_size, seed
        self.started = started
        self.rows: list[bytes] = []
        self.sketches: list[bytes] = []
        self.symbols: list[dict[str, Any]] = []
        self._counts: dict[str, int] = {}
        self._interned: dict[str, int] = {}
        self._clock = 0
        self._open: list[tuple[int, str, int]] = []  # seq, type, module of every open call
        self._context: dict[str, Any] = {"autocast": None, "grad": True, "inference": False}
        self._states: dict[int, tuple[int, int]] = {}
        self._roots = 0
        self._optimizers = 0

    # Symbols

    def symbol(self, table: str, /, **fields: Any) -> int:
        """A new symbol; returns its id."""
        number = self._counts.get(table, 0) + 1
        self._counts[table] = number
        self.symbols.append({"k": table, "i": number, **fields})
        return number

    def intern(self, table: str, /, **fields: Any) -> int:
        """The id of a symbol with these fields, written once."""
        key = json.dumps([table, fields], sort_keys=True)
        if key not in self._interned:
            self._interned[key] = self.symbol(table, **fields)
        return self._interned[key]

    # Models and optimizers

    def root(
        self,
        name: str,
        parameters: Mapping[str, Shape],
        *,
        buffers: Sequence[str] = (),
        frozen: Sequence[str] = (),
        tied: Mapping[str, str] | None = None,
        layers: Sequence[Layer] = (),
        kind: str = "",
    ) -> Model:
        """A root module. `tied` maps a name to the name whose tensor it shares."""
        holds = bool(parameters or buffers)
        root = self.symbol(
            "root",
            name=name,
            **{"class": kind or f"__main__.{name}"},
            library="torch" if kind.startswith("torch.") else "user",
            ordinal=self._roots if holds else 0,
        )
        self._roots += holds
        model = Model(name, root, self.module(root, "", kind or f"__main__.{name}"), {}, {}, [])
        for path, shape in parameters.items():
            first = model.parameters.get((tied or {}).get(path, ""))
            model.parameters[path] = self._parameter(root, path, shape, path not in frozen, first)
        for path in buffers:
            model.buffers[path] = self._variable("buffer", root, path, (4,))
            self.change(model.buffers[path], NONZERO, digest_of("buffer", path))
        for layer in layers:
            model.layers.append(
                Layer(layer.path, layer.module, layer.function, layer.args, self.module(root, layer.path, layer.module))
            )
        return model

    def module(self, root: int, path: str, kind: str) -> int:
        return self.symbol("mod", root=root, path=path, **{"class": kind})

    def _variable(self, kind: str, root: int, name: str, shape: Shape, same: int = 0, *, grad: bool = False) -> int:
        return self.symbol(
            "var",
            kind=kind, root=root, opt=0, name=name, shape=list(shape), dtype="float32", same=same,
            requires_grad=grad, group=0,
        )  # fmt: skip

    def _parameter(self, root: int, path: str, shape: Shape, grad: bool, first: Parameter | None) -> Parameter:
        variable = self._variable("parameter", root, path, shape, first.variable if first else 0, grad=grad)
        if first is not None:
            return Parameter(path, root, shape, variable, first.flag, first.gradient, grad, first)
        flag = self._variable("requires_grad", root, path, shape, grad=grad)
        gradient = self._variable("gradient", root, path, shape, grad=grad)
        self.change(variable, NONZERO, digest_of("parameter", self.seed, root, path))
        self.change(flag, TRUE if grad else FALSE, int(grad))
        if grad:
            self.change(gradient, ABSENT)
        return Parameter(path, root, shape, variable, flag, gradient, grad)

    def optimizer(
        self, kind: str, groups: Sequence[Sequence[Parameter]], hyper: Sequence[Mapping[str, Any]], *, line: int = 5
    ) -> Optimizer:
        """An optimizer with one mapping of hyper-parameters a group, `lr` among them."""
        number = self.symbol("opt", library="torch", ordinal=self._optimizers, **{"class": kind})
        self._optimizers += 1
        with self.call(kind, type="construct", optimizer=number, line=line):
            pass
        rates = []
        for index, (group, values) in enumerate(zip(groups, hyper, strict=True)):
            self.symbol(
                "group",
                opt=number,
                index=index,
                params=[parameter.variable for parameter in group],
                hyper=dict(values),
                seq=self._clock,
            )
            rates.append(float(values["lr"]))
        variables = [
            self.symbol(
                "var",
                kind="lr", root=0, opt=number, name=f"group{index}.lr", shape=[], dtype="float64", same=0,
                requires_grad=False, group=index,
            )
            for index in range(len(groups))
        ]  # fmt: skip
        return Optimizer(kind, number, [list(group) for group in groups], rates, variables)

    def another(self, model: Model, path: str) -> Parameter:
        """Another parameter takes the place of one that was tied, and is a variable of its own."""
        old = model.parameters[path]
        model.parameters[path] = self._parameter(model.root, path, old.shape, old.requires_grad, None)
        return model.parameters[path]

    def orphan(self, optimizer: Optimizer, place: int, shape: Shape) -> Parameter:
        """What an optimizer holds in its first group and no model has any more, which has a name of its own."""
        name, numbers = f"group0.param{place}", []
        for kind, state in (("parameter", NONZERO), ("requires_grad", TRUE), ("gradient", ABSENT)):
            numbers.append(
                self.symbol(
                    "var",
                    kind=kind, root=0, opt=optimizer.number, name=name, shape=list(shape), dtype="float32", same=0,
                    requires_grad=True, group=0,
                )
            )  # fmt: skip
            self.change(numbers[-1], state, int(state == TRUE))
        return Parameter(name, 0, shape, *numbers, requires_grad=True)

    def group(self, optimizer: Optimizer, members: Sequence[Parameter]) -> None:
        """The first group of an optimizer holds others from now on."""
        first = next(each for each in self.symbols if each["k"] == "group" and each["opt"] == optimizer.number)
        optimizer.groups[0] = [*members]
        params = [parameter.variable for parameter in members]
        self.symbol("group", opt=optimizer.number, index=0, params=params, hyper=first["hyper"], seq=self._clock)

    # Events

    @property
    def inside_module(self) -> bool:
        return any(kind in ("module", "autograd") for _, kind, _ in self._open)

    def state(self, variable: int) -> int:
        return self._states.get(variable, (UNSEEN, 0))[0]

    def digest(self, variable: int) -> int:
        return self._states.get(variable, (UNSEEN, 0))[1]

    @contextmanager
    def context(self, **fields: Any) -> Iterator[None]:
        """Calls inside are made under `autocast=...` or `grad=False`."""
        before = dict(self._context)
        self._context.update(fields)
        try:
            yield
        finally:
            self._context = before

    @contextmanager
    def call(
        self,
        name: str,
        *,
        type: str = "function",
        args: Mapping[str, Any] | None = None,
        returns: Any = None,
        value: float = NAN,
        module: int = 0,
        optimizer: int = 0,
        training: bool = False,
        entry: bool = False,
        raised: bool = False,
        finite: bool = True,
        line: int = 0,
        digest: int = 0,
    ) -> Iterator[int]:
        """A call; what happens in the block happens inside it. Yields its `seq`."""
        self._clock += 1
        seq = self._clock
        api = self.intern("api", name=name, type=type, library="torch" if name.startswith("torch.") else "user")
        context = self._context_number()
        parent = self._open[-1][0] if self._open else 0
        mod = module or (self._open[-1][2] if self._open else 0)
        arguments = self.intern("args", api=api, values=dict(args or {}))
        source = self.intern("src", file="train.py", line=line, function="main") if line else 0
        self._open.append((seq, type, mod))
        yield seq
        self._open.pop()
        self._clock += 1
        flags = RAISED * raised | ENTRY * entry | TRAINING * training | NONFINITE_RESULT * (not finite)
        result = self.intern("ret", value=returns)
        self.rows.append(
            ROW.pack(
                1, flags, 1, seq, self._clock, parent, api, context, arguments, result, source, mod, optimizer,
                0, 0, 0, digest, value,
            )
        )  # fmt: skip

    def change(self, variable: int, new: int, digest: int = 0, value: float = NAN) -> None:
        """A variable took a state; nothing is written if it has it already."""
        old = self._states.get(variable)
        if old == (new, digest):
            return
        self._states[variable] = (new, digest)
        self._clock += 1
        parent = self._open[-1][0] if self._open else 0
        self.rows.append(
            ROW.pack(
                2, 0, 1, self._clock, self._clock, parent, variable, self._context_number(), 0, 0, 0, 0, 0,
                UNSEEN if old is None else old[0], new, 0, digest, value,
            )
        )  # fmt: skip

    def forget(self, variable: int) -> None:
        """Nobody knows any more what a variable is, as behind steps that are not observed."""
        self._states.pop(variable, None)

    def measure(
        self,
        name: str,
        value: float = NAN,
        *,
        variable: int = 0,
        module: int = 0,
        optimizer: int = 0,
        digest: int = 0,
    ) -> None:
        """A number or a hash taken at one place, within the call that is open."""
        self._clock += 1
        parent, _, inside = self._open[-1] if self._open else (0, "", 0)
        subject = self.intern("measure", name=name)
        self.rows.append(
            ROW.pack(
                3, 0, 1, self._clock, self._clock, parent, subject, self._context_number(), variable, 0, 0,
                module or inside, optimizer, 0, 0, 0, digest, value,
            )
        )  # fmt: skip

    def generator(self, name: str, digest: int) -> None:
        """A random generator has a new state."""
        self._clock += 1
        slot = self.intern("slot", name=f"rng.{name}", dtype="", shape=[])
        self.sketches.append(SKETCH_ROW.pack(self._clock, 0, slot, 0, 0, 0, digest, *[0.0] * 6))

    def sketch(self, name: str, numbers: Sequence[float], dtype: str = "float32") -> None:
        """What the call that is open was given or left, as four projections that are also its numbers."""
        self._clock += 1
        slot = self.intern("slot", name=name, dtype=dtype, shape=[len(numbers)])
        four = [*numbers, 0.0, 0.0, 0.0, 0.0][:4]
        size = sum(number * number for number in numbers) ** 0.5
        row = (self._clock, self._open[-1][0], slot, 0, len(numbers), 0, 0, size, 0.0, *four)
        self.sketches.append(SKETCH_ROW.pack(*row))

    def _context_number(self) -> int:
        backward = any(kind == "autograd" for _, kind, _ in self._open)
        return self.intern("ctx", **self._context, backward=backward, compiled=False)

    def write(self, **meta: Any) -> Path:
        """Writes the files; `meta` overrides fields of `meta.json`. Returns the process directory."""
        self.path.mkdir(parents=True)
        description = {
            "format": 1, "pid": 100 + self.rank, "ppid": 1, "rank": self.rank, "local_rank": self.rank,
            "world_size": self.world_size, "argv": ["train.py"], "executable": "python", "cwd": "/project",
            "seed": str(self.seed), "versions": {"python": "3.11", "torch": "2.13.0"}, "platform": "linux-x86_64-cpu",
            "started": self.started, "finished": True, "events": len(self.rows), "lost_events": 0,
            "probe_errors": [], "probe_error_count": 0, "modules": [], **meta,
        }  # fmt: skip
        (self.path / "meta.json").write_text(json.dumps(description), encoding="utf-8")
        lines = "".join(json.dumps(symbol) + "\n" for symbol in self.symbols)
        (self.path / "symbols.jsonl").write_text(lines, encoding="utf-8")
        # The probe's file is longer than what was written: zeros end the data.
        (self.path / "events.bin").write_bytes(b"".join(self.rows) + bytes(3 * ROW.size))
        if self.sketches:
            (self.path / "sketches.bin").write_bytes(b"".join(self.sketches))
        return self.path
