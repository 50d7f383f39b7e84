"""Finding what a plug-in wants observed, without running a line of the module that holds it."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, ModuleType
from typing import Any

from ..frameworks.description import Observation
from .in_place import NotObservable


def find(observation: Observation) -> tuple[Any, bool]:
    """The function that an observation names, as its module or class holds it, and whether its first argument is no
    argument of its callers. Raises `NotObservable`.

    Nothing is asked by `getattr`: a module that loads its parts when they are asked for is left as it is.
    """
    if _is_used_by_the_probe(observation.module):
        raise NotObservable("the probe itself, or Python, works with the functions of this module")
    found: Any = sys.modules.get(observation.module)
    within: type | None = None
    for part in observation.path.split("."):
        if isinstance(found, type):
            within = found
        elif not isinstance(found, ModuleType):
            raise NotObservable(f"what is {_called(found)} has no parts")
        found = _held(found, part)
    if isinstance(found, type):
        within, found = found, _held(found, "__init__")
    if not isinstance(found, (FunctionType, staticmethod, classmethod, BuiltinFunctionType, MethodDescriptorType)):
        raise NotObservable(f"it is {_called(found)} and no function")
    return found, within is not None and not isinstance(found, staticmethod)


def _held(holder: type | ModuleType, name: str) -> Any:
    """What a class or a module has under a name itself."""
    entries: Any = type.__getattribute__(holder, "__dict__") if isinstance(holder, type) else vars(holder)
    if name in entries:
        return entries[name]
    if isinstance(holder, type):
        owner = next((base for base in type.__getattribute__(holder, "__mro__") if name in vars(base)), None)
        if owner is not None:
            # Observed there, the calls of all its other heirs would count as well.
            where = f"{owner.__module__}:{owner.__qualname__}.{name}"
            raise NotObservable(f"{holder.__qualname__} inherits `{name}`; name it where it is defined, `{where}`")
    raise NotObservable(f"{getattr(holder, '__name__', holder)} has no `{name}` of its own")


def _called(value: object) -> str:
    return f"of type {type(value).__name__}"


def _is_used_by_the_probe(module: str) -> bool:
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names or module == "torch" or module.startswith("torch._")


def absent_modules(observations: Iterable[Observation]) -> dict[str, str]:
    """Observations, by API, of modules that do not exist though the package that should hold them is loaded.

    What is not imported may just not be used. A package that is not loaded is not looked for.
    """
    found: dict[str, str] = {}
    for observation in observations:
        package, _, rest = observation.module.partition(".")
        if package not in sys.modules or observation.module in sys.modules:
            continue
        inner = _first_unloaded(package, rest)
        if inner and not _exists(inner):
            found[observation.api] = f"there is no module {inner}"
    return found


def _first_unloaded(package: str, rest: str) -> str:
    """The first module on the way down that is not loaded."""
    name = package
    for part in rest.split("."):
        name = f"{name}.{part}"
        if name not in sys.modules:
            return name
    return ""


def _exists(module: str) -> bool:
    """Whether a module that is not loaded lies in the package that should hold it, which is."""
    place = getattr(sys.modules[module.rpartition(".")[0]], "__dict__", {}).get("__path__")
    try:
        return place is not None and importlib.machinery.PathFinder.find_spec(module, list(place)) is not None
    except (ImportError, OSError, TypeError, ValueError):
        return True  # a package that keeps its parts in a way of its own
