"""Compiled regions: the probe steps aside completely, and what runs inside is one call.

A compiler must see torch as it is without us, or it would compile our wrappers into its graphs.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from ..context import Call, ThreadState
from ..imports import after_import, around_imports, forget
from ..symbols import Api
from .base import call_key, dressed, is_compiling

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder

# These fill tables keyed by torch's functions while they are imported.
_COMPILERS = (
    "torch._dynamo",
    "torch._inductor",
    "torch._functorch",
    "torch._higher_order_ops",
    "torch._export",
    "torch.export",
    "torch._refs",
    "torch._decomp",
    "torch._lazy",
    "torch._jit_internal",
    "torch.jit",
    "torch.fx",
    "torch.onnx",
    "torch.overrides",
    "torch.ao",
    "torch.distributed.tensor",
)
_DYNAMO = "torch._dynamo.eval_frame"
_ATTRIBUTE = "_torchdynamo_wrapper_id"


def install(probe: Probe) -> None:
    """Stand aside for compilers and tracers; dynamo is prepared when the user's code imports it."""
    tracers = [(torch.jit, "script"), (torch.jit, "trace"), (torch.fx.Tracer, "trace")]
    for owner, name in tracers:
        probe.patches.replace(owner, name, lambda original: _aside(probe, original), alias=False, keep=True)
    probe.on_removal(around_imports(_COMPILERS, lambda: probe.patches.suspend(adopt=False), probe.patches.resume))
    late = {
        _DYNAMO: lambda: _prepare_dynamo(probe),
        "torch.export": lambda: _late(probe, "torch.export", "export"),
        "torch.fx.experimental.proxy_tensor": lambda: _late(probe, "torch.fx.experimental.proxy_tensor", "make_fx"),
    }
    for module, prepare in late.items():
        after_import(module, prepare)
        probe.on_removal(functools.partial(forget, prepare))


def _late(probe: Probe, module: str, name: str) -> None:
    replace = probe.patches.replace
    if name == "make_fx":
        # What it returns does the tracing.
        replace(sys.modules[module], name, lambda original: _returned_aside(probe, original), alias=False, keep=True)
    else:
        replace(sys.modules[module], name, lambda original: _aside(probe, original), alias=False, keep=True)


def _aside(probe: Probe, original: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with probe.patches.pristine():
            return original(*args, **kwargs)

    return dressed(wrapper, original)


def _returned_aside(probe: Probe, original: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return _aside(probe, original(*args, **kwargs))

    return dressed(wrapper, original)


def _prepare_dynamo(probe: Probe) -> None:
    try:
        context = sys.modules[_DYNAMO]._TorchDynamoContext
        probe.patches.replace(context, "__call__", lambda original: _making(probe, original), alias=False, keep=True)
    except Exception as error:  # noqa: BLE001 - a failure of the probe must never reach the user's code
        if probe.recorder is not None:
            probe.recorder.failed("preparing for torch.compile", error)


def _making(probe: Probe, original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap what makes compiled functions, so that every compiled function it returns is a region."""

    def wrapper(self: Any, fn: Any) -> Any:
        if is_compiling() or probe.recorder is None:
            return original(self, fn)
        with probe.patches.pristine():
            made = original(self, _without_wrapper(probe, fn))
        return _region(probe, made, fn) if inspect.isfunction(made) else made

    return dressed(wrapper, original)


def _without_wrapper(probe: Probe, fn: Any) -> Any:
    """`fn`, or the original of the wrapper of ours that it is, also where it is bound to a module."""
    if inspect.ismethod(fn):
        function = probe.patches.original(fn.__func__)
        return fn if function is fn.__func__ else function.__get__(fn.__self__)
    return probe.patches.original(fn)


def _region(probe: Probe, made: Callable[..., Any], fn: Any) -> Callable[..., Any]:
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        name = type(owner).__qualname__
    api = Api(f"torch.compile({name})", "compile", "torch")

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return made(*args, **kwargs)
        recorder = probe.recorder
        if recorder is None or recorder.threads.busy or probe.patches.suspended:
            return made(*args, **kwargs)
        state = recorder.threads
        call = _open(recorder, state, api, args, kwargs)
        probe.patches.suspend()
        try:
            result = made(*args, **kwargs)
        except BaseException:
            probe.patches.resume()
            if call is not None:
                recorder.end_raised(state, call)
            raise
        probe.patches.resume()
        if call is not None:
            _close(recorder, state, call, result)
        return result

    probe.stop_at(wrapper)
    dressed(wrapper, made)
    if hasattr(wrapper, _ATTRIBUTE):
        # Dynamo recognises its own wrappers by this number and looks through them.
        setattr(wrapper, _ATTRIBUTE, id(wrapper))
    return wrapper


def _unnamed(*_: Any) -> dict[str, Any]:
    return {}


def _open(
    recorder: Recorder, state: ThreadState, api: Api, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Call | None:
    try:
        if not state.modules:
            recorder.before_entry(state)
        return recorder.begin(state, api, call_key(args, kwargs), _unnamed, args, kwargs, depth=2, compiled=True)
    except Exception as error:  # noqa: BLE001 - a failure of the probe must never reach the user's code
        state.busy = False
        recorder.failed("entering a compiled region", error)
        return None


def _close(recorder: Recorder, state: ThreadState, call: Call, result: Any) -> None:
    try:
        recorder.end(state, call, result)
    except Exception as error:  # noqa: BLE001 - see `_open`
        state.busy = False
        recorder.failed("leaving a compiled region", error)
