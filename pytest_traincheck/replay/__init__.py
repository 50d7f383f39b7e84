"""Same inputs, same outputs: recordings of what calls computed, and where a run computes something else."""

from pytest_traincheck.replay.build import Recorded, record
from pytest_traincheck.replay.compare import Claim, Comparison, Node, against_itself, compare, settled
from pytest_traincheck.replay.fetches import loads_batches

__all__ = ["Claim", "Comparison", "Node", "Recorded", "against_itself", "compare", "loads_batches", "record", "settled"]
