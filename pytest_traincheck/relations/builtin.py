"""The relations that come with the package: one for each file beside this one that defines a relation, and the laws of
packs, one for each file of `laws`.
"""

from __future__ import annotations

from pytest_traincheck.discovery import classes_in
from pytest_traincheck.relations.base import Relation
from pytest_traincheck.relations.laws.reason import Lawful

METHODS = ("hypotheses", "examples", "sentence", "finding")
"""What every relation has to define itself."""


def relations() -> list[Relation]:
    """One of each, by the names of their files. Nothing that is learned or reported depends on their order."""
    return [found() for found in classes_in(__package__) if _is_relation(found)]


def laws() -> list[Lawful]:
    """One of each, by the names of their files."""
    return [found() for found in classes_in(f"{__package__}.laws") if _is_law(found)]


def _is_law(found: type) -> bool:
    return _is_relation(found) and callable(getattr(found, "reason", None))


def _is_relation(found: type) -> bool:
    # The protocol announces a name and has none.
    return hasattr(found, "name") and all(callable(getattr(found, method, None)) for method in METHODS)
