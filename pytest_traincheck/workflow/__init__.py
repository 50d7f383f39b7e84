"""The product's operations: compare two sides, check configured pipelines, refresh their goldens."""

from pytest_traincheck.bundle.errors import BundleError
from pytest_traincheck.config import ConfigError
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.launch.bisection import BisectError
from pytest_traincheck.launch.progress import QuietProgress
from pytest_traincheck.launch.sides import SideError
from pytest_traincheck.report.errors import ReportError
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.workflow.accepting import AcceptError
from pytest_traincheck.workflow.compare import CompareRequest, compare
from pytest_traincheck.workflow.configured import RefreshReport, check_stored, read_stored, refresh
from pytest_traincheck.workflow.live_check import check_live

INPUT_ERRORS = (AcceptError, BisectError, BundleError, ConfigError, GoldenError, SideError, ReportError, TraceError)
"""Wrong use or bad input: one clear message, exit status 2."""

quiet = QuietProgress()
"""Progress that says nothing."""

__all__ = [
    "INPUT_ERRORS",
    "CompareRequest",
    "RefreshReport",
    "check_live",
    "check_stored",
    "compare",
    "quiet",
    "read_stored",
    "refresh",
]
