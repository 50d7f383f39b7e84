"""Optimizers: construction, steps and `zero_grad`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ...looks import UPDATES
from ..by_class import ByClass
from ..context import Call, ThreadState, innermost, quiet, unobservable, unseen
from ..core import native
from ..in_place import Hooks, InPlace
from ..names import class_name, library_of
from ..optimizers import APART
from ..sampling import CONSTRUCT
from ..summary import key_of
from ..symbols import Api
from .base import ZERO_GRAD, Family, Parameters, call_key, is_compiling, observe

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder

_apis = ByClass[dict[str, Api]]()
_signatures = ByClass[Parameters]()


def api_of(cls: type, method: str, kind: str) -> Api:
    """`torch.optim.AdamW.step`, `MODULE.Mine.step`."""
    apis = _apis.get(cls)
    if apis is None:
        apis = _apis.put(cls, {})
    api = apis.get(method)
    if api is None:
        name = class_name(cls)
        api = apis[method] = Api(f"{name}.{method}" if method else name, kind, library_of(cls.__module__))
    return api


class ZeroGrad(Family):
    """`Optimizer.zero_grad` and `Module.zero_grad`."""

    method = True
    trains = True
    part = ZERO_GRAD

    def api(self, recorder: Recorder, args: tuple[Any, ...]) -> Api | None:
        if isinstance(args[0], torch.nn.Module):
            return _MODULE_ZERO_GRAD
        return api_of(type(args[0]), "zero_grad", "zero_grad")

    def before(self, recorder: Recorder, state: ThreadState, args: tuple[Any, ...]) -> None:
        recorder.before_entry(state, ())  # the step will look at the names

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        if isinstance(args[0], torch.optim.Optimizer):
            call.opt = recorder.optimizers.info(args[0]).id

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        recorder.look(state, call, gradients=True)


_MODULE_ZERO_GRAD = Api("torch.nn.Module.zero_grad", "zero_grad", "torch")


def install(probe: Probe) -> None:
    """Observe the methods and register the two step hooks."""
    _observe_construction(probe)
    for owner in (torch.optim.Optimizer, torch.nn.Module):
        observe(probe, owner.zero_grad, ZeroGrad())
    steps = _Steps(probe)
    before, after = steps.before, steps.after
    if native is not None:
        before, after = native.step_hooks(probe, before, after, steps.ended, APART, steps.code)
    probe.on_removal(register_optimizer_step_pre_hook(before).remove)
    probe.on_removal(register_optimizer_step_post_hook(after).remove)


def _observe_construction(probe: Probe) -> None:
    def enter(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = None if is_compiling() else probe.recorder
        if recorder is None:
            return None
        if recorder.sampling is not None and not recorder.sampling.rare(recorder.thread_states.state, CONSTRUCT):
            return None
        call = _open_construct(recorder, args, kwargs, optimizer)
        return None if call is None else (optimizer, call)

    def leave(token: tuple[Any, Call], _: Any) -> None:
        if probe.recorder is not None:
            _close_construct(probe.recorder, *token)

    def raised(token: tuple[Any, Call]) -> None:
        recorder = probe.recorder
        if recorder is not None:
            with unseen(recorder, "constructing an optimizer"):
                recorder.end_raised(recorder.thread_states.state, token[1])

    patch = probe.patches.observe(torch.optim.Optimizer.__init__, lambda _: Hooks(enter, leave, raised), light=True)
    if isinstance(patch, InPlace):
        probe.stop_at(patch.observed)


def _open_construct(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any], optimizer: Any) -> Call | None:
    with unseen(recorder, "constructing an optimizer"):
        state = recorder.thread_states.state
        recorder.variables.refresh()
        recorder.variables.name_again()
        defaults = kwargs.get("defaults", args[1] if len(args) > 1 else None)
        hyper = {name: key_of(value, 1) for name, value in defaults.items()} if isinstance(defaults, dict) else {}
        api = api_of(type(optimizer), "", "construct")
        return recorder.begin(state, api, tuple(hyper.items()), _as_named, (), hyper, depth=3)
    return None


def _as_named(_: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return kwargs


def _close_construct(recorder: Recorder, optimizer: Any, call: Call) -> None:
    state = recorder.thread_states.state
    with unseen(recorder, "constructing an optimizer"):
        call.opt = recorder.optimizers.info(optimizer).id
        recorder.optimizers.note_groups(optimizer, call.seq)
        recorder.end(state, call, None)
        if recorder.limit is not None:
            recorder.limit.made(recorder.optimizers.info(optimizer))
        recorder.sketches.met_optimizer(state)
        recorder.measures.met_optimizer()


class _Steps:
    """The hooks around every real optimizer step."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe

    def before(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._probe.limit is not None:
            self._probe.limit.gate(trains=True)
        recorder = None if is_compiling() else self._probe.recorder
        if recorder is None or recorder.thread_states.state.busy:
            return
        if recorder.sampling is not None:
            recorder.sampling.goes_on()
            if recorder.sampling.asleep:
                recorder.sampling.begins_unseen(sys._getframe(1).f_code)
        if self._probe.patches.suspended:
            return
        state = recorder.thread_states.state
        open_calls = len(state.stack)
        try:
            with unseen(recorder, "before an optimizer step"):
                self._before(recorder, state, optimizer, args, kwargs)
        finally:
            if not state.in_step:
                del state.stack[open_calls:]  # a step that could not be opened wholly

    def _before(
        self, recorder: Recorder, state: ThreadState, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        recorder.step_code = sys._getframe(2).f_code
        if recorder.limit is not None:
            recorder.limit.begins(recorder.optimizers.info(optimizer).id)
        if state.in_step and state.stack and state.stack[-1].api.type == "optimizer":
            depth = state.in_step
            recorder.drop_stale_step(state)
            if state.in_step == depth and _frames_of(recorder.step_code) < 2:
                # Same code, one frame: the open step belongs to a call that has already been left.
                state.in_step = 0
                recorder.end_raised(state, state.stack[-1])
        if state.in_step:
            state.in_step += 1
            return
        if recorder.measures.early:
            recorder.copies.adopt()
        recorder.sketches.train()
        info = recorder.optimizers.info(optimizer)
        if not info.stepped:
            recorder.variables.name_again()
        recorder.before_entry(state)
        recorder.look(state, innermost(state), values=True, gradients=True)
        # Only now: what is in a place for one pass is gone again by the step.
        if recorder.variables.replaced and recorder.variables.name_again():
            recorder.before_entry(state)
            recorder.look(state, innermost(state), gradients=True)
        recorder.optimizers.note_rates(optimizer, recorder.enclosing(state))
        cls = type(optimizer)
        names = _signatures.get(cls)
        if names is None:
            names = _signatures.put(cls, Parameters(cls.step, method=True))
        # The instance is the first of the arguments that torch hands to its hooks.
        key = call_key(args[1:], kwargs)
        call = recorder.begin(state, api_of(cls, "step", "optimizer"), key, names.bind, args, kwargs, depth=2)
        call.opt = info.id
        recorder.optimizers.note_groups(optimizer, call.seq)
        recorder.attributes.look(info.id, call.seq)
        if recorder.measures.wanted:
            recorder.measures.random_states(state, call)
        elif recorder.measures.following.wanted:
            following = recorder.measures.following
            following.random_states(state, call, following.look(state))
        if recorder.sketches.wanted:
            recorder.sketches.variables(state, call)
            recorder.sketches.gradients(state, call)
            recorder.sketches.hyperparameters(call, optimizer)
        if not info.stepped:
            info.stepped = True
            recorder.measures.take(state, "optimizer.state", call, float(_holding(optimizer)), opt=info.id)
        elif recorder.measures.wanted:
            recorder.measures.take(state, "optimizer.held", call, float(_holding(optimizer)), opt=info.id)
        state.in_step = 1
        state.closure = _code_of(kwargs.get("closure", args[1] if len(args) > 1 else None))

    def after(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        recorder = None if is_compiling() else self._probe.recorder
        if recorder is None:
            return
        state = recorder.thread_states.state
        sampling = recorder.sampling
        if sampling is not None and sampling.asleep:
            with unseen(recorder, "after a step that is not observed"):
                sampling.ended_unseen(state, optimizer)
            return
        if not state.in_step or self._probe.patches.suspended:
            return
        with unseen(recorder, "after an optimizer step"):
            state.in_step -= 1
            recorder.values_moved = True
            if not state.in_step:
                self._after(recorder, state, optimizer)
                if sampling is not None:
                    sampling.ended(state, recorder.optimizers.number(optimizer))
                if recorder.limit is not None:
                    recorder.limit.stepped(recorder.optimizers.number(optimizer))

    def ended(self, optimizer: Any) -> None:
        """The compiled core has looked at a step, where not every one is observed."""
        recorder = self._probe.recorder
        if recorder is not None and recorder.sampling is not None:
            with unseen(recorder, "after an optimizer step"):
                recorder.sampling.ended(recorder.thread_states.state, recorder.optimizers.number(optimizer))

    def code(self, closure: Any) -> CodeType | None:
        """Code of a closure that a step is given, for the compiled core."""
        recorder = self._probe.recorder
        if recorder is not None:
            with unseen(recorder, "looking at a closure"):
                return _code_of(closure)
        return None

    def _after(self, recorder: Recorder, state: ThreadState, optimizer: Any) -> None:
        state.closure = None
        recorder.evaluations.stepped()
        while state.stack and state.stack[-1].api.type != "optimizer":
            recorder.end_raised(state, state.stack[-1])
        if not state.stack:
            return
        call = state.stack[-1]
        if not unobservable():
            outer = state.stack[-2] if len(state.stack) > 1 else None
            own = recorder.optimizers.tensors(optimizer)
            every = recorder.optimizers.all_tensors()
            with quiet(state):
                measure = recorder.measures.of_variables(state, call)
                recorder.variables.look_after_step(
                    own, every, recorder.emitter(state, call), recorder.emitter(state, outer), measure
                )
                if recorder.measures.wanted:
                    if UPDATES not in recorder.measures.not_needed:
                        recorder.variables.measure_updates(measure)
                    recorder.measures.take(state, "optimizer.left", call, float(_holding(optimizer)), opt=call.opt)
                    if recorder.measures.stepped(call.opt):
                        recorder.variables.forget_samples()
                elif recorder.measures.following.wanted:
                    recorder.measures.stepped(call.opt)
                recorder.waiting.write()
            if recorder.sketches.wanted:
                recorder.sketches.variables(state, call)
                recorder.sketches.stepped(call.opt, own, every)
        recorder.end(state, call, None)


def _holding(optimizer: Any) -> int:
    """For how many parameters an optimizer holds state; none where what it calls its state is something else."""
    state = getattr(optimizer, "state", None)
    if not isinstance(state, Mapping):
        return 0
    return sum(isinstance(kept, Mapping) and len(kept) > 0 for kept in state.values())


def _frames_of(code: CodeType | None) -> int:
    frame: FrameType | None = sys._getframe(1)
    count = 0
    while frame is not None:
        count += frame.f_code is code
        frame = frame.f_back
    return count


def _code_of(closure: Any) -> CodeType | None:
    """Code of the function that the user passed as closure."""
    while isinstance(closure, functools.partial):
        closure = closure.func
    closure = getattr(closure, "__wrapped__", closure)
    code = getattr(closure, "__code__", None)
    if code is None and closure is not None:
        code = getattr(type(closure).__call__, "__code__", None)  # an object that is called
    return code
