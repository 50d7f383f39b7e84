"""Stand-ins for running, learning and checking, so that the commands can be tested without training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_traincheck.check.evaluate import CheckOutcome
from pytest_traincheck.check.result import Incident, InvariantVerdict, Verdict, Violation
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.jobs import Jobs
from pytest_traincheck.launch.run import RunOutcome, RunRequest, RunStatus
from pytest_traincheck.relations.called import Called
from pytest_traincheck.relations.count import PerStep
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.workflow import engine
from pytest_traincheck.workflow.overlap import Overlap


def invariant(subject: str, scope: Scope = Scope.TRANSFERABLE, kind: Kind = Kind.BEHAVIOUR) -> Invariant:
    return Invariant(
        "Count",
        subject,
        PerStep(Called(subject), "once"),
        (),
        scope,
        kind,
        f"{subject} is called once per step",
        24,
        3,
    )


STEP = invariant("torch.optim.SGD.step")
ZERO = invariant("torch.optim.Optimizer.zero_grad")
PINNED = invariant("torch.nn.Linear", Scope.PINNED)


def violation(rule: Invariant, value: str = "") -> Violation:
    return Violation(rule, f"{rule.subject} was never called", "once", "never", 1, "train", (0,), 5, value=value)


@dataclass(frozen=True)
class FakeTrace:
    """What is asked of a trace outside of learning and checking."""

    directory: Path
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass
class FakeEngine:
    """Records what it is asked for. `broken` names the subjects whose rules the candidate breaks."""

    rules: tuple[Invariant, ...] = (STEP, ZERO, PINNED)
    broken: tuple[str, ...] = ()
    varied: tuple[str, ...] = ()
    repeats: bool = False
    repeated: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    value: str = ""
    """What the candidate has in place of golden's, for all that is broken."""
    failing: Callable[[RunRequest], bool] = lambda _request: False
    untrained: bool = False
    requests: list[RunRequest] = field(default_factory=list)
    same_spec: list[bool] = field(default_factory=list)

    def execute(self, request: RunRequest, progress: Callable[[float], None]) -> RunOutcome:
        progress(0.1)
        self.requests.append(request)
        request.run_dir.mkdir(parents=True, exist_ok=True)
        if self.failing(request):
            message = f"the {request.side} run of `{request.command}` exited with 1"
            remedy = f"Correct it. The whole output is in {request.run_dir}."
            return RunOutcome(request.run_dir, RunStatus.FAILED, 1, 0.1, message, remedy, "boom\nlast line")
        return RunOutcome(request.run_dir, RunStatus.OK, 0, 0.5)

    def load_run(self, run_dir: Path) -> Any:
        if self.untrained:
            raise TraceError(f"nothing was trained: {run_dir}; let it run two steps")
        return FakeTrace(run_dir)

    def learn(
        self,
        runs: Sequence[Any],
        *,
        pipeline: str,
        spec: str,
        commit: str,
        environment: Mapping[str, str],
        seeds: tuple[int, ...],
        reason: str,
        varied: Sequence[Any] = (),
        repeated: Sequence[Any] = (),
    ) -> Golden:
        self.repeated = tuple(run.directory.name for run in repeated)
        self.varied = tuple(run.directory.name for run in varied)
        return Golden(pipeline, spec, self.rules, commit, environment, seeds, len(runs), reason)

    def check_run(self, golden: Golden, run: Any, *, same_spec: bool) -> CheckOutcome:  # noqa: ARG002 - the real one reads it
        self.same_spec.append(same_spec)
        rules = [rule for rule in golden.invariants if rule.subject in self.broken]
        verdicts = tuple(
            InvariantVerdict(
                rule,
                Verdict.VIOLATED
                if rule in rules
                else Verdict.NOT_TRIGGERED
                if rule.subject in self.idle
                else Verdict.HELD,
            )
            for rule in golden.invariants
        )
        incidents = tuple(
            Incident(rule.id, rank, violation(rule, self.value)) for rank, rule in enumerate(rules, start=1)
        )
        return CheckOutcome(verdicts, incidents)

    def engine(self, jobs: Jobs = 1) -> engine.Engine:
        return engine.Engine(self.execute, self.load_run, self.learn, self.check_run, self.repeats, Overlap.of(jobs))
