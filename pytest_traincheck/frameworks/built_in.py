"""The libraries that come with the package: every file of this folder that has a `FRAMEWORK`."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from .description import CommandLine, Framework

_ABOUT = frozenset({"built_in", "description", "extensions"})
"""Files of this folder that describe no library."""


@cache
def built_in() -> tuple[Framework, ...]:
    """One of each, by name. Nothing has to be entered anywhere: a file that is put here counts."""
    found = (module.FRAMEWORK for module in _modules())
    return tuple(sorted(found, key=lambda framework: framework.name))


@cache
def command_lines() -> tuple[CommandLine, ...]:
    """How programs look from outside that train with one of them, where there is anything to say."""
    return tuple(module.COMMAND_LINE for module in _modules() if hasattr(module, "COMMAND_LINE"))


def _modules() -> list[ModuleType]:
    names = {found.name for found in pkgutil.iter_modules([str(Path(__file__).parent)])} - _ABOUT
    return [import_module(f"{__package__}.{name}") for name in sorted(names)]
