"""Extension points for other packages and for `conftest.py`; `docs/extending.md` says how to use them.

Each hook is a function of this name, in a `conftest.py`, in a pytest plugin, or in a module that a package names by an
entry point of the group `traincheck`. The standalone commands, which no pytest is around, know the last sort only.

    from pytest_traincheck.api import Relation

    def pytest_traincheck_relations():
        return [MyRelation()]

pytest reads this file in every session: it imports nothing that is not loaded anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from pytest_traincheck.frameworks.description import Framework, Observation
    from pytest_traincheck.mutants.kind import Mistake
    from pytest_traincheck.relations import Relation
    from pytest_traincheck.report.reporter import Reporter

PROJECT = "traincheck"
"""Project name of the hooks, and group of the entry points."""

hookspec = pluggy.HookspecMarker(PROJECT)

# A specification has no body: pluggy calls what implements it, and mypy would have each return something.


@hookspec
def pytest_traincheck_relations() -> Sequence[Relation]:  # type: ignore[empty-body]
    """Relations to learn and check beside the built-in ones. A relation's name must be its own."""


@hookspec
def pytest_traincheck_reporters() -> Sequence[Reporter]:  # type: ignore[empty-body]
    """Formats of report beside the built-in ones, asked for by `--write NAME=FILE` (pytest: `--traincheck-write`)."""


@hookspec
def pytest_traincheck_mistakes() -> Sequence[Mistake]:  # type: ignore[empty-body]
    """Kinds of mistakes that `traincheck selftest` plants beside the built-in ones."""


@hookspec
def pytest_traincheck_observations() -> Sequence[Observation]:  # type: ignore[empty-body]
    """Functions, methods and classes to observe beside those of torch. Rules speak of their calls and arguments."""


@hookspec
def pytest_traincheck_frameworks() -> Sequence[Framework]:  # type: ignore[empty-body]
    """What is particular to libraries that are not known here, such as wrappers to look through."""
