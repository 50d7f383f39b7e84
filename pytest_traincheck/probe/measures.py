"""Numbers and hashes taken at single places: what the rows of calls and changes do not hold.

They are taken in the first few optimizer steps only, so that long runs pay for them once.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..looks import (
    ACTIVATIONS,
    DATA_SETS,
    FEEDBACK,
    GRADIENT_NORMS,
    INPUT_SCALES,
    LATER,
    NOTHING,
    NUMBER_SORTS,
    RENEWAL,
    Looks,
)
from . import digest as content
from . import numerics
from .advance import Advance
from .context import Call, ThreadState, quiet, unobservable
from .feedback import FED_BACK, Feedback
from .following import Following
from .given import Given
from .holdings import STORED, Holdings
from .renewal import Renewal
from .storages import Counts, Remembered, remembered
from .switches import Switches
from .walk import tensors

if TYPE_CHECKING:
    from .recorder import Recorder
    from .variable import Slot

STEPS = 8
"""Optimizer steps (of the optimizer that has taken most) in which measures are taken."""
LIMIT = 100_000
"""Measures of a process in which they end without any step: one that only evaluates would take them for ever."""
LATE_LOOKS = 10_000
"""Measures of the first looks at parameters that come when the others have ended."""
FIRST_STEPS = 2
"""The same for measures of every module call."""
INPUT = "input.rms."
"""Prefix of the measures of a model's inputs; the path of the tensor among the arguments follows."""
_INPUTS = 8
_DEPTH = 3
"""How many inputs of a model are measured, and how deep in containers they are looked for."""


