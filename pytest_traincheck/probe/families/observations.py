"""Functions that plug-ins and descriptions of libraries name. They are observed like our own, once their module was
imported.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from ...frameworks.description import CallType, Observation
from ..imports import after_import, forget
from ..in_place import NotObservable
from ..summary import key_of
from ..targets import find
from .averaging import Update
from .base import Named, Parameters, observe, unseen_by, watch
from .clip import Clip
from .io import LoadInto, Save

if TYPE_CHECKING:
    from ..context import ThreadState
    from ..install import Probe

WAITED = "ranks.waited"
_ABSENT = object()


class ChosenParameters(Parameters):
    """Only the arguments that are wanted. A function that does not tell its parameters has these, in this order."""

    def __init__(self, source: Any, chosen: tuple[str, ...], *, method: bool) -> None:
        super().__init__(source, method=method)
        self.chosen = chosen
        if self._signature is None:
            self._places = {name: place + method for place, name in enumerate(chosen)}
            return
        known = self._signature.parameters
        if any(item.kind is inspect.Parameter.VAR_KEYWORD for item in known.values()):
            return
        for name in chosen:
            if name not in known:
                there_are = ", ".join(f"`{other}`" for other in list(known)[method:]) or "none"
                raise NotObservable(f"it takes no argument `{name}`; those it takes: {there_are}")

    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        given = {name: self.argument(args, kwargs, name, _ABSENT) for name in self.chosen}
        return {name: value for name, value in given.items() if value is not _ABSENT}

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return {name: key_of(value) for name, value in self.named(args, kwargs).items()}


class _OfPlugIn(Named):
    """Calls are told apart by the arguments that are recorded, where not all of them are."""

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(self.parameters, ChosenParameters):
            return super().key(args, kwargs)
        return tuple(self.parameters.bind((None, *args) if self.method else args, kwargs).items())


class _Call(_OfPlugIn):
    """A function of which nothing is known."""

    def __init__(self, name: str, kind: str, *, method: bool = False) -> None:
        super().__init__(name, kind, method=method)
        self.plain = True  # there is nothing to look at but what it is given


class _Clip(_OfPlugIn, Clip):
    """A function that changes gradients."""


class _Update(_OfPlugIn, Update):
    """A function that moves parameters."""


class _Save(_OfPlugIn, Save):
    """A function that writes what models hold."""


class _Load(_OfPlugIn, LoadInto):
    """A function that reads into what it is given."""


_FAMILIES: dict[CallType, type[_OfPlugIn]] = {
    CallType.OBSERVED: _Call,
    CallType.CLIP: _Clip,
    CallType.UPDATE: _Update,
}
_STORING: dict[CallType, type[_Save | _Load]] = {CallType.SAVE: _Save, CallType.LOAD: _Load}


def install(probe: Probe) -> None:
    """Observe what is loaded now, and wait for the rest."""
    told = [(observation, True) for observation in probe.extensions.observations]
    told += [(observation, False) for framework in probe.frameworks for observation in framework.observations]
    for observation, by_plug_in in told:
        prepare = functools.partial(_prepare, probe, observation, by_plug_in)
        after_import(observation.module, prepare)
        probe.on_removal(functools.partial(forget, prepare))


def _prepare(probe: Probe, observation: Observation, by_plug_in: bool) -> None:
    """Observe one function. What another version of a library does not have is missed by nobody but a plug-in."""
    api = observation.api
    with unseen_by(probe, f"preparing to observe {api}"):
        try:
            held, method = find(observation)
            function = getattr(held, "__func__", held)  # of a static or class method
            if observation.type in (CallType.APART, CallType.WAIT):
                _keep_apart(probe, function, waits=observation.type is CallType.WAIT)
                return
            family = _made(observation, method)
            parameters = None
            if observation.arguments:
                parameters = ChosenParameters(function, observation.arguments, method=method)
                family.plain = False
            if observe(probe, function, family, parameters, name=api):
                probe.observed.update({api} if by_plug_in else ())
            elif by_plug_in and api not in probe.patches.left_out:
                raise NotObservable("it is observed already, and rules speak of it under another name")
        except NotObservable as error:
            if by_plug_in:
                probe.patches.left_out[api] = str(error)


def _keep_apart(probe: Probe, function: Any, *, waits: bool) -> None:
    """Observe nothing within a function, as nothing is observed within the probe's own work. That ranks have waited for
    each other in it is said behind it.
    """

    def entered(*_: Any, **__: Any) -> ThreadState | None:
        state = probe.recorder.threads if probe.recorder is not None else None
        if state is not None:
            state.busy = True
        return state

    def raised(state: ThreadState) -> None:
        state.busy = False

    def returned(state: ThreadState, _: object) -> None:
        state.busy = False
        if waits and probe.recorder is not None:
            probe.recorder.measures.take(state, WAITED, None)

    watch(probe, function, entered, returned, raised)


def _made(observation: Observation, method: bool) -> _OfPlugIn:
    storing = _STORING.get(observation.type)
    if storing is None:
        return _FAMILIES[observation.type](observation.api, observation.type.value, method=method)
    if not observation.arguments:
        raise NotObservable("it does not say which argument is what is saved or read")
    return storing(observation.api, "io", method=method, argument=observation.arguments[0])
