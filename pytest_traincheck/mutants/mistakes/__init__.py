"""Kinds of mistakes with a file each: its words, `KIND`, and the function `plant` that is given a `Mutation`.

The words are read where there is no torch, so it is `plant` that imports what it needs.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def modules() -> list[ModuleType]:
    """All of them, by name."""
    return [importlib.import_module(f"{__name__}.{entry.name}") for entry in pkgutil.iter_modules(__path__)]
