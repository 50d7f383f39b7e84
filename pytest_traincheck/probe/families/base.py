"""What all observed functions share: binding arguments to names, and recording a call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from ..context import NO_KWARGS, Call, ThreadState, left_in_the_middle, unseen
from ..core import native
from ..in_place import Hooks, InPlace
from ..names import is_user_file
from ..patch import Kind
from ..summary import key_of
from ..symbols import Api

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder

Enter = Callable[..., Any]
Leave = Callable[[Any, Any], None]
Compiled = Callable[[Enter, Leave], tuple[Enter, Leave]]
"""Makes hooks of the compiled core, which do the same as these, of Python's, and leave to them what is unusual."""

is_compiling = torch.compiler.is_compiling
DisableTorchFunction = torch._C.DisableTorchFunction
"""What the probe reads of a tensor is no call of a user's mode or of a subclass with a `__torch_function__`."""

ZERO_GRAD, LOSS, BACKWARD, CLIP, MODE, SCHEDULE = range(6)
"""Parts of a training step that the compiled core records where nothing is measured, as in `core/parts.c`."""
MEASURED, AVERAGED, ALONE, FETCHED = range(4)
"""When a function has something to tell, as in `core/watches.c`: while steps are measured or sketched; in the first
steps, or while copies of parameters may be averages; while another thread may train; while steps are measured, or in a
worker that tells of its fetches.
"""
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
        self._places: dict[str, int] = {}
        if self._signature is not None:
            positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            named = [name for name, item in self._signature.parameters.items() if item.kind in positional]
            self._places = {name: place for place, name in enumerate(named)}

    def argument(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str, default: Any = None) -> Any:
        """The argument for one parameter, however it was given."""
        place = self._places.get(name)
        if place is not None and place < len(args):
            return args[place]
        return kwargs.get(name, default)

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
    if native is not None and (found := native.call_key(args, kwargs)) is not None:
        return found
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
    """What is particular to one kind of call. The methods run around it; what they raise is counted."""

    method = False
    """Whether the first argument is `self`."""
    plain = False
    """Whether none of the methods below does anything beyond the default."""
    measuring = False
    """Whether the methods below only take measures, so that they have nothing to do when none are wanted."""
    outermost = False
    """Whether a call inside another call of this family goes unrecorded."""
    rare = ""
    """What kind of rare call it is, for which a probe that sleeps wakes; see `Sampling`."""
    trains = False
    """Whether it is part of a training step."""
    simple: Api | None = None
    """The API of all its calls, where each is recorded with nothing beside it, as `plain` and `measuring` say, or lies
    within an optimizer's own step; it is not `rare`, nor does it train.
    """
    nested: Api | None = None
    """The API of all its calls, where most are made by another of them, which alone is recorded. Whether such a call
    is rare matters to nobody but a probe that sleeps.
    """
    part: int | None = None
    """Which part of a training step it is, where the compiled core knows of it."""
    when: int | None = None
    """When it has anything to tell, where the compiled core knows of it: otherwise nobody asks for its `api`."""
    compiled: Compiled | None = None
    """What makes its hooks, where the compiled core has some for it alone, called from the function's own frame."""
    parameters: Parameters
    """Those of the function that was observed last. A family that asks for it observes one signature."""

    def api(self, recorder: Recorder, args: tuple[Any, ...]) -> Api | None:
        """Canonical API of this call, `None` to leave it unrecorded."""
        raise NotImplementedError

    def is_rare(self, args: tuple[Any, ...]) -> bool:
        """Whether this call of a rare kind is one."""
        return True

    def mod(self, recorder: Recorder, args: tuple[Any, ...]) -> int:
        """`mod` id of the module that the call is about; 0 for the innermost open module."""
        return 0

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Summary key of the arguments; equal for calls whose arguments read the same."""
        return call_key(args, kwargs)

    def before(self, recorder: Recorder, state: ThreadState, args: tuple[Any, ...]) -> None:
        """Runs before the call is opened."""

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        """Runs right after the call was opened; `call.kwargs` and `self.parameters` tell the rest of the arguments."""

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


def observe(
    probe: Probe,
    function: Any,
    family: Family,
    parameters: Parameters | None = None,
    *,
    always: bool = False,
    name: str = "",
) -> bool:
    """Record the calls of a function, as its family says; false where it cannot be observed, or is already."""
    if function is None:
        return False
    names = parameters or Parameters(function, method=family.method)
    family.parameters = names
    patch = probe.patches.observe(
        function,
        lambda kind: _recording(probe, family, names, kind),
        always=always,
        light=bool(family.rare),
        name=name,
    )
    if isinstance(patch, InPlace) and not is_user_file(patch.original.co_filename):
        probe.stop_at(patch.observed)
    return patch is not None


def _recording(probe: Probe, family: Family, names: Parameters, kind: Kind) -> Hooks:
    depth = 4 if kind.own_frame else 3

    def enter(*args: Any, **kwargs: Any) -> Call | None:
        return begin(args, kwargs)

    def enter_packed(first: Any, rest: tuple[Any, ...], named: dict[str, Any] | None) -> Call | None:
        return begin((first, *rest), named or {})

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        recorder = probe.recorder
        if recorder is None:
            return None
        state = recorder.thread_states.state
        if state.busy or is_compiling() or (family.nested is not None and _is_inner(recorder, state, family.nested)):
            return None
        open_calls = len(state.stack)
        try:
            if (family.rare or family.trains) and not _observed(recorder, state, family, args):
                return None
            return _open(recorder, state, family, names, args, kwargs, depth)
        except RecursionError:
            del state.stack[open_calls:]
            return None

    def leave(call: Call, result: Any) -> None:
        recorder = probe.recorder
        if recorder is not None:
            _close(recorder, recorder.thread_states.state, family, call, result)

    def raised(call: Call) -> None:
        recorder = probe.recorder
        if recorder is not None:
            _close_raised(recorder, recorder.thread_states.state, call)

    entering = enter_packed if kind.packed else enter
    if native is not None and family.simple is not None:
        told = (family.simple, family.measuring, kind.own_frame, kind.packed, entering, leave)
        entering, leaving = native.function_hooks(probe, *told)
        return Hooks(entering, leaving, raised)
    if native is not None and family.part is not None and kind.own_frame:
        api = getattr(family, "_api", None)  # otherwise it follows from the class
        entering, leaving = native.part_hooks(probe, family.part, family, api, entering, leave)
        return Hooks(entering, leaving, raised)
    if native is not None and family.when is not None:
        entering = native.watch_hook(probe, family.when, entering)
    if family.compiled is not None and kind.own_frame:
        return Hooks(*family.compiled(entering, leave), raised)
    return Hooks(entering, leave, raised)


def _is_inner(recorder: Recorder, state: ThreadState, api: Api) -> bool:
    """Whether a call is made by another one of this API, which is recorded: then there is nothing to tell. A probe that
    sleeps looks at each of them: the outer one may change nothing, and an inner one something.
    """
    if not state.stack or state.stack[-1].api is not api:
        return False
    return recorder.sampling is None or not recorder.sampling.asleep


def _observed(recorder: Recorder, state: ThreadState, family: Family, args: tuple[Any, ...]) -> bool:
    """Whether a call is observed: it may be rare, or training goes on after one that was."""
    sampling = recorder.sampling
    if sampling is None:
        return True
    with unseen(recorder, "before a rare call"):
        if family.trains:
            sampling.goes_on()
        elif family.is_rare(args):
            return sampling.rare(state, family.rare)
    return not sampling.asleep


def watch(
    probe: Probe,
    function: Any,
    entered: Callable[..., Any],
    left: Callable[[Any, Any], None] | None = None,
    raised: Callable[[Any], None] | None = None,
    *,
    always: bool = False,
    light: bool = False,
    compiling: bool = False,
    when: int | None = None,
    compiled: Compiled | None = None,
) -> None:
    """Tell `entered` of every call of a function, which leaves no row of its own. What it returns, unless `None`, goes
    to `left` with the result, or to `raised`. With `compiling` also of those that a compiler makes. `when` says when
    `entered` does anything and returns anything but `None`, for the compiled core, which then asks for it first;
    `compiled` makes hooks of its own.
    """

    def making(kind: Kind) -> Hooks:
        def enter(*args: Any, **kwargs: Any) -> Any:
            recorder = probe.recorder
            if recorder is None or recorder.thread_states.state.busy or (not compiling and is_compiling()):
                return None
            with unseen(recorder, f"before {name}"):
                return entered(*args, **kwargs)
            return None

        def enter_packed(first: Any, rest: tuple[Any, ...], named: dict[str, Any] | None) -> Any:
            return enter(first, *rest, **(named or {}))

        def leave(token: Any, result: Any) -> None:
            recorder = probe.recorder
            if recorder is not None:
                with unseen(recorder, f"after {name}"):
                    if left is not None:
                        left(token, result)

        def failed(token: Any) -> None:
            recorder = probe.recorder
            if recorder is not None and raised is not None:
                with unseen(recorder, f"after {name}"):
                    raised(token)

        entering = enter_packed if kind.packed else enter
        if native is not None and when is not None:
            return Hooks(native.watch_hook(probe, when, entering), leave, failed)
        if compiled is not None and kind.own_frame:
            return Hooks(*compiled(entering, leave), failed)
        return Hooks(entering, leave, failed)

    name = getattr(function, "__qualname__", repr(function))
    probe.patches.observe(function, making, always=always, light=light)


@contextmanager
def unseen_by(probe: Probe, where: str) -> Iterator[None]:
    """As `unseen`, for work that may come when the trace has ended."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - a failure of the probe must never reach the user's code
        if probe.recorder is not None:
            probe.recorder.failed(where, error)


