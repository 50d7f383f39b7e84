"""Inference: from examples in golden runs to invariants with preconditions."""

from pytest_traincheck.infer.learn import learn

__all__ = ["learn"]
