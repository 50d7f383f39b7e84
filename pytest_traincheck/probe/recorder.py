"""Turns what is observed into rows. Everything the user's thread pays for a call is in `begin` and `end`."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Collection, Iterator
from itertools import count
from types import CodeType, FrameType
from typing import Any

import torch

from ..looks import ATTRIBUTES, NOTHING, SKETCHES, Looks
from . import digest as content
from . import summary
from .attributes import Attributes
from .backwards import Backwards
from .by_hand import ByHand
from .context import (
    ENTRY,
    NONFINITE,
    RAISED,
    Call,
    Threads,
    ThreadState,
    context_key,
    innermost,
    left_in_the_middle,
    quiet,
    unobservable,
    unseen,
)
from .copies import Copies
from .core import native
from .core.short_ways import of as short_ways
from .devices import Waiting, is_far
from .evaluations import Evaluations
from .limit import Limit
from .measures import Measures
from .modules import Modules, Root
from .optimizers import Optimizers
from .sampling import Sampling
from .sketches import Sketches
from .source import SourceLines
from .storages import Counts
from .switches import Switches
from .symbols import Api, Bind, Symbols
from .theirs import is_of_an_object, is_theirs
from .variables import Emit, Variables
from .walk import pairs, sequence
from .wrappers import Wrappers
from .writer import TraceWriter


class Recorder(Switches):
    """The trace of this process while it grows. A failure in here is counted and never reaches the user's code."""

    def __init__(
        self, writer: TraceWriter, known: list[torch.nn.Module], wrappers: Wrappers, not_needed: Looks = NOTHING
    ) -> None:
        self.writer = writer
        self.clock: Iterator[int] = count(1) if native is None else native.Clock()
        self.symbols = Symbols(writer)
        self.thread_states = Threads()
        self.sources = SourceLines(self.symbols)
        self.modules = Modules(self.symbols, known, wrappers)
        self.backwards = Backwards(writer)
        self.waiting = Waiting(writer)
        """What calls have returned on other devices."""
        self.variables = Variables(self.symbols, self.modules, self.backwards)
        self.copies = Copies(self.variables, self.modules)
        self.optimizers = Optimizers(self.symbols, self.variables)
        self.attributes = Attributes(self.symbols, self.modules, wanted=ATTRIBUTES not in not_needed)
        self.measures = Measures(self, not_needed)
        self.sketches = Sketches(self, wanted=SKETCHES not in not_needed)
        self.evaluations = Evaluations(self)
        self.by_hand = ByHand(self)
        self.filled = Counts()
        """The version, plus one, that each tensor had when a function read a file into it."""
        self.native = short_ways(self)
        """Records what is like something that has been before, see `core`."""
        self.sources.native = self.native
        self.sampling: Sampling | None = None
        """Set where not every step is observed."""
        self.limit: Limit | None = None
        """Set where the run ends after so many steps."""
        self.step_code: CodeType | None = None
        self.values_moved = False
        """Whether parameters may have moved, by hand, since evaluation last looked at them."""
        self.evaluated = False
        """Whether nothing is looked at any more because a model is called without gradients."""

    @property
    def threads(self) -> ThreadState:
        """State of the calling thread."""
        return self.thread_states.state

    # calls

    def begin(
        self,
        state: ThreadState,
        api: Api,
        key: Any,
        bind: Bind,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        mod: int = 0,
        depth: int = 1,
        compiled: bool = False,
    ) -> Call:
        """Open a call. `key` to `kwargs` are those of `Symbols.args`; `depth` counts frames up to the call."""
        if self.by_hand.waits:
            self.by_hand.about_to(state, api.type)
        if self.native is not None and not compiled:
            known: Call | None = self.native.begin(state, api, key, mod, depth + 1)
            if known is not None:
                return known
        stack = state.stack
        symbols = self.symbols
        if not state.thread:
            self.name_thread(state)
        number = symbols.api(api)
        ctx = symbols.ctx(context_key(compiled))
        arguments = symbols.args(number, key, bind, args, kwargs)
        if stack:
            enclosing = stack[-1]
            src = self.sources.find(depth + 1, enclosing.src)
            call = Call(next(self.clock), enclosing.seq, api, number, ctx, arguments, src, mod or enclosing.mod)
        else:
            call = Call(next(self.clock), 0, api, number, ctx, arguments, self.sources.find(depth + 1, 0), mod)
        stack.append(call)
        return call

    def end(self, state: ThreadState, call: Call, result: Any, clock: Iterator[int] | None = None) -> None:
        """Close a call that returned; `clock`: when, where that is not now."""
        if clock is None and self.native is not None and self.native.end(state, call, result):
            return
        kind = type(result)
        key = kind if kind is float else summary.key_of(result)
        # The second part of a tensor's key is its shape.
        value = None if kind is torch.Tensor and key[1].numel() != 1 else content.number(result)
        ret = self.symbols.ret(call.number, key)
        if value is not None:
            if not math.isfinite(value):
                call.flags |= NONFINITE
        elif kind is torch.Tensor and key[1].numel() == 1 and self._waits_for(state, call, result):
            pass
        elif call.flags & ENTRY and not self._finite(state, call, result, 2):
            call.flags |= NONFINITE
        self.close(state, call, ret, 0, math.nan if value is None else value, clock)

    def close(
        self,
        state: ThreadState,
        call: Call,
        ret: int,
        digest: int,
        value: float,
        clock: Iterator[int] | None = None,
    ) -> None:
        """Take a call from the stack and write its row; calls above it that never ended are closed as raised."""
        stack = state.stack
        while stack:
            top = stack.pop()
            if top is call:
                break
            self.writer.call(self.clock, state.thread, top.flags | RAISED, top, 0, 0, math.nan)
        self.writer.call(clock or self.clock, state.thread, call.flags, call, ret, digest, value)

    def end_raised(self, state: ThreadState, call: Call) -> None:
        """Close a call that raised."""
        call.flags |= RAISED
        self.close(state, call, 0, 0, math.nan)

    def _waits_for(self, state: ThreadState, call: Call, result: torch.Tensor) -> bool:
        """Whether a call has returned one number that lies on another device: its row is completed later."""
        readable = content.local(result) if result.dtype.is_floating_point and not unobservable() else None
        if readable is None or not is_far(readable):
            return False
        with quiet(state):
            if self.waiting.full:
                self.waiting.write()
            self.waiting.value(call.seq, readable)
        return True

    def write_waiting(self, state: ThreadState) -> None:
        """Complete the rows of calls that have returned something on other devices, which are waited for."""
        if self.waiting and not unobservable():
            with quiet(state):
                self.waiting.write()

    def _finite(self, state: ThreadState, call: Call, result: Any, depth: int) -> bool:
        if issubclass(type(result), torch.Tensor):
            if unobservable():
                return True
            readable = content.local(result)
            if readable is None or readable.layout is not torch.strided or content.surely_finite(readable):
                return True
            with quiet(state):
                if not is_far(readable):
                    return content.all_finite(readable)
                if self.waiting.full:
                    self.waiting.write()
                self.waiting.finite(call.seq, readable)
                return True
        if not depth:
            return True
        named = pairs(result)
        items = (sequence(result) or ()) if named is None else [item for _, item in named]
        return all(self._finite(state, call, item, depth - 1) for item in items)

    def drop_stale_step(self, state: ThreadState) -> None:
        """Close an optimizer step on top of the stack that was left by an exception: its hook never told us."""
        call = state.stack[-1]
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code is self.step_code:
                return
            frame = frame.f_back
        state.in_step = 0
        state.closure = None
        self.end_raised(state, call)

    def name_thread(self, state: ThreadState) -> None:
        """Give the calling thread its number."""
        state.thread = self.symbols.new("thread", {"name": threading.current_thread().name})

    def failed(self, where: str, error: BaseException) -> None:
        """Count a failure of the probe's own, and raise what is the user's: a signal may arrive while the probe works.

        A program may be so deep in calls that there is no room for the probe's, and an object may raise when it is
        asked for an attribute: then the probe has not looked, which is noted, and that is no failure.
        """
        if is_theirs(error):
            raise error
        if isinstance(error, RecursionError):
            self.writer.leave_out(f"{where}: the program was as deep in calls as it may be")
        elif is_of_an_object(error):
            self.writer.leave_out(f"{where}: an object that was looked at raised {type(error).__name__}")
        else:
            self.writer.error(where, error)

    def abandon(self, state: ThreadState, open_calls: int | None, grad: bool, where: str, error: BaseException) -> None:
        """As `failed`; calls that were opened since there were so many are forgotten, and gradients are recorded again
        if they were.
        """
        left_in_the_middle(state, grad)
        if open_calls is not None:
            del state.stack[open_calls:]
        self.failed(where, error)

    # changes

    def emitter(self, state: ThreadState, parent: Call | None, clock: Iterator[int] | None = None) -> Emit:
        """What writes changes that happened in `parent` (none: outside every call); `clock`: at which times, where that
        is not now.
        """
        if self.native is not None and clock is None and parent is not None and state.thread:
            known: Emit = self.native.emit(self.clock, state.thread, parent.seq, parent.ctx, parent.src)
            return known
        clock = clock or self.clock
        if not state.thread:
            self.name_thread(state)
        if parent is None:
            return self._outside(state.thread, clock)
        return self._emitter(state.thread, clock, parent.seq, parent.ctx, parent.src)

    def _emitter(self, thread: int, clock: Iterator[int], seq: int, ctx: int, src: int) -> Emit:
        if self.native is not None:
            emit: Emit = self.native.emit(clock, thread, seq, ctx, src)
            return emit
        writer = self.writer

        def write(var: int, old: int, new: int, digest: int, value: float) -> None:
            writer.change(clock, thread, seq, var, ctx, src, old, new, digest, value)

        return write

    def _outside(self, thread: int, clock: Iterator[int]) -> Emit:
        """What writes changes outside of every call, which are rare: context and line are asked for with the first."""
        made: Emit | None = None

        def around() -> tuple[int, int]:
            return self.symbols.ctx(context_key()), self.sources.find(1, 0)

        if self.native is not None:
            known: Emit = self.native.emit(clock, thread, 0, 0, 0, around)
            return known

        def write(var: int, old: int, new: int, digest: int, value: float) -> None:
            nonlocal made
            if made is None:
                made = self._emitter(thread, clock, 0, *around())
            made(var, old, new, digest, value)

        return write

    def enclosing(self, state: ThreadState) -> Emit:
        """What writes changes that happened in the innermost open call."""
        return self.emitter(state, innermost(state))

    def note_rates(self, state: ThreadState, optimizer: torch.optim.Optimizer) -> None:
        """Write the learning rates that have moved before a step, which the compiled core does the rest of."""
        with unseen(self, "noting learning rates"):
            self.optimizers.note_rates(optimizer, self.enclosing(state))

    def look_at_attributes(self, optimizer: int, call: Call) -> None:
        """Look at plain attributes of modules before a step, which the compiled core does the rest of."""
        with unseen(self, "looking at attributes"):
            self.attributes.look(optimizer, call.seq)

    def before_entry(self, state: ThreadState, among: Collection[Root] | None = None) -> None:
        """Before an entry call or an optimizer's work: names may be new, and what is new has an initial state.

        `among` says which roots may have gained or lost entries since the last time; `None`: any.
        """
        if native is not None and native.names_settled(self.modules, self.variables, among):
            return
        self.variables.refresh(among)
        if self.variables.unseen and not unobservable():
            with quiet(state):
                enclosing = innermost(state)
                self.variables.look_at_new(
                    self.enclosing(state),
                    self.measures.of_first_looks(state, enclosing),
                    self.measures if self.measures.wanted else None,
                )
                if not self.measures.wanted:
                    self.variables.forget_samples()
            if self.measures.waiting:
                self.measures.write_waiting(state)

    def look(self, state: ThreadState, parent: Call | None, values: bool = False, gradients: bool = False) -> None:
        """Look at parameters and buffers, or at gradients, where something suggests a change that happened in `parent`
        (none: outside every call).
        """
        if unobservable() or self.variables.nothing_new(values, gradients):
            return
        emit = self.emitter(state, parent)
        if values:
            self.variables.look_at_values(emit, quiet(state))
        if gradients:
            self.variables.look_at_gradients(emit, False, quiet(state))
