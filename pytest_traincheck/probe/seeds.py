"""Seeds the global generators of a program that takes no seed, before its first line.

Each is seeded where the program has imported what holds it, and nothing is imported for that: what follows is what
would follow if the program had the lines `random.seed(seed)`, `numpy.random.seed(seed)` and `torch.manual_seed(seed)`
at its top. What torch is seeded with comes before the probe looks, so that no seeding of the program's is seen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from .imports import after_import

VARIABLE = "TRAINCHECK_SEED_BY"
BY_PROBE = "probe"
_NUMPY_SEEDS = 2**32


def seed_from_environment() -> None:
    """As the launcher asks by a variable; nothing without it."""
    seed = os.environ.get("TRAINCHECK_SEED", "")
    if os.environ.get(VARIABLE) == BY_PROBE and seed.isdigit():
        number = int(seed)
        after_import("random", _seeding("random", "seed", number))
        after_import("numpy.random", _seeding("numpy.random", "seed", number % _NUMPY_SEEDS))
        after_import("torch", _seeding("torch", "manual_seed", number))


def _seeding(module: str, function: str, seed: int) -> Callable[[], None]:
    return lambda: getattr(sys.modules[module], function)(seed)
