"""Collectors and items: a golden file is a collector, its items are known before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_traincheck.check.result import CheckResult, Incident, InvariantVerdict, Outcome, Verdict
from pytest_traincheck.config import STORED, PipelineSpec
from pytest_traincheck.golden.model import Golden, Kind
from pytest_traincheck.golden.store import GoldenError
from pytest_traincheck.golden.wording import one_line
from pytest_traincheck.printable import printable_line
from pytest_traincheck.relations.stored import read_golden
from pytest_traincheck.report.wording import diff_place, not_covered, warning
from pytest_traincheck.testing import wording
from pytest_traincheck.testing.checks import CHECKS
from pytest_traincheck.testing.learned import PROPERTY, refusal
from pytest_traincheck.testing.settings import settings_of
from pytest_traincheck.workflow.intended import is_meant

RAN = "ran"
REFRESH = "refresh"
COVERAGE = "coverage"
"""Name of the item that says how much was compared, and the kind of warnings that too little was."""

_REPLAY = "Replay"
"""The relation whose rules are conditional comparisons."""


@dataclass(frozen=True)
class Plan:
    """What the items of a golden file are to do: check against which golden, or learn it again."""

    golden: str
    refresh: bool


class GoldenFile(pytest.File):
    """The golden file of one configured pipeline; it need not exist yet."""

    def __init__(self, *, spec: PipelineSpec, plan: Plan, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.spec = spec
        self.plan = plan

    def collect(self) -> Iterator[pytest.Item]:
        """First "it ran", then one item per subject, in the order of the file."""
        if self.plan.refresh:
            yield RefreshItem.from_parent(self, name=REFRESH)
            return
        live = self.plan.golden != STORED
        if not self.path.exists() and not live:
            yield MissingItem.from_parent(self, name=RAN)
            return
        golden = self._read() if self.path.exists() else None
        lines = _lines_of_subjects(golden) if golden is not None else {}
        replays = golden is not None and any(rule.relation == _REPLAY for rule in golden.invariants)
        known = {*lines, *(kind.value for kind in Kind)} if live else set(lines)
        yield RanItem.from_parent(self, name=RAN, known=frozenset(known))
        if live or replays:
            yield CoverageItem.from_parent(self, name=COVERAGE)
        if live:
            for kind in Kind:
                yield KindItem.from_parent(self, name=kind.value, kind=kind, subjects=frozenset(lines))
        for subject, line in lines.items():
            yield SubjectItem.from_parent(self, name=item_name(subject), subject=subject, line=line)

    def _read(self) -> Golden:
        try:
            return read_golden(self.path)
        except GoldenError as error:
            raise self.CollectError(str(error)) from error


def item_name(subject: str) -> str:
    """The subject as part of a node id, where `::` separates the parts."""
    return printable_line(subject).replace("::", ":")


def _lines_of_subjects(golden: Golden) -> dict[str, int]:
    """Subject -> line of its first rule in the file, counted from 0; the header is line 0."""
    lines: dict[str, int] = {}
    for number, invariant in enumerate(golden.invariants, start=1):
        lines.setdefault(invariant.subject, number)
    return lines


class TraincheckFailure(Exception):
    """A failing item: the whole text, and the sentence that stands for it in a list."""

    def __init__(self, text: str, sentence: str) -> None:
        super().__init__(text)
        self.sentence = sentence


class TraincheckItem(pytest.Item):
    """Base of all items."""

    line = 0

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.line, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The incident as text, no Python traceback: the cause is in the user's training, not in this package."""
        if not isinstance(excinfo.value, TraincheckFailure):
            return super().repr_failure(excinfo, style)
        shown = excinfo.getrepr(style="value")
        if shown.reprcrash is not None:
            shown.reprcrash.path = str(self.path)
            shown.reprcrash.lineno = self.line + 1
            shown.reprcrash.message = excinfo.value.sentence
        return shown


class PipelineItem(TraincheckItem):
    """Base of all items of a golden file."""

    parent: GoldenFile

    @property
    def spec(self) -> PipelineSpec:
        return self.parent.spec

    def check(self) -> CheckResult:
        return self.config.stash[CHECKS].result(self.spec)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.line, f"{self.spec.name}: {self.name}"

    def fail_with(self, incidents: Sequence[Incident], result: CheckResult) -> None:
        raise TraincheckFailure(wording.incidents_text(incidents, result), wording.sentence(incidents[0]))

    def properties(self, **values: object) -> None:
        """Properties for JUnit; they travel with the report, also from an xdist worker."""
        for name, value in {"pipeline": self.spec.name, **values}.items():
            text = str(value)
            if text:
                self.user_properties.append((f"traincheck_{name}", text))

    def incident_properties(self, incidents: Sequence[Incident]) -> None:
        first = incidents[0].root
        self.properties(
            invariants=" ".join(dict.fromkeys(v.invariant.id for item in incidents for v in item.violations)),
            relation=first.invariant.relation,
            kind=incidents[0].kind.value,
            sentence=first.title,
            step=first.step,
            stage=first.stage,
            rank=" ".join(map(str, first.ranks)),
            incident=incidents[0].rank,
            module=first.module,
            variables=" ".join(first.variables),
            source=first.source,
            diff=diff_place(incidents[0].diff) if incidents[0].diff else "",
        )


