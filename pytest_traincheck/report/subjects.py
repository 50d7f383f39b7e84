"""A result by subject: what each subject's rules came to, and the incidents that concern it."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_traincheck.check.result import CheckResult, Incident, InvariantVerdict, Verdict


@dataclass(frozen=True)
class SubjectReport:
    """The verdicts on one subject, the incidents that it `caused`, and those that its own violations follow from."""

    subject: str
    verdicts: tuple[InvariantVerdict, ...] = ()
    caused: tuple[Incident, ...] = ()
    follows: tuple[Incident, ...] = ()

    @property
    def is_broken(self) -> bool:
        """Whether some rule of the subject is broken, as the cause of an incident or as a consequence. One that was
        told before is not.
        """
        told = any(item.verdict is Verdict.VIOLATED and not item.reason for item in self.verdicts)
        return bool(self.caused or self.follows) or told

    @property
    def skip_reason(self) -> str:
        """Why no rule of the subject says anything, or "" where one does."""
        if self.is_broken or any(item.verdict is Verdict.HELD for item in self.verdicts):
            return ""
        reasons = dict.fromkeys(
            f"{item.verdict.value}: {item.reason}" if item.reason else item.verdict.value for item in self.verdicts
        )
        return "; ".join(reasons) or "no verdict"


@dataclass
class _Gathered:
    verdicts: list[InvariantVerdict] = field(default_factory=list)
    caused: list[Incident] = field(default_factory=list)
    follows: list[Incident] = field(default_factory=list)


def by_subject(result: CheckResult) -> list[SubjectReport]:
    """One report per subject, sorted by name; subjects that only an incident names are among them."""
    gathered: dict[str, _Gathered] = {}
    for item in result.verdicts:
        gathered.setdefault(item.invariant.subject, _Gathered()).verdicts.append(item)
    for incident in result.incidents:
        cause = incident.cause.invariant.subject
        gathered.setdefault(cause, _Gathered()).caused.append(incident)
        others = dict.fromkeys(violation.invariant.subject for violation in incident.consequences)
        for subject in others:
            if subject != cause:
                gathered.setdefault(subject, _Gathered()).follows.append(incident)
    return [
        SubjectReport(subject, tuple(part.verdicts), tuple(part.caused), tuple(part.follows))
        for subject, part in sorted(gathered.items())
    ]
