"""Reads a golden with its claims as values of their relations: the one place that refuses a claim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.relations.claims import ClaimError, read_claim
from pytest_traincheck.relations.registry import relation_named
from pytest_traincheck.rules.claims import Claim, Foreign, to_json
from pytest_traincheck.rules.model import Invariant

if TYPE_CHECKING:
    from pytest_traincheck.golden.model import Golden


def claim_of(relation: str, content: Mapping[str, Any]) -> Claim:
    """A claim that was stored, as its relation has it; as it is where no such relation is known here.

    Raises `ClaimError` for a claim that the relation would not have written.
    """
    known = relation_named(relation)
    return read_claim(content, known.claims) if known is not None else Foreign(content)


def with_claims(golden: Golden, name: str) -> Golden:
    """The golden that was read from the file `name`, with all its claims as their relations have them.

    Raises `GoldenError` that names the file, the line and the key.
    """
    rules = []
    for line, invariant in enumerate(golden.invariants, start=2):
        try:
            rules.append(_read(invariant))
        except ClaimError as error:
            raise GoldenError(
                f"{name}, line {line}: the claim is none of {invariant.relation}: {error}. "
                "Restore the file from version control, or learn it again with `traincheck refresh`."
            ) from error
    return replace(golden, invariants=tuple(rules))


def _read(invariant: Invariant) -> Invariant:
    if not isinstance(invariant.claim, Foreign):
        return invariant
    return replace(invariant, claim=claim_of(invariant.relation, to_json(invariant.claim)))


def read_golden(path: Path) -> Golden:
    """Read a golden, as untrusted data, its claims included. Raises `GoldenError`, which names the line."""
    # Whoever looks for relations comes by this file, and may need no store.
    from pytest_traincheck.golden import store

    return with_claims(store.read(path), str(path))
