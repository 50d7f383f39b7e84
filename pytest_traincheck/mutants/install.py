"""Planting mistakes into this process, as the launcher's environment says."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from . import batches, data, gradients, layers, losses, models, modes, optimizers, precision, ranks, runs, schedules
from .catalogue import CENSUS, COUNTED
from .mutation import PLANTS, Mutation
from .tally import Tally

_MODULES = (
    batches, data, gradients, layers, losses, models, modes, optimizers, precision, ranks, runs, schedules
)  # fmt: skip
"""Importing them fills the table."""


def start_from_environment() -> None:
    """Plant what `TRAINCHECK_MUTANT` names into this process. Raises `ValueError` for a kind that does not exist."""
    start(os.environ["TRAINCHECK_MUTANT"], Path(os.environ["TRAINCHECK_TRACE_DIR"]))


def start(kind: str, directory: Path) -> None:
    """Plant mistakes of one kind, or count places for all; the counts go to a file in `directory`.

    `kind` may be followed by `COUNTED` and the number of places that all ranks have together.
    """
    kind, _, counted = kind.partition(COUNTED)
    places = int(counted or 0) // max(1, int(os.environ.get("WORLD_SIZE") or 1))
    chosen: Iterable[str] = PLANTS if kind == CENSUS else (kind,)
    tally = Tally(directory)
    for name in chosen:
        if name not in PLANTS:
            raise ValueError(f"no mistake is called {name!r}; `traincheck selftest --list` names them all")
        PLANTS[name](Mutation(name, tally, active=kind != CENSUS, places=places))
