"""Learning: from golden runs to invariants."""

from pytest_traincheck.infer.learn import learn
from pytest_traincheck.infer.transferable import Terms, learn_pack

__all__ = ["Terms", "learn", "learn_pack"]
