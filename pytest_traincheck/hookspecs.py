"""Extension points for other packages, through pluggy under the project name `traincheck`.

A package offers its relations with an entry point of the group `traincheck` that names a module, in which:

    import pluggy

    @pluggy.HookimplMarker("traincheck")
    def pytest_traincheck_relations():
        return [MyRelation()]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from pytest_traincheck.relations import Relation

PROJECT = "traincheck"
"""Project name of the hooks, and group of the entry points."""

hookspec = pluggy.HookspecMarker(PROJECT)


@hookspec
def pytest_traincheck_relations() -> list[Relation]:  # type: ignore[empty-body]
    """Relations to learn and check beside the built-in ones. A relation's name must be its own."""
