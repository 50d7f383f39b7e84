"""Reads a golden with its claims held against the schemas of their relations: the one place that refuses a claim."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.relations.claims import misfit
from pytest_traincheck.relations.registry import relations
from pytest_traincheck.rules.model import Invariant

if TYPE_CHECKING:
    from pytest_traincheck.golden.model import Golden


def wrong_claim(invariant: Invariant) -> str:
    """What is wrong with the claim of a rule; empty where nothing is, or where no such relation is installed."""
    relation = relations().get(invariant.relation)
    # A relation of a plugin that was written before there were schemas has none.
    forms = getattr(relation, "forms", ())
    return misfit(invariant.claim, forms) if forms else ""


def check_claims(golden: Golden, name: str) -> Golden:
    """The golden that was read from the file `name`, once all its claims are such as their relations write.

    Raises `GoldenError` that names the file, the line and the key.
    """
    for line, invariant in enumerate(golden.invariants, start=2):
        if wrong := wrong_claim(invariant):
            raise GoldenError(
                f"{name}, line {line}: the claim is none of {invariant.relation}: {wrong}. "
                "Restore the file from version control, or learn it again with `traincheck refresh`."
            )
    return golden


def read_golden(path: Path) -> Golden:
    """Read a golden, as untrusted data, its claims included. Raises `GoldenError`, which names the line."""
    # Whoever looks for relations comes by this file, and may need no store.
    from pytest_traincheck.golden import store

    return check_claims(store.read(path), str(path))
