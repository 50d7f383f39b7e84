"""Projects for tests of the plugin: goldens made by hand, and check results that stand in for training."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from pytest_traincheck.check.result import (
    CheckResult,
    Commands,
    Incident,
    InvariantVerdict,
    RunError,
    Verdict,
    Violation,
)
from pytest_traincheck.check.serialise import to_plain
from pytest_traincheck.config import PipelineSpec
from pytest_traincheck.golden import store
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.pytest_plugin import checks
from pytest_traincheck.relations.called import Called
from pytest_traincheck.relations.count import PerRun
from pytest_traincheck.rules.model import Invariant, Kind, Scope

# A session within this process forgets at its end what it was the first to import. Imported again by another, an
# exception would be another class than the one that is waited for elsewhere, and a relation that is still known would
# have lost its module. What these packages use comes with them.
for name in ("pytest_plugin", "workflow", "relations", "relations.laws"):
    package = import_module(f"pytest_traincheck.{name}")
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        import_module(module.name)

CONFTEST = """
import json, pathlib
from pytest_traincheck.check.serialise import from_plain
from pytest_traincheck.pytest_plugin import checks

HERE = pathlib.Path(__file__).parent

def canned(config, spec, *arguments, **options):
    with (HERE / "runs.log").open("a") as log:
        log.write(f"{spec.name}\\n")
    return from_plain(json.loads((HERE / f"{spec.name}.result").read_text()))

checks.check_stored = checks.check_live = canned
"""

STEP = "torch.optim.SGD.step"
ZERO = "torch.optim.Optimizer.zero_grad"
LINEAR = "torch.nn.Linear"


def invariant(subject: str, sentence: str, kind: Kind = Kind.BEHAVIOUR) -> Invariant:
    return Invariant(
        "Count",
        subject,
        PerRun(Called(sentence)),
        (),
        Scope.TRANSFERABLE,
        kind,
        sentence,
        24,
        3,
    )


RULES = (
    invariant(LINEAR, "torch.nn.Linear is called"),
    invariant(ZERO, "zero_grad is called once per step"),
    invariant(STEP, "SGD.step is called once per step"),
)


def violation(rule: Invariant, title: str, step: int = 1) -> Violation:
    return Violation(
        rule, title, "always", "never", step, "train", (0,), 17, "net.head", ("net.head.weight",), "train.py:41"
    )


def passed(name: str, rules: Sequence[Invariant] = RULES) -> CheckResult:
    return CheckResult(name, tuple(InvariantVerdict(rule, Verdict.HELD) for rule in rules))


def failed(name: str) -> CheckResult:
    """zero_grad is missing; that the step differs follows from it; the Linear rule did not come up."""
    linear, zero, step = RULES
    root = violation(zero, "zero_grad was never called")
    incident = Incident("abc", 1, root, (violation(step, "SGD.step moved by another amount", 2),))
    verdicts = (
        InvariantVerdict(linear, Verdict.NOT_TRIGGERED, "its context never came up in this run"),
        InvariantVerdict(zero, Verdict.VIOLATED),
        InvariantVerdict(step, Verdict.VIOLATED),
    )
    commands = Commands(("traincheck", "check", name), ("traincheck", "refresh", name, "--accept", "abc"))
    return CheckResult(name, verdicts, (incident,), commands=commands)


def crashed(name: str) -> CheckResult:
    error = RunError(
        "candidate", "the candidate run of `python train.py` exited with 1", "Correct it.", "boom\nlast line"
    )
    return CheckResult(name, errors=(error,))


APART = [word for name in ("anyio", "hypothesispytest", "typeguard") for word in ("-p", f"no:{name}")]
"""What the tests' own environment may have beside the plugin, for nothing but a third of a second in each process."""


@dataclass(frozen=True)
class Project:
    """A directory with two configured pipelines whose runs are canned."""

    pytester: pytest.Pytester
    plugin: tuple[str, ...]

    @property
    def root(self) -> Path:
        return self.pytester.path

    def set(self, result: CheckResult, golden: bool = True) -> None:
        (self.root / f"{result.pipeline}.result").write_text(json.dumps(to_plain(result)))
        if golden:
            spec = PipelineSpec(result.pipeline, "python train.py").fingerprint()
            path = store.golden_path(self.root / "golden_invariants", result.pipeline)
            store.write(path, Golden(result.pipeline, spec, RULES, seeds=(0, 1, 2), runs=3))

    def run(self, *arguments: str) -> pytest.RunResult:
        """In this process, which is many times faster; `CONFTEST` is for the workers of xdist."""
        return self.pytester.runpytest_inprocess(*self.plugin, *arguments)

    def run_apart(self, *arguments: str) -> pytest.RunResult:
        return self.pytester.runpytest_subprocess(*self.plugin, *APART, *arguments)

    @property
    def runs(self) -> list[str]:
        log = self.root / "runs.log"
        return log.read_text().split() if log.exists() else []


def plugin_arguments() -> tuple[str, ...]:
    """How pytest finds the plugin: by its entry point where the package is installed, by name otherwise."""
    installed = any(point.value == "pytest_traincheck.plugin" for point in entry_points(group="pytest11"))
    return () if installed else ("-p", "pytest_traincheck.plugin")


@pytest.fixture(scope="session")
def plugin() -> tuple[str, ...]:
    return plugin_arguments()


@pytest.fixture
def project(pytester: pytest.Pytester, plugin: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("COLUMNS", "160")
    # The conftest of the project replaces these; at the end of the test they are put back.
    monkeypatch.setattr(checks, "check_stored", checks.check_stored)
    monkeypatch.setattr(checks, "check_live", checks.check_live)
    (pytester.path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\ntestpaths = ['tests']\n"
        "[tool.traincheck.pipelines.net]\nrun = 'python train.py'\n"
        "[tool.traincheck.pipelines.gan]\nrun = 'python train.py'\n"
    )
    (pytester.path / "conftest.py").write_text(CONFTEST)
    (pytester.path / "tests").mkdir()
    (pytester.path / "tests" / "test_other.py").write_text("def test_other():\n    pass\n")
    project = Project(pytester, plugin)
    project.set(passed("net"))
    project.set(passed("gan"))
    return project


@pytest.fixture
def results() -> dict[str, Callable[[str], CheckResult]]:
    return {"passed": passed, "failed": failed, "crashed": crashed}
