"""Learning: from golden runs to invariants."""

from pytest_traincheck.infer.learn import learn
from pytest_traincheck.infer.transferable import learn_transferable

__all__ = ["learn", "learn_transferable"]
