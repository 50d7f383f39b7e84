"""Watches the trace of a training that may still go on, and says what became of it when it has ended."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_traincheck.check.result import CheckResult, Incident, RunError, SideInfo, Timing, Warned
from pytest_traincheck.golden import store
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.launch.metadata import read_environment
from pytest_traincheck.text import plural
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.workflow import states
from pytest_traincheck.workflow.against import Against
from pytest_traincheck.workflow.policy import judge
from pytest_traincheck.workflow.sufficiency import cautions, vacuous

if TYPE_CHECKING:
    from pytest_traincheck.online.ending import Ending, Resume
    from pytest_traincheck.online.follow import Followed, Follower
    from pytest_traincheck.trace import Run

SHARE = 0.25
"""Share of one core that watching may take: the training may need the rest."""
EVERY_S = 0.5
"""Seconds from one look to the next, at least: each costs something, however little has come."""
AT_ONCE_S = 0.5
"""Seconds of looking after which the training is looked after again."""
NICER = 10
"""By how much looking is nicer than the training: it waits where both have come to be on one core."""
WHOLE = 2_000_000
"""Events of a finished training that are checked as a whole, where it was as long as golden's."""


@dataclass
class Watch:
    """One training that is watched. `tell` is called once for each incident, as soon as it is known.

    What goes wrong with watching ends that and not the training; `failure` says why.
    """

    run_dir: Path
    against: Against
    tell: Callable[[Incident, int], None]
    """An incident, and how many steps had been looked at when it was found."""
    keep: int | None = None
    """Bytes of each trace that are kept behind its first steps; None: all."""
    continues: Path | None = None
    """The trace, or the end state, of the training that this one goes on with, where somebody says so."""
    looked: Callable[[int], None] = lambda _steps: None
    """Told after each look how many steps have been looked at."""
    leaves: Sequence[Path] = ()
    """Where is written what another training may go on with; without any, nothing is looked up either."""
    failure: str = ""
    spent: float = 0.0
    """Seconds that looking took."""
    notes: list[str] = field(default_factory=list)
    """What there is to say of the watching itself."""
    _follower: Follower | None = None
    _told: set[str] = field(default_factory=set)
    _next: float = 0.0
    _saves: int = 0
    _earlier: list[Ending] | None = None
    _aside: ThreadPoolExecutor | None = None
    """Where it looks while the training goes on. Priority is that of this one thread, and not of what others start."""

    def look(self, *, ended: bool = False) -> None:
        """Look at what was written since, unless that would take more than its share of time.

        Raises what `tell` raises, and nothing else: a training does not end because somebody cannot watch it.
        """
        if self.failure or (not ended and time.perf_counter() < self._next):
            return
        begun, beginning = time.perf_counter(), self._follower is None or not self._follower.longer
        if ended:
            self.close()
        behind = True
        while behind and not self.failure:
            incidents, behind = self._found(ended=True) if ended else self._found_aside()
            self._tell(incidents)
            if not ended and time.perf_counter() - begun >= AT_ONCE_S:
                break
        self.looked(self.steps)
        taken = time.perf_counter() - begun
        self.spent += taken
        # What is done once, to read the golden and to compare its own steps, is no reason to look away for long.
        usual = max(taken * (1 / SHARE - 1), 0.0 if behind else EVERY_S - taken)
        pause = usual if not beginning else 0.0 if behind else taken
        self._next = time.perf_counter() + pause

    def _found_aside(self) -> tuple[Sequence[Incident], bool]:
        if self._aside is None:
            self._aside = ThreadPoolExecutor(1, "traincheck-watch", _be_nicer)
        return self._aside.submit(self._found, ended=False).result()

    def close(self) -> None:
        """Wait for the end of a look that somebody has interrupted, and end the thread that looks; more may follow."""
        if self._aside is not None:
            self._aside.shutdown()
            self._aside = None

    def _found(self, *, ended: bool) -> tuple[Sequence[Incident], bool]:
        """What is known after one more piece, and whether there is another."""
        try:
            follower = self._following()
            if follower is None:
                return (), False
            incidents = follower.advance(ended=ended)
            follower.reject_unreliable()
            self._leave(follower, ended=ended)
            self._let_go(follower)
            return incidents, follower.behind
        except (TraceError, GoldenError) as error:
            self.failure = str(error)
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not end a training that took weeks
            what = f"{type(error).__name__}: {error}"
            self.failure = f"watching failed: {what}; please report this as a bug of pytest-traincheck"
        return (), False

    def _leave(self, follower: Follower, *, ended: bool) -> None:
        """Write down what another training may go on with, whenever there is something new."""
        if not self.leaves or follower.behind or (follower.saves == self._saves and not ended):
            return
        self._saves = follower.saves
        ending = follower.ending()
        if ending is None:
            return
        from pytest_traincheck.online.ending_file import write

        for path in self.leaves:
            try:
                write(path, ending)
            except OSError as error:
                self.notes.append(f"what another training may go on with was not written: {path}: {error.strerror}")
                self.leaves = [other for other in self.leaves if other != path]

    def _may_go_on_with(self) -> list[Ending]:
        if self._earlier is None:
            self._earlier = states.earlier(self.against, self.leaves) if self.leaves else []
        return self._earlier

    def _let_go(self, follower: Follower) -> None:
        if self.keep is not None:
            try:
                follower.let_go(self.keep)
            except OSError as error:
                self.keep = None
                self.notes.append(f"the trace keeps all of its events: {error.strerror or error}")

    @property
    def over(self) -> bool:
        """Whether every training process said that it ended."""
        return self._follower is not None and self._follower.over and not self._follower.behind

    @property
    def steps(self) -> int:
        """Training steps that were looked at."""
        return 0 if self._follower is None else self._follower.steps

    @property
    def rows(self) -> int:
        """Events that were read; more than before: something was written."""
        return 0 if self._follower is None else self._follower.rows

    def result(
        self, candidate: SideInfo, *, seconds: float = 0.0, errors: Sequence[RunError] = (), stopped: bool = False
    ) -> CheckResult:
        """What was found, when nothing is written any more; `stopped`: since the run was ended at an incident.

        A training that was not longer than golden's is checked as every other run is. Raises `GoldenError`.
        """
        if stopped:
            self.tell = _nobody
        self.look(ended=True)
        golden = self.against.golden
        environment = read_environment(self.run_dir)
        empty = CheckResult(
            golden.pipeline,
            errors=tuple(errors),
            golden=self.against.side,
            candidate=replace(candidate, runs=1, environment=environment),
            timing=Timing(candidate_run_s=seconds, check_s=self.spent),
        )
        if self.failure:
            return replace(empty, errors=(*errors, RunError("candidate", self.failure)))
        follower = self._follower
        if follower is None or not follower.steps:
            return self._of_run(empty) if not errors else empty
        if errors or stopped or follower.longer or follower.midway:
            goes_on = follower.resumes or follower.midway
            short = follower.rows <= WHOLE and not follower.sampled and not follower.gone and not goes_on
            whole = not errors and not stopped and not self.against.other_length and short
            return self._of_run(empty) if whole else self._of_stretches(empty, follower, stopped=stopped)
        return self._of_run(empty)

    def _following(self) -> Follower | None:
        if self._follower is None:
            # Imported here, since numpy is not needed to say that an option is wrong.
            from pytest_traincheck.online.follow import Follower

            platform = read_environment(self.run_dir).get("platform", "")
            if not platform:
                return None
            self.against = replace(self.against, golden=self._golden(platform))
            against = self.against
            told = states.told(self.continues, against) if self.continues is not None else None
            self._follower = Follower(
                self.run_dir,
                against.golden,
                against.same_spec,
                against.other_length,
                told=told,
                earlier=self._may_go_on_with,
            )
        return self._follower

    def _golden(self, platform: str) -> Golden:
        against = self.against
        if against.path is None or not against.same_spec:
            return against.golden
        return store.with_numbers(against.golden, against.path, platform)

    def _tell(self, incidents: Sequence[Incident]) -> None:
        judged = judge((), incidents, self.against.rules)
        for incident in judged.incidents:
            cause = f"{incident.cause.invariant.id} {incident.cause.step}"
            if cause not in self._told:
                self._told.add(cause)
                self.tell(incident, self.steps)

    def _of_run(self, empty: CheckResult) -> CheckResult:
        """The check of the whole run."""
        from pytest_traincheck.check.evaluate import check_run
        from pytest_traincheck.trace import load_run

        against, begun = self.against, time.perf_counter()
        try:
            run: Run = load_run(self.run_dir)
        except TraceError as error:
            return replace(empty, errors=(*empty.errors, RunError("candidate", str(error))))
        outcome = check_run(self._golden(run.platform), run, same_spec=against.same_spec)
        judged = judge(outcome.verdicts, outcome.incidents, against.rules)
        return replace(
            empty,
            verdicts=judged.verdicts,
            incidents=judged.incidents,
            modules=outcome.modules,
            errors=() if outcome.incidents else vacuous(outcome.verdicts),
            timing=replace(empty.timing, check_s=self.spent + time.perf_counter() - begun),
            notes=(*self._reduced, *judged.notes),
            renamed=outcome.renamed,
            coverage=outcome.coverage,
            warnings=(*cautions(against.golden, outcome.coverage, against.rules), *outcome.warnings),
            ran=outcome.ran,
        )

    @property
    def _reduced(self) -> tuple[str, ...]:
        return (self.against.reduced,) if self.against.reduced else ()

    def _of_stretches(self, empty: CheckResult, follower: Follower, *, stopped: bool) -> CheckResult:
        """What the checks of golden's steps and of the stretches behind them add up to."""
        against, found = self.against, follower.finish()
        judged = judge(found.verdicts, found.incidents, against.rules)
        coverage = found.first.coverage if found.first is not None else None
        first = found.first
        known = f", golden's runs {against.golden.steps}" if against.golden.steps else ""
        made = (
            f"was ended after {plural(found.steps, 'step')}, at its first incident"
            if stopped
            else (f"made {plural(found.steps, 'step')}{known}")
        )
        compared = known and not stopped and coverage is not None and coverage.comparisons
        ends = "comparisons end there; " if compared else ""
        length = f"the training {made}: {ends}rules about whole runs were not judged"
        if follower.sampled:
            # Steps that are taken once more, behind an older checkpoint, were observed twice.
            observed = min(follower.observed, found.steps)
            length += f". {observed} of its steps were observed; what happened in the others is not known"
        checked = replace(empty, verdicts=judged.verdicts)
        gone_on = (*map(_resumed, follower.resumes), *_taken_over(found), *_still_broken(checked))
        return replace(
            checked,
            incidents=judged.incidents,
            modules=first.modules if first is not None else (),
            errors=(*empty.errors, *(() if found.incidents or empty.errors else vacuous(found.verdicts))),
            notes=(*self._reduced, length, *gone_on, *self.notes, *judged.notes),
            renamed=first.renamed if first is not None else (),
            coverage=coverage,
            warnings=(
                *_begun_midway(follower, fails=against.rules.strict),
                *cautions(against.golden, coverage, against.rules),
                *(first.warnings if first is not None else ()),
            ),
        )


