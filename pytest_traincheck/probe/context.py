"""What surrounds an event: this thread's open calls, the context, and a quiet place for the probe's own work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import CodeType, MappingProxyType
from typing import TYPE_CHECKING, Any

import torch

from .core import native
from .symbols import Api

if TYPE_CHECKING:
    from .recorder import Recorder

RAISED, ENTRY, TRAINING, NONFINITE = 1, 2, 4, 8
"""Flags of a call."""

NO_KWARGS: Mapping[str, Any] = MappingProxyType({}) if native is None else native.NO_KWARGS


class Call:
    """A call that has begun and not ended."""

    __slots__ = (
        "api", "args", "ctx", "family", "flags", "given", "kwargs", "mod", "number", "opens", "opt", "parent", "seq",
        "src",
    )  # fmt: skip

    def __init__(self, seq: int, parent: int, api: Api, number: int, ctx: int, args: int, src: int, mod: int) -> None:
        self.seq = seq
        self.parent = parent
        self.api = api
        self.number = number
        self.ctx = ctx
        self.args = args
        self.src = src
        self.mod = mod
        self.opt = 0
        self.flags = 0
        self.family: object | None = None
        """What observes the call, where it is asked whether another one lies within it."""
        self.opens = 0
        """How many modules the call opens: one, or none where it is a wrapper's."""
        self.given: tuple[Any, ...] = ()
        self.kwargs: Mapping[str, Any] = NO_KWARGS


class ThreadState:
    """Open calls of one thread."""

    __slots__ = ("busy", "closure", "guards", "in_step", "modules", "stack", "thread")

    def __init__(self) -> None:
        self.stack: list[Call] = []
        self.busy = False
        self.guards: list[Any] = []
        """What keeps the probe's own work apart at the moment, see `quiet`."""
        self.thread = 0
        self.modules = 0
        self.in_step = 0
        self.closure: CodeType | None = None


if native is not None:
    Call = native.Call  # type: ignore[misc]
    ThreadState = native.ThreadState  # type: ignore[misc]


def innermost(state: ThreadState) -> Call | None:
    """The innermost open call of a thread."""
    return state.stack[-1] if state.stack else None


class Threads(threading.local):
    """The state of each thread. `__init__` runs once in every thread; the state is an object of its own because
    attributes of a thread-local object are slow to read."""

    def __init__(self) -> None:
        self.state = ThreadState()


def context_key(compiled: bool = False) -> tuple[Any, bool, bool, bool, bool]:
    """(autocast dtype or None, grad mode, inference mode, inside backward, compiled) of this thread, for `ctx`."""
    autocast: Any = None
    if _any_autocast():
        if torch.is_autocast_enabled("cpu"):
            autocast = torch.get_autocast_dtype("cpu")
        elif _CUDA and torch.is_autocast_enabled("cuda"):
            autocast = torch.get_autocast_dtype("cuda")
    return (autocast, _grad_enabled(), _inference(), _graph_task() != -1, compiled)


_CUDA: bool = torch.backends.cuda.is_built()  # type: ignore[no-untyped-call]
_any_autocast: Callable[[], bool] = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)
_grad_enabled, _inference = torch.is_grad_enabled, torch.is_inference_mode_enabled
_graph_task = torch._C._current_graph_task_id


class unseen:
    """A place for the probe's own work that reads and runs nothing: what fails in it is counted, and no mode or
    subclass of the user's is asked about the attributes of a tensor.
    """

    __slots__ = ("_function", "_grad", "_recorder", "_where")

    def __init__(self, recorder: Recorder, where: str) -> None:
        self._recorder = recorder
        self._where = where
        self._grad = torch.is_grad_enabled()

    def __enter__(self) -> None:
        self._function = torch._C.DisableTorchFunction()
        self._function.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        self._function.__exit__(None, None, None)
        if error is not None:
            self._recorder.abandon(self._recorder.threads, None, self._grad, self._where, error)
        return True


class quiet:
    """The probe's own tensor work: no gradients, no autocast, none of the user's function or dispatch modes."""

    __slots__ = ("_before", "_grad", "_profiled", "_state", "_sync_mode")

    def __init__(self, state: ThreadState) -> None:
        self._state = state
        self._before = len(state.guards)

    def __enter__(self) -> None:
        self._state.busy = True
        self._grad = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        self._profiled = _profiling()
        if self._profiled:
            _record_functions(False)
        # A program may have torch warn, or raise, where a device is waited for.
        self._sync_mode = _sync_mode()
        if self._sync_mode:
            _set_sync_mode(0)
        for make in _GUARDS:
            guard = make()
            self._state.guards.append(guard)
            guard.__enter__()

    def __exit__(self, *exc: object) -> None:
        _end(self._state.guards, self._before)
        if self._sync_mode:
            _set_sync_mode(self._sync_mode)
        if self._profiled:
            _record_functions(True)
        torch._C._set_grad_enabled(self._grad)
        self._state.busy = False


if native is not None:
    unseen = native.unseen  # type: ignore[misc]
    quiet = native.quiet  # type: ignore[misc]

_GUARDS: tuple[Callable[[], Any], ...] = (
    torch._C._DisableAutocast,
    torch._C.DisableTorchFunction,
    torch._C._DisableTorchDispatch,
)


def _end(guards: list[Any], kept: int) -> None:
    """End guards in the opposite order: each puts back what it found."""
    while len(guards) > kept:
        guards.pop().__exit__(None, None, None)


def left_in_the_middle(state: ThreadState, grad: bool) -> None:
    """Undo what a `quiet` has done that was left before it was whole: a signal may arrive between any two instructions.

    Its guards would end by themselves, but in any order, and not before the exception that was raised is forgotten.
    """
    state.busy = False
    _end(state.guards, 0)
    torch._C._set_grad_enabled(grad)
    if _profiling():
        _record_functions(True)


_sync_mode: Callable[[], int] = getattr(torch._C, "_cuda_get_sync_debug_mode", lambda: 0)
_set_sync_mode: Callable[[int], None] = getattr(torch._C, "_cuda_set_sync_debug_mode", lambda _: None)
_profiling: Callable[[], bool] = torch._C._autograd._profiler_enabled
_record_functions: Callable[[bool], None] = torch._C._autograd._enable_record_function


# To ask for the stack of transforms itself would make one for this thread, which autograd then copies for every node.
_transforming: Callable[[], bool] = torch._C._are_functorch_transforms_active


def unobservable() -> bool:
    """Whether tensors must not be looked at now: a functorch transform is active or a CUDA graph is being captured."""
    return _transforming() or capturing()


def capturing() -> bool:
    """Whether a CUDA graph is being captured."""
    if not _CUDA or not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    return bool(torch.cuda.is_current_stream_capturing())
