"""What all wrappers share: binding arguments to names, and the wrapper itself."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..context import Call, ThreadState
from ..summary import key_of
from ..symbols import Api

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder

is_compiling = torch.compiler.is_compiling

_LEFT_OUT = frozenset({"self", "_stacklevel"})


class Parameters:
    """Names and defaults of a callable's parameters, for showing arguments by name."""

    def __init__(self, source: Callable[..., Any] | None, *, method: bool = False) -> None:
        self._method = method
        self._signature: inspect.Signature | None
        try:
            self._signature = inspect.signature(source) if source is not None else None
        except (TypeError, ValueError):
            self._signature = None

    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Parameter name -> argument, as far as they are given; `self` left out."""
        if self._signature is not None:
            try:
                bound = self._signature.bind(*args, **kwargs)
            except TypeError:
                pass  # not callable like this: torch will say so
            else:
                found: dict[str, Any] = {}
                for index, (name, value) in enumerate(bound.arguments.items()):
                    if self._method and index == 0:
                        continue
                    if self._signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                        found.update(value)
                    else:
                        found[name] = value
                return found
        given = args[1:] if self._method else args
        return {**{f"arg{index}": value for index, value in enumerate(given)}, **kwargs}

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Parameter name -> summary key, defaults included; `self` (the first of a method) left out."""
        found: dict[str, Any] = {}
        if self._signature is not None:
            try:
                bound = self._signature.bind(*args, **kwargs)
            except TypeError:
                pass  # not callable like this: torch will say so
            else:
                bound.apply_defaults()
                for index, (name, value) in enumerate(bound.arguments.items()):
                    kind = self._signature.parameters[name].kind
                    if (self._method and index == 0) or name in _LEFT_OUT:
                        continue
                    if kind is inspect.Parameter.VAR_KEYWORD:
                        found.update({key: key_of(item) for key, item in value.items()})
                    else:
                        found[name] = key_of(value)
                return found
        for index, value in enumerate(args[1:] if self._method else args):
            found[f"arg{index}"] = key_of(value)
        found.update({name: key_of(value) for name, value in kwargs.items()})
        return found


def call_key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Summary key of an argument list."""
    if kwargs:
        return (
            *[key_of(value) for value in args],
            *[(name, key_of(value)) for name, value in kwargs.items()],
            len(args),
        )
    if len(args) == 1:
        return (key_of(args[0]),)
    return tuple([key_of(value) for value in args])


class Family:
    """What is particular to one kind of call. The methods run inside the wrapper; what they raise is counted."""

    method = False
    """Whether the first argument is `self`."""
    plain = False
    """Whether none of the methods below does anything beyond the default."""
    measuring = False
    """Whether the methods below only take measures, so that they have nothing to do when none are wanted."""
    outermost = False
    """Whether a call inside another call of this family goes unrecorded."""

    def api(self, recorder: Recorder, args: tuple[Any, ...]) -> Api | None:
        """Canonical API of this call, `None` to leave it unrecorded."""
        raise NotImplementedError

    def mod(self, recorder: Recorder, args: tuple[Any, ...]) -> int:
        """`mod` id of the module that the call is about; 0 for the innermost open module."""
        return 0

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Summary key of the arguments; equal for calls whose arguments read the same."""
        return call_key(args, kwargs)

    def before(self, recorder: Recorder, state: ThreadState, args: tuple[Any, ...]) -> None:
        """Runs before the call is opened."""

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        """Runs right after the call was opened."""

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        """Runs before the call is closed, when it returned."""

    def finish(self, recorder: Recorder, state: ThreadState, call: Call, result: Any) -> None:
        """Closes the call."""
        recorder.end(state, call, result)


class Named(Family):
    """Calls of one function with one name."""

    def __init__(self, name: str, kind: str, *, method: bool = False) -> None:
        self._api = Api(name, kind)
        self.method = method

    def api(self, recorder: Recorder, args: tuple[Any, ...]) -> Api | None:
        return self._api