def _be_nicer() -> None:
    # Elsewhere a priority is that of the whole process, and so of all that it starts.
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, min(os.getpriority(os.PRIO_PROCESS, 0) + NICER, 19))


def _resumed(resume: Resume) -> str:
    if resume.alike:
        return f"another process goes on at step {resume.steps} with what the training before it has left"
    return (
        f"another process is taken to go on at step {resume.steps} of the training that `--continues` names, though no "
        "trained parameter begins with the value that it had there: see that the right checkpoint is loaded"
    )


def _taken_over(found: Followed) -> Iterator[str]:
    """Where another optimizer takes the steps, of which the golden runs had none."""
    if found.taken_over is not None:
        names = found.taken_over.optimizers
        yield (
            f"from step {found.taken_over.step} on {' and '.join(f'`{name}`' for name in names)} "
            f"{'takes' if len(names) == 1 else 'take'} the steps, and took none in the golden runs: how often "
            "something is called there was not judged"
        )


def _begun_midway(follower: Follower, *, fails: bool) -> Iterator[Warned]:
    """What is not looked at where nobody knows with what a training goes on."""
    if follower.midway:
        title = (
            "The optimizer begins with the state of earlier steps, unlike golden's: this is taken for a training that "
            "goes on with one that was not watched. Whether all of it was restored, and where its schedules are, is "
            "not checked, and its steps are counted from here. Name what the earlier run kept with `--continues` to "
            "have that checked, too."
        )
        yield Warned("coverage", title, fails=fails)


def _still_broken(result: CheckResult) -> Iterator[str]:
    """Which rules no incident speaks of though they are broken."""
    if known := result.told_before:
        sentences = " ".join(dict.fromkeys(item.invariant.sentence for item in known))
        still = f"{plural(len(known), 'rule')} {'is' if len(known) == 1 else 'are'} still broken"
        yield f"{still}, as in the training before this one, where that was reported: {sentences}"


def _nobody(_incident: Incident, _steps: int) -> None:
    """Nobody wants to know any more."""
