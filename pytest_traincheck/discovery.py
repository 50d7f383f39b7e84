"""What a package of ours holds, found by looking: adding a file is all that adding to it takes."""

from __future__ import annotations

import importlib
import pkgutil


def classes_in(package: str) -> list[type]:
    """Classes that the modules of a package define, by the names of their modules; what they import is not theirs."""
    found = []
    for entry in pkgutil.iter_modules(importlib.import_module(package).__path__):
        module = importlib.import_module(f"{package}.{entry.name}")
        found += [
            item for item in vars(module).values() if isinstance(item, type) and item.__module__ == module.__name__
        ]
    return found
