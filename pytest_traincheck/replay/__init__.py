"""Same inputs, same outputs: recordings of what calls computed, and where a run computes something else."""

from pytest_traincheck.replay.build import Recorded, record
from pytest_traincheck.replay.compare import (
    DRAWN,
    HELD,
    STEP,
    Claim,
    Comparison,
    Node,
    against_itself,
    compare,
    compare_run,
    compare_with_itself,
    settled,
    with_repeats,
)
from pytest_traincheck.replay.course import courses
from pytest_traincheck.replay.parting import Parting

__all__ = [
    "DRAWN",
    "HELD",
    "STEP",
    "Claim",
    "Comparison",
    "Node",
    "Parting",
    "Recorded",
    "against_itself",
    "compare",
    "compare_run",
    "compare_with_itself",
    "courses",
    "record",
    "settled",
    "with_repeats",
]
