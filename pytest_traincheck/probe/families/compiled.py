"""Compiled regions: the probe steps aside completely, and what runs inside is one call.

A compiler must see torch as it is without us, or it would compile our hooks into its graphs.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from ..context import Call, ThreadState, unseen
from ..imports import after_import, forget
from ..in_place import Hooks, InPlace
from ..symbols import Api
from .base import call_key, is_compiling, unseen_by, watch

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder

_DYNAMO = "torch._dynamo.eval_frame"


def install(probe: Probe) -> None:
    """Stand aside for compilers and tracers; dynamo is prepared when the user's code imports it."""
    _stand_aside(probe, torch.jit.trace)
    _stand_aside(probe, torch.fx.Tracer.trace)
    late = {
        _DYNAMO: lambda: _prepare_dynamo(probe),
        "torch.export": lambda: _stand_aside(probe, sys.modules["torch.export"].export),
        _PROXY: lambda: _stand_aside(probe, sys.modules[_PROXY]._MakefxTracer.trace),
    }
    for module, prepare in late.items():
        prepare = functools.partial(_late, probe, module, prepare)
        after_import(module, prepare)
        probe.on_removal(functools.partial(forget, prepare))


_PROXY = "torch.fx.experimental.proxy_tensor"


def _late(probe: Probe, module: str, prepare: Callable[[], None]) -> None:
    with unseen_by(probe, f"preparing for {module}"):
        prepare()


def _stand_aside(probe: Probe, tracer: Any) -> None:
    """Leave torch alone while a function traces what it is given."""

    def entered(*_: Any, **__: Any) -> str:
        probe.patches.suspend()
        return "call"

    def ended(*_: Any) -> None:
        probe.patches.resume()

    watch(probe, tracer, entered, ended, ended, always=True, compiling=True)


def _prepare_dynamo(probe: Probe) -> None:
    def entered(_: Any, fn: Any, *__: Any, **___: Any) -> tuple[Any]:
        return (fn,)

    def left(token: tuple[Any], made: Any) -> None:
        if inspect.isfunction(made) and made is not token[0]:
            _observe_region(probe, made, token[0])

    watch(probe, sys.modules[_DYNAMO]._TorchDynamoContext.__call__, entered, left, always=True)


def _observe_region(probe: Probe, made: Any, fn: Any) -> None:
    """Every compiled function that dynamo makes is a region."""
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        name = type(owner).__qualname__
    api = Api(f"torch.compile({name})", "compile", "torch")

    def enter(*args: Any, **kwargs: Any) -> Any:
        recorder = probe.recorder
        if is_compiling() or recorder is None or recorder.threads.busy or probe.patches.suspended:
            return None
        call = _open(recorder, recorder.threads, api, args, kwargs)
        probe.patches.suspend()
        return (call,)

    def leave(token: tuple[Call | None], result: Any) -> None:
        probe.patches.resume()
        recorder = probe.recorder
        if recorder is not None and token[0] is not None:
            _close(recorder, recorder.threads, token[0], result)

    def raised(token: tuple[Call | None]) -> None:
        probe.patches.resume()
        recorder = probe.recorder
        if recorder is not None and token[0] is not None:
            with unseen(recorder, "leaving a compiled region"):
                recorder.end_raised(recorder.threads, token[0])

    patch = probe.patches.observe(made, lambda _: Hooks(enter, leave, raised), always=True)
    if isinstance(patch, InPlace):
        probe.stop_at(patch.observed)


def _unnamed(*_: Any) -> dict[str, Any]:
    return {}


def _open(
    recorder: Recorder, state: ThreadState, api: Api, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Call | None:
    with unseen(recorder, "entering a compiled region"):
        if not state.modules:
            recorder.before_entry(state)
        return recorder.begin(state, api, call_key(args, kwargs), _unnamed, args, kwargs, depth=3, compiled=True)
    return None


def _close(recorder: Recorder, state: ThreadState, call: Call, result: Any) -> None:
    with unseen(recorder, "leaving a compiled region"):
        recorder.end(state, call, result)