class MissingItem(PipelineItem):
    """A configured pipeline without a golden: a failure, since nothing would be checked."""

    def runtest(self) -> None:
        self.properties()
        sentence = f"no golden is stored for the pipeline {self.spec.name!r}"
        raise TraincheckFailure(
            f"{sentence}: there is no {self.path}.\nLearn it and commit the file: traincheck refresh {self.spec.name}",
            f"{sentence}; learn it with: traincheck refresh {self.spec.name}",
        )


class RanItem(PipelineItem):
    """The pipeline ran and its trace can be relied upon. Also fails for incidents that no other item stands for."""

    def __init__(self, *, known: frozenset[str], **keywords: Any) -> None:
        super().__init__(**keywords)
        self.known = known

    def runtest(self) -> None:
        result = self.check()
        if result.errors:
            self.properties(sentence=result.errors[0].message)
            raise TraincheckFailure(wording.errors_text(result), result.errors[0].message)
        homeless = [
            incident
            for incident in result.incidents
            if incident.root.invariant.subject not in self.known and incident.kind.value not in self.known
        ]
        if homeless:
            self.incident_properties(homeless)
            self.fail_with(homeless, result)
        self.properties()


class CoverageItem(PipelineItem):
    """Golden's comparisons took place. Skipped with the reason where they did not, so that it hides in no test that
    passed; fails for it under `strict`.
    """

    def runtest(self) -> None:
        result = _ran(self.check())
        warnings = [item for item in result.warnings if item.kind == COVERAGE]
        found = result.coverage
        share = "" if found is None else f"{found.made} of {found.comparisons}"
        self.properties(coverage=share, sentence=warnings[0].title if warnings else "")
        if any(item.fails for item in warnings):
            raise TraincheckFailure(wording.strict_text(warnings, result), one_line(warnings[0].title))
        if warnings:
            pytest.skip(f"warning: {warning(warnings[0])}")
        if reason := not_covered(result):
            pytest.skip(reason)


class KindItem(PipelineItem):
    """With a golden that is learned in this session: the incidents of a kind whose subject no item is known for."""

    def __init__(self, *, kind: Kind, subjects: frozenset[str], **keywords: Any) -> None:
        super().__init__(**keywords)
        self.kind = kind
        self.subjects = subjects

    def runtest(self) -> None:
        result = _ran(self.check())
        own = [
            incident
            for incident in result.incidents
            if incident.kind is self.kind and incident.root.invariant.subject not in self.subjects
        ]
        if own:
            self.incident_properties(own)
            self.fail_with(own, result)
        rules = [item for item in result.verdicts if item.invariant.kind is self.kind]
        self.properties()
        if not rules:
            pytest.skip(f"the golden has no {self.kind.value} rules")


class SubjectItem(PipelineItem):
    """All rules about one API, parameter or module."""

    def __init__(self, *, subject: str, line: int, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.subject = subject
        self.line = line

    def runtest(self) -> None:
        result = _ran(self.check())
        own = [item for item in result.incidents if item.root.invariant.subject == self.subject]
        if own:
            self.incident_properties(own)
            self.fail_with(own, result)
        rules = [item for item in result.verdicts if item.invariant.subject == self.subject]
        for incident in result.incidents:
            broken = [item for item in incident.consequences if item.invariant.subject == self.subject]
            if broken:
                self.properties(
                    invariants=" ".join(dict.fromkeys(item.invariant.id for item in broken)),
                    relation=broken[0].invariant.relation,
                    kind=broken[0].invariant.kind.value,
                    sentence=broken[0].title,
                    step=broken[0].step,
                    rank=" ".join(map(str, broken[0].ranks)),
                    incident=incident.rank,
                )
                text = wording.consequence(incident, broken)
                raise TraincheckFailure(text, text.splitlines()[0])
        self.properties(invariants=" ".join(item.invariant.id for item in rules))
        if reason := _unchecked(rules):
            pytest.skip(reason)


class RefreshItem(PipelineItem):
    """With `--traincheck-refresh`: learns the golden again. Fails for incidents that nobody said were meant."""

    def runtest(self) -> None:
        learned = self.config.stash[CHECKS].relearn(self.spec)
        self.user_properties.append((PROPERTY, self.spec.name))
        if learned.result.errors:
            error = learned.result.errors[0]
            self.properties(sentence=error.message)
            raise TraincheckFailure(wording.errors_text(learned.result), error.message)
        acceptance = settings_of(self.config).acceptance
        refused = [incident for incident in learned.result.incidents if not is_meant(incident, acceptance)]
        if refused:
            self.incident_properties(refused)
            text = refusal(self.spec.name, refused, acceptance, ("--traincheck-pipeline", self.spec.name))
            raise TraincheckFailure(text, f"not refreshed: {wording.sentence(refused[0])}")
        self.properties()


def _ran(result: CheckResult) -> CheckResult:
    if result.outcome is Outcome.ERROR:
        pytest.skip(f"the pipeline did not run: {result.errors[0].message}")
    return result


def _unchecked(rules: Sequence[InvariantVerdict]) -> str:
    """Why nothing was checked; empty when at least one rule was."""
    if not rules:
        return "the golden has no rule about this any more"
    if any(item.verdict not in (Verdict.NOT_TRIGGERED, Verdict.NOT_OBSERVABLE) for item in rules):
        return ""
    reasons = list(dict.fromkeys(item.reason for item in rules if item.reason))
    kinds = " and ".join(dict.fromkeys(item.verdict.value for item in rules))
    return f"{kinds}: {'; '.join(reasons[:3])}" if reasons else kinds
