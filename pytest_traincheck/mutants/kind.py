"""What a kind of mistake is, in words. Without torch, so that every part of the tool can read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Kind:
    """One kind of mistake. `mistake` and `meaning` are sentences, `needs` completes "it has no ..."."""

    name: str
    group: str
    mistake: str
    meaning: str
    needs: str
    by_number: bool = False
    """Whether what it does depends on how many places there are."""


@dataclass(frozen=True)
class Mistake(Kind):
    """A kind of mistake that a plug-in plants.

    `file` is Python code that the training process runs, where torch is and perhaps nothing else: it holds a table
    `PLANTS`, from the name to a function that is given a `Mutation` (see `mutation.py`).
    """

    file: Path = field(kw_only=True)