class Measures(Switches):
    """Writes rows of kind `measure` while they are wanted."""

    def __init__(self, recorder: Recorder, not_needed: Looks = NOTHING) -> None:
        self._recorder = recorder
        self.not_needed = not_needed
        """Looks that no rule will ask for."""
        self._numbers: dict[str, int] = {}
        self._steps: dict[int, int] = {}
        self._written = 0
        self._late_looks = LATE_LOOKS
        self._initialised = Counts()
        self._drawn = Counts()
        """What tensors looked like when they had been initialised, see `_mark`."""
        self._renewal = Renewal()
        self._holdings = Holdings()
        self._feedback = Feedback()
        self.given = Given(wanted=NUMBER_SORTS not in not_needed)
        self.following = Following(recorder, self)
        self._data: dict[int, tuple[Remembered, float]] = {}
        """Inputs of the model that was called last, and their root mean square."""
        self.waiting: list[tuple[str, Call, Slot, int, float, int]] = []
        """Measures of parameters and buffers that have no name yet."""
        self.wanted = True
        self.early = True
        self.fetches = False
        """Whether this process is a worker of a loader, which tells of its first fetches."""
        self.tokens: tuple[Remembered, ...] = ()
        """Two-dimensional integer inputs of the model's last forward pass."""
        self._advance = Advance()
        self._handed = 0
        """Numbers drawn from generators that functions were handed."""
        self.saved_hooks = False
        """Whether the program has used hooks for saved tensors, which looking at these would call."""
        self._counting = False
        """Whether draws count: from the first forward pass on that comes after the optimizers were made."""

    def stepped(self, optimizer: int) -> bool:
        """Count a step of an optimizer; true when no more measures are wanted after it."""
        count = self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
        if count >= FIRST_STEPS:
            self.early = False
            self._forget_data()
        if count >= STEPS and self.wanted:
            self._end()
            if LATER not in self.not_needed:
                self.following.begin()
        self.following.stepped(count)
        self._leave_out_norms()
        self._renewal.stepped()
        return not self.wanted

    def end(self) -> None:
        """Nothing more is measured in every step, whatever comes."""
        if self.wanted:
            self._end()
        self.following.wanted = False
        self._leave_out_norms()

    def _leave_out_norms(self) -> None:
        if GRADIENT_NORMS in self.not_needed and not self.wanted and not self.following.wanted:
            self._recorder.variables.with_norms = False

    def _end(self) -> None:
        self.wanted = self.early = False
        self.forget_inputs()
        self._renewal.forget()
        self._feedback.forget()

    def forget_inputs(self) -> None:
        """Of the model that was called last."""
        tokens, self.tokens = self.tokens, ()
        for held in tokens:
            held.forget()
        self._forget_data()

    def _forget_data(self) -> None:
        data, self._data = self._data, {}
        for held, _ in data.values():
            held.forget()

    def take(
        self,
        state: ThreadState,
        name: str,
        parent: Call | None,
        value: float = math.nan,
        digest: int = 0,
        var: int = 0,
        opt: int = 0,
    ) -> None:
        """Write one measure of `parent` (none: outside every call)."""
        recorder = self._recorder
        if self.wanted:
            self._written += 1
            if self._written == LIMIT:
                self._end()
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = recorder.symbols.once("measure", {"name": name})
        if not state.thread:
            recorder.name_thread(state)
        recorder.writer.measure(recorder.clock, state.thread, number, parent, value, digest, var, opt)

    def of_variables(self, state: ThreadState, parent: Call | None) -> Callable[[str, int, float], None]:
        """What writes measures of variables: name, var id, number."""

        def write(name: str, var: int, value: float) -> None:
            self.take(state, name, parent, value, var=var)

        return write

    def of_first_looks(self, state: ThreadState, parent: Call | None) -> Callable[[str, int, float], None] | None:
        """The same for what is seen for the first time. A model may be made, or read from a file, when measures have
        ended: then there is room for some more, and behind that `None`.
        """
        if self.wanted:
            return self.of_variables(state, parent)
        if self._late_looks <= 0 or self._written >= LIMIT:
            return None

        def write(name: str, var: int, value: float) -> None:
            self._late_looks -= 1
            self.take(state, name, parent, value, var=var)

        return write

    def of_slot(
        self, state: ThreadState, name: str, call: Call, slot: Slot, value: float = math.nan, digest: int = 0
    ) -> None:
        """Write one measure of a parameter or buffer. One that was not looked at yet has no name before it is, since
        its description says what it is like at the first look: until then the measure waits. Nothing is told of one
        that another has replaced by then, such as a head for other classes.
        """
        if slot.var.id:
            self.take(state, name, call, value, digest, slot.var.id)
        else:
            self.waiting.append((name, call, slot, id(slot.tensor()), value, digest))

    def write_waiting(self, state: ThreadState, ends: bool = False) -> None:
        """Write what waited, as far as it has names now; when the trace ends all that still exists gets one."""
        waiting, self.waiting = self.waiting, []
        for name, call, slot, of, value, digest in waiting:
            tensor = slot.tensor()
            if id(tensor) != of:
                continue
            if ends and not slot.var.id and tensor is not None:
                self._recorder.variables.id_of(slot.var, tensor)
            if slot.var.id or not ends:
                self.of_slot(state, name, call, slot, value, digest)

    def initialised(self, tensor: torch.Tensor) -> None:
        """Count a call of an initializer on a tensor."""
        self._initialised.add(tensor)
        self._note(tensor)

    def _note(self, tensor: torch.Tensor) -> None:
        self._drawn.add(tensor, _mark(tensor) - self._drawn.of(tensor))

    def filled(self, tensor: torch.Tensor) -> None:
        """Count a draw of random numbers into the whole memory of a tensor: `weight.data.normal_()` initialises too,
        though `.data` is another object each time.
        """
        readable = content.local(tensor)
        if readable is None or readable.layout is not torch.strided:
            return
        if readable.nbytes == readable.untyped_storage().nbytes():
            self._initialised.add(readable)
            self._note(readable)

    def converted(self, source: torch.Tensor, result: torch.Tensor) -> None:
        """What a tensor becomes by another dtype or device was initialised as often."""
        count = self._initialised.of(source)
        if count and not self._initialised.of(result):
            self._initialised.add(result, count)
            if self._drawn.of(source) == _mark(source):
                self._note(result)

    def initialisations(self, tensor: torch.Tensor) -> int:
        """How often a tensor has been initialised: by `torch.nn.init`, or by drawing into it."""
        return self._initialised.of(tensor)

    def overwritten(self, tensor: torch.Tensor) -> bool:
        """Whether something else was written into a tensor since it was initialised."""
        mark = self._drawn.of(tensor)
        return bool(mark) and mark != _mark(tensor)

    def content_of(self, state: ThreadState, name: str, call: Call, value: Any) -> None:
        """Write the hash of a tensor or of a container of tensors."""
        if unobservable():
            return
        with quiet(state):
            hashed = content.digest_nested(value)
        self.take(state, name, call, digest=hashed)

    def random_states(self, state: ThreadState, call: Call | None) -> None:
        """Write hashes of the states of the global random generators, and what each has drawn since the last time; and
        how many numbers were drawn from generators that functions were handed.
        """
        self.write_random_states(state, call, *self.look_at_random(state))

    def look_at_random(self, state: ThreadState) -> tuple[dict[str, int], dict[str, float]]:
        """Hashes of these states, and what each generator has drawn since the last look, as far as that counts."""
        with quiet(state):
            return numerics.random_states(), self._advance.look() if self._counting else {}

    def write_random_states(
        self, state: ThreadState, call: Call | None, states: dict[str, int], drawn: dict[str, float]
    ) -> None:
        """Write what `look_at_random` has found."""
        self.following.seen(states)
        for name, hashed in states.items():
            self.take(state, f"rng.{name}", call, drawn.get(name, math.nan), digest=hashed)
        if self._counting:
            self.take(state, "rng.handed", call, float(self._handed))
            self._handed = 0

    def met_optimizer(self) -> None:
        """An optimizer has been made. What is drawn before the training begins is no matter of its steps."""
        if not self._steps:
            self._counting = False

    def entered(self, state: ThreadState) -> None:
        """A model is called. Before there is an optimizer that is set-up, of which the next one makes an end."""
        if not self._counting and self.wanted and not unobservable():
            with quiet(state):
                self._advance.begin()
            self._handed = 0
            self._counting = True

    def handed(self, numbers: int) -> None:
        """Count numbers that were drawn from a generator which the function was handed."""
        self._handed += numbers

    def hold_draws(self, state: ThreadState) -> tuple[bool, bool, int] | None:
        """What is drawn from here on does not count, until what is returned is given to `count_draws`; None where
        nothing counts anyway.
        """
        counting, evaluations = self._counting and self.wanted, self._recorder.evaluations
        if not (counting or evaluations.looks) or unobservable():
            return None
        with quiet(state):
            if counting:
                self._advance.hold()
            if evaluations.looks:
                evaluations.hold()
        return counting, evaluations.looks, self._handed

    def count_draws(self, state: ThreadState, held: tuple[bool, bool, int] | None) -> None:
        """Draws count again."""
        if held is not None:
            counting, evaluating, self._handed = held
            with quiet(state):
                if counting:
                    self._advance.go_on()
                if evaluating:
                    self._recorder.evaluations.go_on()

    def renewal(self, state: ThreadState, call: Call, root: int, arguments: dict[str, Any]) -> None:
        """Write how much, and whether all, of each input of a model is the same as one step before."""
        if RENEWAL in self.not_needed:
            return
        with quiet(state):
            shares = self._renewal.shares(root, arguments)
        for name, share in shares:
            self.take(state, name, call, share)

    def stored(self, state: ThreadState, call: Call, dataset: Any, reader: Any, made: int = 0) -> None:
        """Write of what a data set holds how much was written to since the last look; in any step. `made`: how many
        batches of it there are in this pass so far.
        """
        if DATA_SETS in self.not_needed or not self._holdings.is_due(dataset, reader, made) or unobservable():
            return
        with quiet(state):
            shares = self._holdings.look(dataset, reader)
        for name, share in shares:
            self.take(state, f"{STORED}{name}", call, share)

    def fed_back(self, state: ThreadState, call: Call, root: int, arguments: dict[str, Any]) -> None:
        """Write whether a model is given what it returned the call before."""
        if FEEDBACK in self.not_needed:
            return
        with quiet(state):
            given = self._feedback.is_given(root, arguments)
        if given is not None:
            self.take(state, FED_BACK, call, float(given))

    def returned(self, state: ThreadState, root: int, result: Any) -> None:
        """Remember what a model has returned."""
        if FEEDBACK in self.not_needed:
            return
        with quiet(state):
            self._feedback.returns(root, result)

    def inputs(self, state: ThreadState, call: Call, arguments: dict[str, Any]) -> None:
        """Write the root mean square of the floating-point numbers that a model is given as data."""
        if INPUT_SCALES in self.not_needed:
            return
        found = []
        with quiet(state):
            named = [pair for name, value in arguments.items() for pair in tensors(name, value, _DEPTH)]
            for path, tensor in named[:_INPUTS]:
                size = None if tensor.requires_grad else numerics.rms_and_mean(tensor)
                if size is not None:
                    found.append((path, tensor, size[0]))
        held = [(id(tensor), remembered(tensor), rms) for _, tensor, rms in found]
        self._forget_data()
        self._data = {key: (item, rms) for key, item, rms in held if item is not None}
        for path, _, rms in found:
            self.take(state, f"{INPUT}{path}", call, rms)

    def passed_on(self, state: ThreadState, call: Call, args: Any, kwargs: Any, named: Callable[[], Any]) -> None:
        """The same for a part of a model that is given its model's very input: it may be the whole elsewhere."""
        data = self._data
        if data and any(id(value) in data for value in (*args, *kwargs.values())):
            for path, value in named().items():
                known = data.get(id(value))
                if known is not None and known[0].is_of(value):
                    self.take(state, f"{INPUT}{path}", call, known[1])

    def activation(self, state: ThreadState, call: Call, result: Any) -> None:
        """Write the root mean square of a module's output."""
        if ACTIVATIONS in self.not_needed:
            return
        tensor = numerics.first_tensor(result)
        if tensor is None or unobservable():
            return
        with quiet(state):
            found = numerics.rms_and_mean(tensor)
        if found is not None:
            self.take(state, "activation.rms", call, found[0])


def _mark(tensor: torch.Tensor) -> int:
    """Tells one content of a tensor from another, as far as a kilobyte of memory does; elsewhere its version."""
    readable = content.local(tensor)
    if readable is None or readable.layout is not torch.strided or tensor.is_inference():
        return 0
    if readable.is_cpu and readable.is_contiguous() and (pointer := readable.data_ptr()):
        return zlib.crc32(content.sample(pointer, readable.nbytes)) + 1
    return int(tensor._version) + 1
