"""Imports of the project's own modules come from this side's tree, where an editable install names the other side's.

An editable install puts a directory on `sys.path`, or a finder on `sys.meta_path` that maps names to files. What either
names below a forbidden root is looked up at the same place of the own tree. What the own tree lacks is left as it is:
the launcher looks at where modules came from after the run, and says what to do.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType

from .imports import find_elsewhere

OWN = "TRAINCHECK_OWN_TREE"
FORBIDDEN = "TRAINCHECK_FORBIDDEN_TREES"

# A virtual environment inside the project is not part of what is compared.
_INSTALLED = ("site-packages", "dist-packages")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - at every process's start
_OURS = tuple(os.path.join(_PACKAGE, room) for room in ("probe", "frameworks", "mutants"))  # noqa: PTH118 - likewise


class OwnTree:
    """Moves paths below `forbidden` trees to the same place below `own`. A `sys.meta_path` entry that does so."""

    def __init__(self, own: str, forbidden: Iterable[str]) -> None:
        self._own = _directory(own)
        # As they are named and as they are: an install may have recorded either.
        roots = {name for root in forbidden for name in (_directory(root), _directory(os.path.realpath(root)))}
        # Trees may lie inside one another: a path belongs to the innermost that holds it.
        self._roots = sorted({*roots, self._own, _directory(os.path.realpath(own))}, key=len, reverse=True)
        self._forbidden = roots

    def move(self, path: str) -> str:
        """Where a path of the other side is on this one; the path itself where there is nothing."""
        root = next((root for root in self._roots if _directory(path).startswith(root)), None)
        if root not in self._forbidden or root is None:
            return path
        # What we load into the process is ours, wherever this package lies.
        if path.startswith(_OURS) or any(part in path for part in _INSTALLED):
            return path
        moved = (self._own + path[len(root) :]).rstrip(os.sep)
        return moved if os.path.exists(moved) else path  # noqa: PTH110 - on the way of every import

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """What the other finders find, at its place in the own tree; None where that is the same."""
        spec = find_elsewhere(self, name, path, target)
        if spec is None:
            return None
        locations = spec.submodule_search_locations
        within = None if locations is None else [self.move(entry) for entry in list(locations)]
        if not spec.has_location or spec.origin is None:
            # A package without a file: the parts of it that lie in the other tree.
            if within is not None and within != list(locations or ()):
                spec.submodule_search_locations = within
                return spec
            return None
        moved = self.move(spec.origin)
        if moved == spec.origin:
            return None
        return importlib.util.spec_from_file_location(name, moved, submodule_search_locations=within)


def install(own: str, forbidden: Sequence[str]) -> None:
    """Put the own tree in the place of the others, for this process."""
    tree = OwnTree(own, forbidden)
    sys.path[:] = dict.fromkeys(tree.move(entry) for entry in sys.path)
    sys.meta_path.insert(0, tree)


def install_from_environment() -> None:
    """As the launcher asks by variables; nothing without them."""
    own, forbidden = os.environ.get(OWN), os.environ.get(FORBIDDEN)
    if own and forbidden:
        install(own, forbidden.split(os.pathsep))


def _directory(path: str) -> str:
    return path.rstrip(os.sep) + os.sep
