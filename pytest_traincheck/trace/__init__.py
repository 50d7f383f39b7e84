"""The trace: what the probe recorded, mapped into numpy columns."""

from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.run import Run, load_run

__all__ = ["Process", "Run", "TraceError", "load_run"]