def observed(
    probe: Probe, original: Callable[..., Any], family: Family, parameters: Parameters | None = None
) -> Callable[..., Any]:
    """A function that does what `original` does and records it. Its metadata is that of `original`."""
    names = parameters or Parameters(original, method=family.method)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        recorder = probe.recorder
        if recorder is None:
            return original(*args, **kwargs)
        state = recorder.threads
        if state.busy:
            return original(*args, **kwargs)
        call = _open(recorder, state, family, names, args, kwargs)
        if call is None:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException:
            _close_raised(recorder, state, call)
            raise
        _close(recorder, state, family, call, args, result)
        return result

    probe.stop_at(wrapper)
    return dressed(wrapper, original)


def recording(family: Family, probe: Probe) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What makes the wrapper of `observed` for an original that is not known yet."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        return observed(probe, original, family)

    return make


def dressed(wrapper: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """Give a wrapper the name, documentation and signature of what it wraps."""
    functools.update_wrapper(wrapper, original)
    return wrapper


def _open(
    recorder: Recorder,
    state: ThreadState,
    family: Family,
    names: Parameters,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Call | None:
    try:
        api = family.api(recorder, args)
        if api is None:
            return None
        if state.stack:
            top = state.stack[-1]
            if state.in_step and top.api.type == "optimizer":
                recorder.drop_stale_step(state)
                top = state.stack[-1] if state.stack else None  # type: ignore[assignment]
            if top is not None and (top.api is api or (family.outermost and _inside(state, family))):
                return None
        if family.plain or (family.measuring and not recorder.measures.wanted):
            call = recorder.begin(state, api, call_key(args, kwargs), names.bind, args, kwargs, 0, 2)
            if recorder.sketches.wanted:
                recorder.sketches.opened(state, call, names.named(args, kwargs))
            return call
        _prepare(recorder, state, family, args)
        seen = args[1:] if family.method else args
        mod = family.mod(recorder, args)
        call = recorder.begin(state, api, family.key(seen, kwargs), names.bind, args, kwargs, mod, 2)
        call.entry = family
        call.kwargs = kwargs
        family.opened(recorder, state, call, args)
        if recorder.sketches.wanted:
            recorder.sketches.opened(state, call, names.named(args, kwargs))
        return call
    except Exception as error:  # noqa: BLE001 - a failure of the probe must never reach the user's code
        state.busy = False
        recorder.failed("opening a call", error)
        return None


def _prepare(recorder: Recorder, state: ThreadState, family: Family, args: tuple[Any, ...]) -> None:
    """Look around before the call. The call is recorded even if that fails."""
    try:
        family.before(recorder, state, args)
    except Exception as error:  # noqa: BLE001 - see `_open`
        state.busy = False
        recorder.failed("before a call", error)


def _inside(state: ThreadState, family: Family) -> bool:
    return any(type(call.entry) is type(family) for call in state.stack)


def _close(
    recorder: Recorder, state: ThreadState, family: Family, call: Call, args: tuple[Any, ...], result: Any
) -> None:
    try:
        if recorder.sketches.wanted:
            recorder.sketches.closing(state, call, result)
        if family.plain or (family.measuring and not recorder.measures.wanted):
            recorder.end(state, call, result)
            return
        family.after(recorder, state, call, args, result)
    except Exception as error:  # noqa: BLE001 - see `_open`
        state.busy = False
        recorder.failed(f"after {call.api.name}", error)
    try:
        family.finish(recorder, state, call, result)
    except Exception as error:  # noqa: BLE001 - see `_open`
        state.busy = False
        recorder.failed(f"closing {call.api.name}", error)


def _close_raised(recorder: Recorder, state: ThreadState, call: Call) -> None:
    try:
        recorder.end_raised(state, call)
    except Exception as error:  # noqa: BLE001 - see `_open`
        recorder.failed(f"closing {call.api.name}", error)
