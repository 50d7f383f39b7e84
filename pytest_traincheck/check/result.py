"""The check artefact: verdicts, violations and incidents of one pipeline. Pure data; reports are functions of it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_traincheck.check.ran import Ran
from pytest_traincheck.golden.format_1 import ids_of
from pytest_traincheck.golden.portrait import Portraits
from pytest_traincheck.redaction import redacted
from pytest_traincheck.relations import Deviation, Meaning, meaning_of
from pytest_traincheck.rules.model import Invariant, Kind

if TYPE_CHECKING:
    from pytest_traincheck.check.audited import Audit

JSON_FORMAT = 1
"""Version of the JSON contract (`--json`)."""

CONFIGURATION = "configuration"
"""Stage of a violation that is no part of a run: what is wrong stands in the configuration."""


class Verdict(str, Enum):
    """What became of one golden invariant."""

    HELD = "held"
    VIOLATED = "violated"
    NOT_TRIGGERED = "not triggered"
    NOT_OBSERVABLE = "not observable"
    ACCEPTED = "accepted"


class Outcome(str, Enum):
    """What became of a whole pipeline; exit status 0, 1 and 3."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"


@dataclass(frozen=True)
class Violation:
    """One invariant broken at one place, the first of `count` places."""

    invariant: Invariant
    title: str
    golden: str
    candidate: str
    step: int
    stage: str
    ranks: tuple[int, ...]
    seq: int
    module: str = ""
    variables: tuple[str, ...] = ()
    source: str = ""
    count: int = 1
    place: str = ""
    """Where changed lines are looked for first, as `path:line`; empty: at the source."""
    value: str = ""
    """What the candidate has, where golden's could have become one of several things; an acceptance is for this one."""
    deviation: Deviation = Deviation.DIFFERENT
    common_cause: str = ""
    """What is behind it, where that shows in several rules; empty where nobody knows."""
    modules: tuple[str, ...] = ()
    """Modules that are called in another way: what their calls do, and those of modules in them, follows from it."""
    changed: tuple[str, str] | None = None
    """What golden has and what the candidate has at this place, where that is one value that somebody set."""

    @cached_property
    def meaning(self) -> Meaning:
        """What the broken rule means, as its relation says: asked for in every pair of violations."""
        return meaning_of(self.invariant)