def _open(
    recorder: Recorder,
    state: ThreadState,
    family: Family,
    names: Parameters,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    depth: int,
) -> Call | None:
    open_calls, grad = len(state.stack), torch.is_grad_enabled()
    unhandled = DisableTorchFunction()
    unhandled.__enter__()
    try:
        api = family.api(recorder, args)
        if api is None:
            return None
        if state.stack:
            top = state.stack[-1]
            if state.in_step and top.api.type == "optimizer":
                recorder.drop_stale_step(state)
                open_calls = len(state.stack)
                top = state.stack[-1] if state.stack else None  # type: ignore[assignment]
            if top is not None and (top.api is api or (family.outermost and _inside(state, family))):
                return None
        if family.plain or (family.measuring and not recorder.measures.wanted):
            call = recorder.begin(state, api, call_key(args, kwargs), names.bind, args, kwargs, 0, depth)
            if recorder.sketches.wanted:
                recorder.sketches.opened(state, call, names.named(args, kwargs))
            return call
        _prepare(recorder, state, family, args, grad)
        seen = args[1:] if family.method else args
        mod = family.mod(recorder, args)
        call = recorder.begin(state, api, family.key(seen, kwargs), names.bind, args, kwargs, mod, depth)
        call.family = family
        call.given = args
        call.kwargs = kwargs
        family.opened(recorder, state, call, args)
        if recorder.sketches.wanted:
            recorder.sketches.opened(state, call, names.named(args, kwargs))
        return call
    except BaseException as error:  # noqa: BLE001 - a failure of the probe must never reach the user's code
        recorder.abandon(state, open_calls, grad, "opening a call", error)
        return None
    finally:
        unhandled.__exit__(None, None, None)


