"""Functions that plug-ins name. They are observed like our own, as soon as the module that holds them was imported."""

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
from .base import Named, Parameters, observe, unseen_by
from .clip import Clip

if TYPE_CHECKING:
    from ..install import Probe

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


_FAMILIES: dict[CallType, type[_OfPlugIn]] = {
    CallType.OBSERVED: _Call,
    CallType.CLIP: _Clip,
    CallType.UPDATE: _Update,
}


def install(probe: Probe) -> None:
    """Observe what is loaded now, and wait for the rest."""
    for observation in probe.extensions.observations:
        prepare = functools.partial(_prepare, probe, observation)
        after_import(observation.module, prepare)
        probe.on_removal(functools.partial(forget, prepare))


def _prepare(probe: Probe, observation: Observation) -> None:
    api = observation.api
    with unseen_by(probe, f"preparing to observe {api}"):
        try:
            held, method = find(observation)
            function = getattr(held, "__func__", held)  # of a static or class method
            family = _FAMILIES[observation.type](api, observation.type.value, method=method)
            parameters = None
            if observation.arguments:
                parameters = ChosenParameters(function, observation.arguments, method=method)
                family.plain = False
            if observe(probe, function, family, parameters, name=api):
                probe.observed.add(api)
            elif api not in probe.patches.left_out:
                raise NotObservable("it is observed already, and rules speak of it under another name")
        except NotObservable as error:
            probe.patches.left_out[api] = str(error)