def incident_id(
    root: Violation, consequences: Sequence[Violation] = (), rule_id: Callable[[Invariant], str] = lambda rule: rule.id
) -> str:
    """Hash of what an incident says: which rule was broken, when, and what the candidate has instead where that could
    be one of several things; with the settings that were changed along with it.
    """
    parts = [rule_id(root.invariant), str(root.step), root.stage, *([root.value] if root.value else [])]
    if root.invariant.kind is Kind.CONFIG:
        settings = [item for item in consequences if item.value and item.invariant.kind is Kind.CONFIG]
        parts += [*sorted(root.variables), *sorted(f"{rule_id(item.invariant)}={item.value}" for item in settings)]
    return hashlib.blake2b("|".join(parts).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


@dataclass(frozen=True)
class ChangedLines:
    """The part of the diff between both trees that touches an incident's place.

    `file` is a path as the incident's `source` has it. `hunk` is text of a unified diff, golden to candidate, that
    begins with its `@@` line; `focus` is the place among its lines, counted from 0, of the change that was looked for.
    `how` says in words what connects it with the incident.
    """

    file: str
    hunk: str
    how: str
    focus: int = 0


@dataclass(frozen=True)
class Incident:
    """The violations that share one cause: `cause`, as far as it is known; `consequences` follow from it. `number` is
    its place in the report, from 1.

    `diff` is None where a tree is not known or no change touches the place.
    """

    id: str
    number: int
    cause: Violation
    consequences: tuple[Violation, ...] = ()
    diff: ChangedLines | None = None

    @property
    def kind(self) -> Kind:
        return self.cause.invariant.kind

    @property
    def violations(self) -> tuple[Violation, ...]:
        return (self.cause, *self.consequences)

    @property
    def ids(self) -> tuple[str, ...]:
        """All ids that it is known by: its own, and the one that it had while rules had those of format 1."""
        today = incident_id(self.cause, self.consequences)
        former = incident_id(self.cause, self.consequences, lambda rule: ids_of(rule)[-1])
        return (self.id,) if former == today else (self.id, former)


@dataclass(frozen=True)
class InvariantVerdict:
    """The verdict on one golden invariant, with the reason where it was not held or violated; one that held with a
    reason was broken without any effect, and the reason is what shows that. One that is violated with a reason is in no
    incident, as the reason says.
    """

    invariant: Invariant
    verdict: Verdict
    reason: str = ""
    applicable: bool = True
    """Whether the rule speaks of a run like this one at all; one that does not cannot be missed in it."""


@dataclass(frozen=True)
class ModuleAgreement:
    """How the results of one module agree with those that a golden run got from the same inputs.

    `status` is `same`, `drifted` (within rounding), `deviates` or `not comparable`, the worst of its `calls` calls in
    the first steps; `off` is the largest relative distance.
    """

    path: str
    status: str
    off: float
    calls: int


@dataclass(frozen=True)
class Parted:
    """The first place where two runs went apart, in words. `reported` says that a broken rule reports it."""

    what: str
    step: int = 0
    source: str = ""
    reported: bool = False


@dataclass(frozen=True)
class LaterSteps:
    """Of how many training steps golden's loss, gradients and update are known beside those that are compared call by
    call, and how many were given what golden's were, to the last bit; of the others, why the first one was not.

    They are counted for each process, and in no share: what only rounds otherwise meets the condition nowhere.
    """

    steps: int = 0
    compared: int = 0
    lost: str = ""


@dataclass(frozen=True)
class Coverage:
    """How many of golden's conditional comparisons there are and how many took place.

    `floor` is the least share that golden's own runs lead one to expect, `lost` how many of those that golden itself
    repeats did not take place. `repeats` says whether golden's seed gives the same twice; None where nobody knows.
    `excuse` says why the candidate owes none of them, as with another seed; empty where it does.
    """

    comparisons: int = 0
    made: int = 0
    floor: float = 0.0
    repeats: bool | None = None
    parted: Parted | None = None
    lost: int = 0
    excuse: str = ""
    reasons: tuple[tuple[str, int], ...] = ()
    """Why comparisons did not take place, in words that go on behind a number, and how many; the most first."""
    drawn_otherwise: bool = False
    """Whether other random numbers than golden's are among the reasons."""
    later: LaterSteps = LaterSteps()
    """The same of the steps behind those that are compared call by call."""

    @property
    def share(self) -> float:
        """Between 0 and 1; 0 where there is nothing to compare."""
        return self.made / self.comparisons if self.comparisons else 0.0


@dataclass(frozen=True)
class Warned:
    """What a reader must see though no rule is broken: of `kind` `coverage`, `golden` or `environment`.

    `source` is a line of the user's code, `fails` whether the check fails for it.
    """

    kind: str
    title: str
    source: str = ""
    fails: bool = False


@dataclass(frozen=True)
class RunError:
    """A run that failed, timed out or was unreliable: what happened, to which side, and what to do now."""

    side: str
    message: str
    remedy: str = ""
    output: str = ""
    """Last lines of the user's own output."""

    def __post_init__(self) -> None:
        for name in ("message", "remedy", "output"):
            object.__setattr__(self, name, redacted(getattr(self, name)))


@dataclass(frozen=True)
class Timing:
    """Wall seconds. Run times are means over the runs of a side; 0.0 for what did not happen."""

    golden_run_s: float = 0.0
    candidate_run_s: float = 0.0
    infer_s: float = 0.0
    check_s: float = 0.0


@dataclass(frozen=True)
class SideInfo:
    """Where one side's code and libraries came from."""

    commit: str = ""
    runs: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    command: str = ""
    cached: str = ""
    """When a golden that came from the cache was learned, as ISO 8601 in UTC; empty for everything else."""
    directory: str = ""
    """Where its command ran, from the top of the repository; empty at the top, and where there is no repository."""

    def __post_init__(self) -> None:
        # Every report shows the command, and none may show what is secret in it.
        object.__setattr__(self, "command", redacted(self.command))


@dataclass(frozen=True)
class Commands:
    """What to type after a failed check, as words that a shell takes as they stand.

    `reproduce` runs this check of this pipeline again; `accept` says that every incident was intended, and is empty
    where nothing is stored that could be changed.
    """

    reproduce: tuple[str, ...]
    accept: tuple[str, ...]


@dataclass(frozen=True)
class CheckResult:
    """Everything that one check of one pipeline found."""

    pipeline: str
    verdicts: tuple[InvariantVerdict, ...] = ()
    incidents: tuple[Incident, ...] = ()
    errors: tuple[RunError, ...] = ()
    golden: SideInfo = field(default_factory=SideInfo)
    candidate: SideInfo = field(default_factory=SideInfo)
    timing: Timing = field(default_factory=Timing)
    notes: tuple[str, ...] = ()
    """Things a reader should know that are not failures, e.g. a run retried after an abort in teardown."""
    modules: tuple[ModuleAgreement, ...] = ()
    """The modules of all models in order of their first call; empty where nothing was compared."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Models and modules that the candidate calls otherwise: its name, and the golden's, which everything here uses."""
    commands: Commands | None = None
    """What to do about incidents; None where there are none, or nothing is configured."""
    coverage: Coverage | None = None
    """What of golden's comparisons took place; None where no run was checked."""
    warnings: tuple[Warned, ...] = ()
    """What must not be overlooked though no rule is broken."""
    ran: Ran | None = field(default=None, repr=False, compare=False)
    """What is known of the candidate's code that ran: for the changed lines, and in no report."""
    portraits: Portraits | None = field(default=None, repr=False, compare=False)
    """What pages draw of both runs; in no other report."""
    audit: Audit | None = None
    """What the candidate's run breaks of ready-made rules; None where that was not asked for."""

    @property
    def outcome(self) -> Outcome:
        if self.errors:
            return Outcome.ERROR
        failed = bool(self.incidents) or any(warning.fails for warning in self.warnings)
        failed |= self.audit is not None and self.audit.outcome is not Outcome.PASS
        return Outcome.FAIL if failed else Outcome.PASS

    def count(self, verdict: Verdict) -> int:
        return sum(item.verdict is verdict for item in self.verdicts)

    @property
    def excused(self) -> tuple[InvariantVerdict, ...]:
        """Rules that were broken without any effect, each with what shows that."""
        return tuple(item for item in self.verdicts if item.verdict is Verdict.HELD and item.reason)

    @property
    def told_before(self) -> tuple[InvariantVerdict, ...]:
        """Rules that are broken and in no incident, each with the reason."""
        return tuple(item for item in self.verdicts if item.verdict is Verdict.VIOLATED and item.reason)

    def to_json(self) -> dict[str, Any]:
        """The object of the JSON contract."""
        held, violated = self.count(Verdict.HELD), self.count(Verdict.VIOLATED)
        accepted = self.count(Verdict.ACCEPTED)
        total = len(self.verdicts)
        return {
            "format": JSON_FORMAT,
            "verdict": self.outcome.value,
            "pipeline": self.pipeline,
            "golden": _side_json(self.golden),
            "candidate": _side_json(self.candidate),
            "invariants": {
                "golden": total,
                "checked": held + violated + accepted,
                "passed": held + accepted,
                "violated": violated,
                "not_evaluated": total - held - violated - accepted,
            },
            "incidents": [incident_json(incident) for incident in self.incidents],
            "timing": {
                "golden_run_s": round(self.timing.golden_run_s, 4),
                "candidate_run_s": round(self.timing.candidate_run_s, 4),
                "infer_s": round(self.timing.infer_s, 4),
                "check_s": round(self.timing.check_s, 4),
            },
            "errors": [
                {"side": error.side, "message": error.message, "remedy": error.remedy, "output": error.output}
                for error in self.errors
            ],
            "modules": [
                {"path": item.path, "status": item.status, "off": _finite(item.off), "calls": item.calls}
                for item in self.modules
            ],
            "notes": list(self.notes),
            "renamed": [{"candidate": candidate, "golden": golden} for candidate, golden in self.renamed],
            "commands": _commands_json(self.commands),
            "coverage": coverage_json(self.coverage or Coverage()),
            "warnings": [warning_json(warning) for warning in self.warnings],
            "excused": [
                {"invariant": item.invariant.id, "sentence": item.invariant.sentence, "evidence": item.reason}
                for item in self.excused
            ],
        }


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None


def _side_json(side: SideInfo) -> dict[str, Any]:
    return {
        "commit": side.commit,
        "runs": side.runs,
        "environment": dict(side.environment),
        "path": side.path,
        "command": side.command,
        "cached": side.cached or None,
        "directory": side.directory,
    }


def incident_json(incident: Incident) -> dict[str, Any]:
    """An incident as the JSON contract has it."""
    root = incident.cause
    return {
        "id": incident.id,
        "rank": incident.number,
        "kind": incident.kind.value,
        "title": root.title,
        "subject": root.invariant.subject,
        "relation": root.invariant.relation,
        "step": root.step,
        "stage": root.stage,
        "ranks": list(root.ranks),
        "module": root.module,
        "variables": list(root.variables),
        "source": root.source,
        "golden": root.golden,
        "candidate": root.candidate,
        "invariants": sorted({violation.invariant.id for violation in incident.violations}),
        "values": {violation.invariant.id: violation.value for violation in incident.violations if violation.value},
        "consequences": len(incident.consequences),
        "diff": _diff_json(incident.diff),
    }


def coverage_json(coverage: Coverage) -> dict[str, Any]:
    """Coverage as the JSON contract has it."""
    parted, later = coverage.parted, coverage.later
    return {
        "comparisons": coverage.comparisons,
        "made": coverage.made,
        "share": round(coverage.share, 4),
        "floor": round(coverage.floor, 4),
        "parted": None if parted is None else {"what": parted.what, "step": parted.step, "source": parted.source},
        "reasons": dict(coverage.reasons),
        "later": {"steps": later.steps, "compared": later.compared, "lost": later.lost},
    }


def warning_json(warning: Warned) -> dict[str, Any]:
    """A warning as the JSON contract has it."""
    return {"kind": warning.kind, "title": warning.title, "source": warning.source, "fails": warning.fails}


def _commands_json(commands: Commands | None) -> dict[str, str] | None:
    if commands is None:
        return None
    return {"reproduce": " ".join(commands.reproduce), "accept": " ".join(commands.accept)}


def _diff_json(diff: ChangedLines | None) -> dict[str, Any] | None:
    return None if diff is None else {"file": diff.file, "hunk": diff.hunk, "how": diff.how}
