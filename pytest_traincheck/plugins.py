"""Who extends this package: packages by entry point, and, while a pytest session is on, its plugins and conftest files.

What they give is asked for when it is used, and the same for learning and checking.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import pluggy

from pytest_traincheck import hookspecs
from pytest_traincheck.input_error import InputError

_SESSIONS: list[pluggy.PluginManager] = []
"""pytest's plugin managers, the innermost last: a test of a plugin runs a session within a session."""


class PluginError(InputError):
    """A plug-in cannot be used, and which one; nothing is learned or checked without it."""


@dataclass(frozen=True)
class Given:
    """One implementation of a hook: whose it is, as a person would look for it, and the function."""

    owner: str
    plugin: object
    function: Any
    in_session: bool
    """Whether a pytest session alone knows it, so that the standalone commands do not."""


class _Manager(pluggy.PluginManager):
    """Takes functions by their names, as pytest does: nobody has to mark them."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        marked = super().parse_hookimpl_opts(plugin, name)
        if marked is None and name.startswith("pytest_traincheck_") and callable(getattr(plugin, name)):
            return {}
        return marked


@contextmanager
def in_session(manager: pluggy.PluginManager) -> Iterator[None]:
    """Within the block, what the plugins of a pytest session give is used too, those that it loads later included."""
    _SESSIONS.append(manager)
    try:
        yield
    finally:
        _SESSIONS.remove(manager)


def implementations(hook: str) -> tuple[Given, ...]:
    """Who implements a hook: installed packages first, then plugins and conftest files of the pytest session.

    A module that is both, named by entry points of two groups, comes once.

    Raises:
        PluginError: an installed package cannot be loaded, or implements a hook that does not exist.
    """
    found = [
        Given(_called(item), item.plugin, item.function, False)
        for item in getattr(installed().hook, hook).get_hookimpls()
    ]
    if not _SESSIONS:
        return tuple(found)
    return (
        *found,
        *(
            Given(_called(item), item.plugin, item.function, True)
            for item in getattr(_SESSIONS[-1].hook, hook).get_hookimpls()
            if all(item.plugin is not other.plugin for other in found)
        ),
    )


def items_of(given: Given, hook: str) -> list[Any]:
    """What one implementation gives. Raises `PluginError` where it raises, or gives no list."""
    try:
        items = given.function()
    except Exception as error:
        raise PluginError(
            f"{given.owner}: {hook} raised {type(error).__name__}: {error}. Correct it, or leave the plug-in out."
        ) from error
    if not isinstance(items, (list, tuple)):
        raise PluginError(f"{given.owner}: {hook} gave {type(items).__name__}, which is no list. Return a list.")
    return list(items)


def packages() -> list[str]:
    """Name and version of each installed package that extends this one."""
    found = (entry.dist for entry in entry_points(group=hookspecs.PROJECT))
    return sorted({f"{package.name} {package.version}" for package in found if package})


@cache
def installed() -> pluggy.PluginManager:
    """Packages that extend this one, by entry point. Raises `PluginError` for one that cannot be loaded."""
    manager = _Manager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    for entry in entry_points(group=hookspecs.PROJECT):
        whose = f"`{entry.dist.name}` {entry.dist.version}" if entry.dist else f"`{entry.name}`"
        try:
            plugin = entry.load()
            if not manager.is_registered(plugin):
                manager.register(plugin, name=f"{whose}, {entry.value}")
            manager.check_pending()
        except Exception as error:
            raise PluginError(
                f"the plug-in {entry.value} of {whose} cannot be loaded: {type(error).__name__}: {error}. "
                "Repair or upgrade that package, or uninstall it."
            ) from error
    return manager


def _called(item: pluggy.HookImpl) -> str:
    # pytest names a conftest by its path, and a plugin by its module or its entry point.
    return str(item.plugin_name)