def _prepare(recorder: Recorder, state: ThreadState, family: Family, args: tuple[Any, ...], grad: bool) -> None:
    """Look around before the call. The call is recorded even if that fails."""
    try:
        family.before(recorder, state, args)
    except Exception as error:  # noqa: BLE001 - see `_open`
        left_in_the_middle(state, grad)
        recorder.failed("before a call", error)


def _inside(state: ThreadState, family: Family) -> bool:
    return any(type(call.family) is type(family) for call in state.stack)


def _close(recorder: Recorder, state: ThreadState, family: Family, call: Call, result: Any) -> None:
    grad = torch.is_grad_enabled()
    unhandled = DisableTorchFunction()
    unhandled.__enter__()
    try:
        try:
            if recorder.sketches.wanted:
                recorder.sketches.closing(state, call, result)
            if family.plain or (family.measuring and not recorder.measures.wanted):
                recorder.end(state, call, result)
                return
            family.after(recorder, state, call, call.given, result)
        except Exception as error:  # noqa: BLE001 - see `_open`
            left_in_the_middle(state, grad)
            recorder.failed(f"after {call.api.name}", error)
        family.finish(recorder, state, call, result)
    except BaseException as error:  # noqa: BLE001 - see `_open`
        open_calls = state.stack.index(call) if call in state.stack else None
        recorder.abandon(state, open_calls, grad, f"closing {call.api.name}", error)
    finally:
        call.given, call.kwargs = (), NO_KWARGS
        unhandled.__exit__(None, None, None)


def _close_raised(recorder: Recorder, state: ThreadState, call: Call) -> None:
    try:
        recorder.end_raised(state, call)
    except Exception as error:  # noqa: BLE001 - see `_open`
        recorder.failed(f"closing {call.api.name}", error)
    finally:
        call.given, call.kwargs = (), NO_KWARGS
