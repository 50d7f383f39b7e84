"""Calls of modules, and the birth of modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..by_class import ByClass
from ..context import ENTRY, TRAINING, Call, ThreadState, innermost, quiet, unobservable, unseen
from ..core import native
from ..in_place import Hooks, InPlace
from ..modules import ModuleInfo, has_parameters
from ..storages import remembered
from ..walk import pairs, sequence
from . import generation
from .asked import Asked
from .base import DisableTorchFunction, Parameters, call_key, is_compiling, watch

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder

_signatures = ByClass[Parameters]()


def install(probe: Probe) -> None:
    """Observe `torch.nn.Module.__call__`, `__init__` and `__setstate__` (copies and unpickled modules go there)."""
    _observe_calls(probe)
    classes = ByClass[bool]()

    def entered(module: torch.nn.Module, *_: Any, **__: Any) -> torch.nn.Module:
        return module

    def left(module: torch.nn.Module, _: Any) -> None:
        if probe.recorder is not None:
            probe.recorder.modules.add(module)
            cls = type(module)
            if not classes.get(cls):
                classes.put(cls, True)
                generation.prepare(probe, cls)

    for function in (torch.nn.Module.__init__, torch.nn.Module.__setstate__):
        watch(probe, function, entered, left, light=True)


def _observe_calls(probe: Probe) -> None:
    asked = Asked(probe)

    def enter(module: torch.nn.Module, *args: Any, **kwargs: Any) -> tuple[torch.nn.Module, Call] | None:
        recorder = probe.recorder
        if recorder is None:
            return None
        state = recorder.thread_states.state
        if state.busy or is_compiling():
            return None
        open_calls, open_modules = len(state.stack), state.modules
        try:
            if recorder.sampling is not None and recorder.sampling.entries_left and not open_modules:
                with unseen(recorder, "after a rare call"):
                    recorder.sampling.called(module)
                if recorder.sampling.asleep:
                    return None
            call = _open(recorder, state, module, args, kwargs)
        except RecursionError:
            del state.stack[open_calls:]
            state.modules = open_modules
            return None
        if call is None:
            return None
        if call.flags & ENTRY:
            with unseen(recorder, "looking for functions around a model"):
                asked.called(call)
        return module, call

    def leave(token: tuple[torch.nn.Module, Call], result: Any) -> None:
        recorder = probe.recorder
        if recorder is not None:
            _close(recorder, recorder.thread_states.state, token[0], token[1], result)

    def raised(token: tuple[torch.nn.Module, Call]) -> None:
        recorder = probe.recorder
        if recorder is not None:
            with unseen(recorder, "closing a module's call"):
                recorder.thread_states.state.modules -= token[1].opens
                recorder.end_raised(recorder.thread_states.state, token[1])

    hooks = Hooks(enter, leave, raised)
    if native is not None:
        entering, leaving = native.module_hooks(probe, asked, enter, leave)
        hooks = Hooks(entering, leaving, raised)
    patch = probe.patches.observe(torch.nn.Module.__call__, lambda _: hooks)
    if isinstance(patch, InPlace):
        probe.stop_at(patch.observed)


def _open(
    recorder: Recorder, state: ThreadState, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Call | None:
    open_calls, open_modules, grad = len(state.stack), state.modules, torch.is_grad_enabled()
    unhandled = DisableTorchFunction()
    unhandled.__enter__()
    try:
        if state.in_step and state.stack and state.stack[-1].api.type == "optimizer":
            recorder.drop_stale_step(state)
            open_calls = len(state.stack)
        modules = recorder.modules
        transparent = 0
        info = modules.info(module)
        named = info
        if info.wrapper:
            if info.wrapper.compiles:
                named = _inner(recorder, module)  # what is inside runs compiled and unseen: this call stands for it
            else:
                transparent = 1
        elif info.root is None and isinstance(module, torch.fx.GraphModule):
            return None  # made by a compiler, not by the user
        entry = not state.modules and not transparent and torch._C._current_graph_task_id() == -1
        if entry:
            if recorder.by_hand.waits:
                recorder.by_hand.about_to(state, "module")
            recorder.measures.entered(state)
            recorder.evaluations.entered(state)
            recorder.sketches.enter(state)
            recorder.before_entry(state, (named.root,) if named.root is not None else ())
            if recorder.values_moved and not torch.is_grad_enabled():
                recorder.values_moved = False
                recorder.look(state, innermost(state), values=True)
        api = named.api or modules.api(named)
        mod = named.mod or modules.mod(named)
        names = _signatures.get(named.cls) or _parameters_of(named.cls)
        call = recorder.begin(state, api, call_key(args, kwargs), names.bind, (module, *args), kwargs, mod, 3)
        if getattr(module, "training", False):  # a frozen script has none
            call.flags |= TRAINING
        if entry:
            call.flags |= ENTRY
            if not torch.is_grad_enabled():
                recorder.attributes.evaluate(state, call, recorder.measures)
                recorder.evaluated = (
                    recorder.evaluations.over and recorder.attributes.evaluated and recorder.sketches.evaluated
                )
        # A wrapper is not an open module for what it wraps, which stays the entry call with and without it.
        call.opens = 1 - transparent
        state.modules += call.opens
        if recorder.sketches.wanted:
            if entry:
                recorder.sketches.variables(state, call)
            recorder.sketches.opened(state, call, names.named((module, *args), kwargs))
        if entry and recorder.measures.wanted and not unobservable():
            if len(state.stack) > 1 and state.stack[-2].api.type == generation.KIND:
                _measure_context(recorder, state, call, names.named((module, *args), kwargs))
            _measure_inputs(recorder, state, call, names.bind((module, *args), kwargs), (args, kwargs))
            if named.root is not None and call.flags & TRAINING and torch.is_grad_enabled():
                _measure_data(recorder, state, call, module, named.root.id, names.named((module, *args), kwargs))
        elif entry and recorder.measures.following.wanted:
            model = named.root is not None and named.root.slots
            if model and call.flags & TRAINING and torch.is_grad_enabled():
                recorder.measures.following.given(state, call, (*args, *kwargs.values()))
        elif recorder.measures.early and call.flags & TRAINING:
            recorder.measures.passed_on(state, call, args, kwargs, lambda: names.named((module, *args), kwargs))
        if entry and named.root is not None and named.root.slots and recorder.measures.given.wants(call):
            recorder.measures.given.to_model(recorder.measures, state, call, names.named((module, *args), kwargs))
        return call
    except BaseException as error:  # noqa: BLE001 - a failure of the probe must never reach the user's code
        state.modules = open_modules
        recorder.abandon(state, open_calls, grad, f"calling {type(module).__name__}", error)
        return None
    finally:
        unhandled.__exit__(None, None, None)


def _measure_inputs(
    recorder: Recorder, state: ThreadState, call: Call, arguments: dict[str, Any], inputs: tuple[Any, Any]
) -> None:
    """The content of a training forward's inputs, and which of them are sequences of tokens."""
    if not (call.flags & TRAINING and torch.is_grad_enabled()):
        return
    args, kwargs = inputs
    recorder.measures.content_of(state, "model.input", call, (*args, *kwargs.values()))
    named = [*zip(arguments, args, strict=False), *kwargs.items()]
    held = [remembered(tensor) for tensor in _token_tensors(named, 2)]
    recorder.measures.forget_inputs()
    recorder.measures.tokens = tuple(item for item in held if item is not None)


