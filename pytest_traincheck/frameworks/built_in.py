"""The libraries that come with the package: every file of this folder that has a `FRAMEWORK`."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path

from .description import Framework

_ABOUT = frozenset({"built_in", "description", "extensions"})
"""Files of this folder that describe no library."""


@cache
def built_in() -> tuple[Framework, ...]:
    """One of each, by name. Nothing has to be entered anywhere: a file that is put here counts."""
    names = {found.name for found in pkgutil.iter_modules([str(Path(__file__).parent)])} - _ABOUT
    found = (import_module(f"{__package__}.{name}").FRAMEWORK for name in sorted(names))
    return tuple(sorted(found, key=lambda framework: framework.name))
