"""The product's operations: compare two sides, check configured pipelines, refresh their goldens."""

from pytest_traincheck.bundle.errors import BundleError
from pytest_traincheck.config import ConfigError
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.history.record import HistoryError
from pytest_traincheck.launch.bisection import BisectError
from pytest_traincheck.launch.progress import QuietProgress
from pytest_traincheck.launch.run_directory import ForeignDirectoryError
from pytest_traincheck.launch.sides import SideError
from pytest_traincheck.packs.errors import PackError
from pytest_traincheck.plugins import PluginError
from pytest_traincheck.report.errors import ReportError
from pytest_traincheck.scratch import ScratchError
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.workflow.accept import AcceptError
from pytest_traincheck.workflow.check import check_stored, read_stored
from pytest_traincheck.workflow.check_against import check_live
from pytest_traincheck.workflow.compare import CompareRequest, compare
from pytest_traincheck.workflow.init import InitError
from pytest_traincheck.workflow.refresh import Refresh, Relearned, refresh, relearn
from pytest_traincheck.workflow.refresh_intent import Acceptance, UnknownIncidentError
from pytest_traincheck.workflow.runs import ArtifactsError

INPUT_ERRORS = (
    AcceptError,
    ArtifactsError,
    BisectError,
    BundleError,
    ConfigError,
    ForeignDirectoryError,
    GoldenError,
    HistoryError,
    InitError,
    PackError,
    PluginError,
    ScratchError,
    SideError,
    ReportError,
    TraceError,
    UnknownIncidentError,
)
"""Wrong use or bad input: one clear message, exit status 2."""

quiet = QuietProgress()
"""Progress that says nothing."""

__all__ = [
    "INPUT_ERRORS",
    "AcceptError",
    "Acceptance",
    "ArtifactsError",
    "CompareRequest",
    "Refresh",
    "Relearned",
    "UnknownIncidentError",
    "check_live",
    "check_stored",
    "compare",
    "quiet",
    "read_stored",
    "refresh",
    "relearn",
]
