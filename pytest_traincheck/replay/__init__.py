"""Same inputs, same outputs: recordings of what calls computed, and where a run computes something else."""

from pytest_traincheck.replay.build import Recorded, record
from pytest_traincheck.replay.compare import (
    STEP,
    Claim,
    Comparison,
    Node,
    compare,
    compare_with_itself,
    repeated,
    settled,
)
from pytest_traincheck.replay.parting import Parting

__all__ = [
    "STEP",
    "Claim",
    "Comparison",
    "Node",
    "Parting",
    "Recorded",
    "compare",
    "compare_with_itself",
    "record",
    "repeated",
    "settled",
]
