"""Planting mistakes into this process, as the launcher's environment says."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterable
from pathlib import Path

from . import (
    batches,
    data,
    gradients,
    layers,
    losses,
    mistakes,
    models,
    modes,
    optimizers,
    precision,
    ranks,
    runs,
    schedules,
)  # fmt: skip
from .catalogue import CENSUS, COUNTED
from .mutation import PLANTS, Mutation, plants
from .tally import Tally

_MODULES = (
    batches, data, gradients, layers, losses, models, modes, optimizers, precision, ranks, runs, schedules
)  # fmt: skip
"""Importing them fills the table."""

for _module in mistakes.modules():
    plants(_module.KIND.name)(_module.plant)


def start_from_environment() -> None:
    """Plant what `TRAINCHECK_MUTANT` names into this process. Raises `ValueError` for a kind that does not exist."""
    for file in json.loads(os.environ.get("TRAINCHECK_MUTANT_FILES") or "[]"):
        _load(Path(file))
    start(os.environ["TRAINCHECK_MUTANT"], Path(os.environ["TRAINCHECK_TRACE_DIR"]))


def _load(file: Path) -> None:
    """Enter what a plug-in plants into the table. Raises whatever its code raises."""
    spec = importlib.util.spec_from_file_location(f"{__package__}.of_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python code; a plug-in names it as what plants its mistakes")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, function in module.PLANTS.items():
        plants(name)(function)


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
