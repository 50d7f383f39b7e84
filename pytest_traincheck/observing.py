"""What is observed and looked through beside what the probe knows by itself: observations and frameworks of plug-ins.

They are plain data. The training process gets them by an environment variable, since it need not have the plug-in, nor
pytest; those who check its traces ask here.
"""

from __future__ import annotations

import re
from dataclasses import fields
from functools import lru_cache
from typing import Any

from pytest_traincheck.frameworks.built_in import built_in
from pytest_traincheck.frameworks.description import CallType, Framework, Observation, Wrapper
from pytest_traincheck.frameworks.extensions import FRAMEWORK, Extensions
from pytest_traincheck.plugins import Given, PluginError, implementations, items_of

OBSERVATIONS, FRAMEWORKS = "pytest_traincheck_observations", "pytest_traincheck_frameworks"

LIMIT = 100_000
"""Bytes of all that plug-ins tell the probe. Linux takes no environment variable of more than 128 KiB."""

_NAME = r"[^\W\d]\w*"
_DOTTED = re.compile(rf"{_NAME}(\.{_NAME})*")
_NO_TEXTS = frozenset({"name", "wrappers", "observations"})
"""Fields of a framework that are no tuples of names."""
_TARGET = re.compile(rf"{_DOTTED.pattern}:{_DOTTED.pattern}")


def extensions() -> Extensions:
    """What plug-ins and conftest files want observed and looked through.

    Raises:
        PluginError: what a plug-in gives is no observation or framework, two contradict each other, or it is too much.
    """
    return _table(implementations(OBSERVATIONS), implementations(FRAMEWORKS))[0]


def frameworks() -> tuple[Framework, ...]:
    """All that are known: ours first. Raises as `extensions` does."""
    return (*built_in(), *extensions().frameworks)


def in_session_only() -> frozenset[str]:
    """Keys of what the running pytest session knows and the standalone commands do not, as goldens have them."""
    return _table(implementations(OBSERVATIONS), implementations(FRAMEWORKS))[1]


def parallel() -> tuple[str, ...]:
    """How the names of modules begin whose calls make ranks train together, such as `DistributedDataParallel`."""
    return tuple(name for framework in frameworks() for name in framework.parallel)


def short_names(wrapper: str) -> tuple[str, ...]:
    """What people call a class of wrappers in code: `DDP`."""
    known = (item for framework in frameworks() for item in framework.wrappers)
    return tuple(item.short for item in known if item.name == wrapper and item.short)


@lru_cache(maxsize=4)
def _table(observing: tuple[Given, ...], describing: tuple[Given, ...]) -> tuple[Extensions, frozenset[str]]:
    observations: dict[str, Observation] = {}
    described: dict[str, Framework] = {framework.name: framework for framework in built_in()}
    in_session = set()
    for given in observing:
        for item in items_of(given, OBSERVATIONS):
            observation = _observation(given, item)
            if observations.setdefault(observation.api, observation) != observation:
                raise PluginError(
                    f"{given.owner}: `{observation.target}` is to be observed in two ways. Give it in one place, or in "
                    "the same words."
                )
            in_session |= {observation.api} if given.in_session else set()
    for given in describing:
        for item in items_of(given, FRAMEWORKS):
            framework = _framework(given, item)
            if described.setdefault(framework.name, framework) != framework:
                raise PluginError(
                    f"{given.owner}: two frameworks are named {framework.name!r}. Leave out the one of your plug-in, "
                    "or remove it from one of the two places that give it."
                )
            in_session |= {FRAMEWORK + framework.name} if given.in_session else set()
    known = {framework.name for framework in built_in()}
    found = Extensions(
        tuple(observations.values()), tuple(item for name, item in described.items() if name not in known)
    )
    if (size := len(found.to_text().encode())) > LIMIT:
        raise PluginError(
            f"what plug-ins want observed takes {size} bytes, and {LIMIT} are the most that a training process can be "
            "given. Name fewer functions."
        )
    return found, frozenset(in_session)


def _observation(given: Given, item: object) -> Observation:
    if not isinstance(item, Observation):
        raise PluginError(
            f"{given.owner}: {item!r} is no observation. Return instances of `pytest_traincheck.api.Observation`."
        )
    if not isinstance(item.target, str) or not _TARGET.fullmatch(item.target):
        raise PluginError(
            f"{given.owner}: an observation cannot be of {item.target!r}. Write it like `package.module:function` or "
            "`package.module:Class.method`."
        )
    if not _are_texts(item.arguments) or item.type not in set(CallType):
        raise PluginError(
            f"{given.owner}: the observation of `{item.target}` is not usable. Its `arguments` are names, and its "
            "`type` is one of `pytest_traincheck.api.CallType`."
        )
    return Observation(item.target, tuple(item.arguments), CallType(item.type))


def _framework(given: Given, item: object) -> Framework:
    if not isinstance(item, Framework):
        raise PluginError(
            f"{given.owner}: {item!r} is no framework. Return instances of `pytest_traincheck.api.Framework`."
        )
    texts = {field.name: getattr(item, field.name) for field in fields(item) if field.name not in _NO_TEXTS}
    wrong = next((name for name, value in texts.items() if not _are_texts(value)), "")
    if not isinstance(item.name, str) or not _DOTTED.fullmatch(item.name):
        wrong = "name"
    elif not isinstance(item.wrappers, (list, tuple)) or not all(map(_is_wrapper, item.wrappers)):
        wrong = "wrappers"
    elif not isinstance(item.observations, (list, tuple)) or not all(map(_is_observation, item.observations)):
        wrong = "observations"
    if wrong:
        raise PluginError(
            f"{given.owner}: `{wrong}` of the framework {item.name!r} is not usable. `name` is what is imported, "
            "`wrappers` are instances of `pytest_traincheck.api.Wrapper`, `observations` of "
            "`pytest_traincheck.api.Observation`, and all else are tuples of names."
        )
    return Framework(
        item.name,
        wrappers=tuple(item.wrappers),
        observations=tuple(_observation(given, observation) for observation in item.observations),
        **{name: tuple(value) for name, value in texts.items()},
    )


def _is_observation(item: object) -> bool:
    return isinstance(item, Observation)


def _is_wrapper(item: object) -> bool:
    return (
        isinstance(item, Wrapper)
        and all(isinstance(value, str) for value in (item.name, item.inner, item.short))
        and bool(item.name and item.inner)
        and isinstance(item.compiles, bool)
    )


def _are_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(item, str) and item for item in value)