def _measure_context(recorder: Recorder, state: ThreadState, call: Call, arguments: dict[str, Any]) -> None:
    """The tokens that a model goes on from within `generate`; one column, as beside a cache, is no context, and where
    one token stands in all of them another one of it makes no difference.
    """
    tokens = next((item for item in _token_tensors([*arguments.items()], 2) if item.shape[1] > 1), None)
    if tokens is None:
        return
    with quiet(state):
        varies = bool((tokens != tokens[:, :1]).any())
    if varies:
        recorder.measures.content_of(state, "generate.context", call, tokens)


def _measure_data(
    recorder: Recorder, state: ThreadState, call: Call, module: torch.nn.Module, root: int, arguments: dict[str, Any]
) -> None:
    """How large a model's inputs are, and how much of them is new; a loss or another module without parameters is no
    model.
    """
    if has_parameters(module):
        if recorder.measures.early:
            recorder.measures.inputs(state, call, arguments)
        recorder.measures.renewal(state, call, root, arguments)
        recorder.measures.fed_back(state, call, root, arguments)


def _token_tensors(named: list[tuple[str, Any]], depth: int) -> list[torch.Tensor]:
    """Matrices of integers among arguments, in batches to a depth, except what is called a label."""
    found: list[torch.Tensor] = []
    for name, value in named:
        if "label" in name:
            continue
        if type(value) is torch.Tensor:
            if value.dim() == 2 and value.dtype in (torch.int64, torch.int32):
                found.append(value)
        elif depth:
            inner = pairs(value)
            if inner is None:
                items = sequence(value) or ()
                fields: Any = getattr(type(value), "_fields", None)
                named_tuple = type(fields) is tuple and len(fields) == len(items)
                inner = [*zip(fields, items, strict=True)] if named_tuple else [(name, item) for item in items[:8]]
            found += _token_tensors(inner, depth - 1)
    return found


def _parameters_of(cls: type[torch.nn.Module]) -> Parameters:
    # A scripted module hides its `forward`, so its arguments go by number.
    forward = None if issubclass(cls, torch.jit.ScriptModule) else cls.forward
    return _signatures.put(cls, Parameters(forward, method=True))


def _inner(recorder: Recorder, module: torch.nn.Module) -> ModuleInfo:
    return recorder.modules.info(recorder.modules.wrappers.unwrap(module))


def _close(recorder: Recorder, state: ThreadState, module: torch.nn.Module, call: Call, result: Any) -> None:
    with unseen(recorder, f"closing {call.api.name}"):
        state.modules -= call.opens
        with unseen(recorder, f"after {call.api.name}"):
            if recorder.sketches.wanted:
                recorder.sketches.closing(state, call, result)
            if call.flags & ENTRY:
                recorder.sketches.leave()
                _look_at_buffers(recorder, state, module, call)
                recorder.evaluations.returned(state, call)
                recorder.evaluations.result(state, call, result)
            if call.flags & TRAINING and torch.is_grad_enabled():
                if recorder.measures.early:
                    recorder.measures.activation(state, call, result)
                if call.flags & ENTRY and recorder.measures.wanted and not unobservable():
                    _remember(recorder, state, module, result)
        recorder.end(state, call, result)


def _remember(recorder: Recorder, state: ThreadState, module: torch.nn.Module, result: Any) -> None:
    root = _inner(recorder, module).root
    if root is not None and root.slots:
        recorder.measures.returned(state, root.id, result)


def _look_at_buffers(recorder: Recorder, state: ThreadState, module: torch.nn.Module, call: Call) -> None:
    root = _inner(recorder, module).root
    if root is not None and root.buffered and not unobservable():
        recorder.variables.look_at_buffers(root, recorder.emitter(state, call), quiet(state))
