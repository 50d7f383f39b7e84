"""Sketches of what goes into calls and comes out of them, in the first few optimizer steps.

One row a tensor (see `docs/trace-format.md`): inputs and results of modules, functions and `backward`; parameters,
buffers and gradients wherever they have changed; the state of the global random generators whenever it has; and every
call that draws random numbers. A script that trains one model after the other makes an optimizer when sketches have
ended: they begin again, as another phase. So they do for the first two calls of an evaluation, a few times: when the
first one comes behind the sketched steps, and when a model was loaded. Nothing here keeps a tensor alive.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from numbers import Real
from typing import TYPE_CHECKING, Any

import torch

from . import digest as content
from . import hyperparameters, numerics
from .advance import Advance
from .context import ENTRY, Call, ThreadState, capturing, quiet, unobservable
from .sketch import Sketch, faint, sketch
from .sketch_rows import single_rows, together
from .sketch_scores import CENTRED, scores
from .storages import Remembered, remembered
from .summary import dtype_name
from .switches import Switches
from .walk import ITEMS, tensors
from .wrapped import aside, innermost

if TYPE_CHECKING:
    from .recorder import Recorder
    from .variable import Slot, Var

STEPS = 2
"""Optimizer steps (of the optimizer that has taken most) that are sketched at least, unless the environment says
otherwise.
"""
PATIENCE = 4
"""How many times as many steps are sketched where an optimizer has not taken one yet: a generator may wait for five
steps of its critic.
"""
VARIABLE = "TRAINCHECK_REPLAY_STEPS"
PHASES = 3
"""How often sketches begin, counting the first time."""
EVALUATIONS = 3
"""How often they begin again with an evaluation."""
CALLS = 2
"""Calls of whole models that are sketched then."""
LIMIT = 100_000
"""Rows of a process after which no more are written: one that takes no step would go on for ever."""

BATCHES = 32
"""Batches of a phase of which single rows are sketched: a script may go through all its data before its first step."""

SECONDS = 3.0
"""What may be spent on the calls of inner modules and functions, and as much again on parameters and gradients. It is
reckoned (see `_CALL`) and not measured, so that two runs of one program leave out the same on a machine that is busy.
"""
_CALL, _SKETCH, _ELEMENT = 100e-6, 120e-6, 2e-9
"""Seconds for looking at a call, for a sketch, and for each of its elements."""
_INNER = frozenset({"module", "function"})

LEFT = "left"
"""Slot of what a collective leaves in the tensor, or the list of tensors, that it writes into."""

_DEPTH = 4
_SKETCHED = frozenset({"module", "function", "autograd", "collective"})
"""Types of calls whose arguments are sketched."""
_RESULTS = _SKETCHED | {"data", "clip"}


class Sketches(Switches):
    """Writes sketches while they are wanted."""

    def __init__(self, recorder: Recorder, *, wanted: bool = True) -> None:
        self._recorder = recorder
        self._steps = _steps_wanted() if wanted else 0
        self._rows = 0
        self._taken: dict[int, int] = {}
        self._trained: set[int] = set()
        """Ids of parameters whose optimizer has taken a step."""
        self._slots: dict[tuple[str, Any, Any], int] = {}
        self._known: dict[int, tuple[Remembered, Any, Sketch]] = {}
        self._noted: dict[int, Sketch] = {}
        self._random: dict[str, int] = {}
        self._aside = False
        self._advance = Advance()
        self._phases_left = PHASES - 1
        self._evaluations_left = EVALUATIONS
        self._evaluates = True
        """Whether the next evaluation is one to be sketched."""
        self._calls_left = 0
        """Calls of whole models that are yet to be sketched in an evaluation; 0 while training is sketched, too."""
        self._for_calls = self._for_variables = SECONDS
        self._batches_left = BATCHES
        self.wanted = self._steps > 0

    def stepped(self, optimizer: int, own: set[int], every: set[int]) -> None:
        """Count a step of an optimizer, given the ids of its parameters and of those of all optimizers."""
        self._taken[optimizer] = self._taken.get(optimizer, 0) + 1
        self._trained |= own
        most = max(self._taken.values())
        if most >= PATIENCE * self._steps or (most >= self._steps and every <= self._trained):
            self._pause()

    def met_optimizer(self, state: ThreadState) -> None:
        """An optimizer has been made: what it trains is sketched too."""
        self.train()
        if self.wanted or not self._steps or not self._phases_left or unobservable():
            return
        self._phases_left -= 1
        self._taken.clear()
        self._begin(state, "phase")

    def _begin(self, state: ThreadState, slot: str) -> None:
        self._random.clear()
        self._batches_left = BATCHES
        self.wanted = True
        with quiet(state):
            self._write(None, self._slot(slot, None, ()), 0, _NO_NUMBERS)

    def loaded(self) -> None:
        """A model was loaded: what it computes with these values is sketched."""
        self._evaluates = True
        self._recorder.evaluated = False

    @property
    def evaluated(self) -> bool:
        """Whether no evaluation is sketched until something is loaded."""
        return not (self._evaluates and self._evaluations_left and self._steps)

    def enter(self, state: ThreadState) -> None:
        """A whole model is called: an evaluation may begin here, or training go on."""
        if torch.is_grad_enabled():
            self.train()
        elif self._evaluates and not self.wanted and self._taken and self._evaluations_left and not unobservable():
            self._evaluates = False
            self._evaluations_left -= 1
            self._calls_left = CALLS
            self._begin(state, "phase.evaluation")

    def leave(self) -> None:
        """A whole model returns."""
        if self._calls_left:
            self._calls_left -= 1
            if not self._calls_left:
                self._pause()

    def train(self) -> None:
        """Training goes on: what is sketched of an evaluation ends here."""
        if self._calls_left:
            self._calls_left = 0
            self._pause()

    def end(self) -> None:
        """Nothing more is wanted, whatever comes."""
        self._phases_left = self._evaluations_left = self._calls_left = 0
        self._pause()

    def _pause(self) -> None:
        self.wanted = False
        for held, _, _ in self._known.values():
            held.forget()
        self._known.clear()
        self._noted.clear()

    # calls

    def opened(self, state: ThreadState, call: Call, arguments: Mapping[str, Any]) -> None:
        """What a call is given, by parameter name, and the random state it begins with."""
        if unobservable():
            if call.api.type in _INNER and not capturing():
                self._within_transform(state, call, arguments)
            return
        if self._spent(state, call):
            return
        self._for_calls -= _CALL
        with quiet(state):
            self._look_at_random(call, "before")
            if call.api.type in _SKETCHED:
                self._tensors(call, "in", arguments)
                if (weighed := scores(call.api.name, arguments)) is not None:
                    self._tensors(call, CENTRED, {"input": weighed})
            elif call.api.type == "scheduler":
                self._metrics(call, arguments)

    def closing(self, state: ThreadState, call: Call, result: Any) -> None:
        """What a call returned, and the random state it leaves."""
        if unobservable() or self._spent(state, call):
            return
        with quiet(state):
            if call.api.type in _RESULTS:
                self._tensors(call, "out", result)
            if call.api.type == "data":
                self._rows_of(call, result)
            self._look_at_random(call)

    def left(self, state: ThreadState, call: Call, value: Any) -> None:
        """What a call has written into an argument."""
        if unobservable():
            return
        with quiet(state):
            for name, tensor in islice(tensors(LEFT, value, _DEPTH), ITEMS):
                # Written by what moves no version, so what was known of the tensor is not asked.
                if (known := self._known.pop(id(tensor), None)) is not None:
                    known[0].forget()
                if (found := sketch(tensor)) is not None:
                    self._for_calls -= _SKETCH + _ELEMENT * found[0]
                    self._write(call, self._slot(name, tensor.dtype, tensor.shape), 0, found)

    def _within_transform(self, state: ThreadState, call: Call, arguments: Mapping[str, Any]) -> None:
        """What a call is given inside of `vmap`, `grad` and the like: it says which examples a step has. What comes of
        it is not sketched, since which numbers it draws, and which parameters a module has there, is not known.
        """
        if self._spent(state, call):
            return
        self._for_calls -= _CALL
        with quiet(state), aside():
            for name, wrapped in islice(tensors("in", arguments, _DEPTH), ITEMS):
                tensor = innermost(wrapped)
                if tensor is not None and (found := sketch(tensor)) is not None:
                    self._for_calls -= _SKETCH + _ELEMENT * found[0]
                    self._write(call, self._slot(name, tensor.dtype, tensor.shape), 0, found)

    def _rows_of(self, call: Call, batch: Any) -> None:
        parts = [*tensors("", batch, _DEPTH)]
        for name, hashed in together(parts):
            self._write(call, self._slot(name, None, ()), 0, (0, hashed, 0.0, 0.0, _NO_PROJECTIONS))
        if self._batches_left > 0:
            self._batches_left -= 1
            for name, row in single_rows(parts):
                if (found := sketch(row)) is not None:
                    self._write(call, self._slot(name, row.dtype, row.shape), 0, found)

    def _spent(self, state: ThreadState, call: Call) -> bool:
        """Whether a call goes unsketched: it is within a model, and too much has been spent on such calls.

        Models as a whole, losses, batches and steps are few, and say most.
        """
        if self._for_calls > 0 or call.api.type not in _INNER or not state.modules or call.flags & ENTRY:
            return False
        self._recorder.writer.leave_out("sketches of calls within models, which would take too long")
        return True

    def drawn(self, state: ThreadState, name: str, call: Call | None, generator: Any, result: Any) -> None:
        """A function has drawn random numbers from `generator` (none: the global one)."""
        if unobservable() or self._aside or not isinstance(result, torch.Tensor):
            return
        with quiet(state):
            if generator is None:
                self._look_at_random(call)
            self._write(call, self._slot(f"draw.{name}", None, ()), 0, (result.numel(), *_NO_NUMBERS[1:]))

    def _tensors(self, call: Call, prefix: str, value: Any) -> None:
        for name, tensor in islice(tensors(prefix, value, _DEPTH), ITEMS):
            found = self._sketch(tensor)
            if found is not None:
                self._for_calls -= _SKETCH + _ELEMENT * found[0]
                self._write(call, self._slot(name, tensor.dtype, tensor.shape), 0, found)

    def _metrics(self, call: Call, arguments: Mapping[str, Any]) -> None:
        """The numbers that a scheduler is told, which scripts pass as numbers or as tensors."""
        for name, value in arguments.items():
            if isinstance(value, torch.Tensor):
                self._tensors(call, "in", {name: value})
            elif isinstance(value, Real):  # NumPy's numbers are such, arrays are not
                tensor = torch.tensor(float(value), dtype=torch.float64, device="cpu")
                if (found := sketch(tensor)) is not None:
                    # Most are computed in single precision, and rounding is judged by the dtype.
                    self._write(call, self._slot(f"in.{name}", torch.float32, ()), 0, found)

    def _sketch(self, tensor: torch.Tensor) -> Sketch | None:
        """The sketch of a tensor; one that seems unchanged since its last is not computed again.

        Writes through `.data` move no version, so a kilobyte of memory is looked at too, as tracked variables are.
        """
        readable = content.local(tensor)
        if readable is None or readable.layout is not torch.strided:
            return None
        version = -1 if tensor.is_inference() else tensor._version
        pointer = readable.data_ptr()
        block = readable.is_cpu and readable.is_contiguous() and pointer
        looks = (version, pointer, readable.shape, content.sample(pointer, readable.nbytes) if block else b"")
        known = self._known.get(id(tensor))
        # Without a look at the memory a parameter may have been written to.
        settled = version >= 0 and (block or not isinstance(tensor, torch.nn.Parameter))
        if known is not None and settled and known[1] == looks and known[0].is_of(tensor):
            return known[2]
        found = sketch(tensor)
        if found is not None and settled and (held := remembered(tensor)) is not None:
            if known is not None:
                known[0].forget()
            self._known[id(tensor)] = (held, looks, found)
        return found

    # variables

    def variables(self, state: ThreadState, call: Call | None) -> None:
        """Parameters and buffers that are not as they were when last sketched."""
        if unobservable():
            return
        with quiet(state):
            self._look_at_random(call)
            for slot in self._recorder.variables.slots():
                if slot.var.first is None and (tensor := slot.tensor()) is not None:
                    self._variable(call, slot.var, tensor, tensor)

    def gradients(self, state: ThreadState, call: Call | None) -> None:
        """Gradients that are not as they were when last sketched."""
        if unobservable():
            return
        slots = [slot for slot in self._recorder.variables.slots() if slot.grad is not None and slot.var.first is None]
        owners = [slot.tensor() for slot in slots]
        gradients = self._recorder.backwards.gradients(owners)
        with quiet(state):
            for slot, tensor in zip(slots, owners, strict=True):
                if slot.grad is None or tensor is None:
                    continue
                gradient = gradients.get(id(tensor))
                if gradient is not None:
                    self._variable(call, slot.grad, gradient, tensor)
                elif slot.grad.id in self._noted:
                    del self._noted[slot.grad.id]

    def _variable(
        self,
        call: Call | None,
        var: Var,
        tensor: torch.Tensor,
        owner: torch.Tensor,
        clock: Iterator[int] | None = None,
    ) -> None:
        if self._for_variables <= 0:
            self._recorder.writer.leave_out("sketches of parameters and gradients, which would take too long")
            return
        found = self._sketch(tensor)
        if found is None:
            return
        number = self._recorder.variables.id_of(var, owner)
        if self._noted.get(number) != found:
            self._for_variables -= _SKETCH + _ELEMENT * found[0]
            self._noted[number] = found
            few = faint(tensor) if var.kind == "gradient" else 0
            self._write(call, self._slot("var", tensor.dtype, tensor.shape), number, found, few, clock)

    def hyperparameters(self, call: Call, optimizer: Any) -> None:
        """A hash of the groups' numbers and flags, those left out that only choose an implementation."""
        hashed = hyperparameters.hashed(optimizer.param_groups)
        self._write(call, self._slot("hyper", None, ()), 0, (0, hashed, 0.0, 0.0, _NO_PROJECTIONS))

    def settings_of_hand(self, call: Call, clock: Iterator[int] | None = None) -> None:
        """What stands for the hyper-parameters of an update that the program makes itself: nobody sees them. `clock`:
        when, where that is not now.
        """
        self._write(call, self._slot("hyper", None, ()), 0, (0, 0, 0.0, 0.0, _NO_PROJECTIONS), clock=clock)

    def updated(self, state: ThreadState, call: Call, slots: Iterable[Slot], clock: Iterator[int]) -> None:
        """Parameters that took new values at a time of `clock`."""
        if unobservable():
            return
        with quiet(state):
            for slot in slots:
                if (tensor := slot.tensor()) is not None:
                    self._variable(call, slot.var, tensor, tensor, clock)

    # random generators

    def hold_draws(self, state: ThreadState) -> bool:
        """What is drawn from here on, until `count_draws`, is no draw of the program's. Whether that matters."""
        if not self.wanted or unobservable():
            return False
        with quiet(state):
            self._look_at_random(None)
        self._aside = True
        return True

    def count_draws(self, state: ThreadState) -> None:
        """Draws are the program's again."""
        self._aside = False
        with quiet(state):
            self._look_at_random(None, "seed")

    def _look_at_random(self, call: Call | None, when: str = "rng") -> None:
        """Write the states that are new; `before`: they were so when the call began, `seed`: set aside."""
        function = call is not None and call.api.type == "function"
        states = numerics.random_states(numerics.OF_TORCH if function else numerics.GENERATORS)
        for name, hashed in states.items():
            if self._random.get(name) != hashed:
                self._random[name] = hashed
                drawn = self._advance.look((name,)).get(name, 0.0)
                size = int(drawn) if 0 < drawn < _MOST else 0
                self._write(call, self._slot(f"{when}.{name}", None, ()), 0, (size, hashed, 0.0, 0.0, _NO_PROJECTIONS))

    # rows

    def _slot(self, name: str, dtype: torch.dtype | None, shape: Any) -> int:
        key = (name, dtype, shape)
        number = self._slots.get(key)
        if number is None:
            fields = {
                "name": name,
                "dtype": "" if dtype is None else dtype_name(dtype),
                "shape": [size if type(size) is int else -1 for size in shape],
            }
            number = self._slots[key] = self._recorder.symbols.once("slot", fields)
        return number

    def _write(
        self,
        call: Call | None,
        slot: int,
        var: int,
        found: Sketch,
        few: int = 0,
        clock: Iterator[int] | None = None,
    ) -> None:
        recorder = self._recorder
        self._rows += 1
        if self._rows >= LIMIT:
            self.end()
        recorder.writer.sketch(clock or recorder.clock, call.seq if call is not None else 0, slot, var, found, few)


_MOST = float(2**32 - 1)
"""More than a row can hold."""
_NO_PROJECTIONS = (0.0, 0.0, 0.0, 0.0)
_NO_NUMBERS = (0, 0, 0.0, 0.0, _NO_PROJECTIONS)


def _steps_wanted() -> int:
    text = os.environ.get(VARIABLE, "")
    return int(text) if text.isdigit() else STEPS
