"""Collectors and items: a golden file is a collector, its items are known before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_traincheck.check.result import CheckResult, Incident, InvariantVerdict, Outcome, Violation
from pytest_traincheck.config import STORED, PipelineSpec
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.golden.store import GoldenError
from pytest_traincheck.plugins import PluginError
from pytest_traincheck.printable import printable_line
from pytest_traincheck.pytest_plugin import markers, wording
from pytest_traincheck.pytest_plugin.checks import CHECKS
from pytest_traincheck.pytest_plugin.failure import TraincheckFailure, representation
from pytest_traincheck.pytest_plugin.learned import PROPERTY, refusal
from pytest_traincheck.pytest_plugin.selection import AUDIT, COVERAGE, ERROR, RAN, REPORTED, reported_name
from pytest_traincheck.pytest_plugin.settings import settings_of
from pytest_traincheck.relations import meaning_of
from pytest_traincheck.relations.stored import read_golden
from pytest_traincheck.report.audit.wording import counts
from pytest_traincheck.report.shares import share, unchecked, unevaluated
from pytest_traincheck.report.wording import diff_place, not_covered, warning
from pytest_traincheck.rules.model import Invariant, Kind
from pytest_traincheck.text import one_line
from pytest_traincheck.workflow.refresh_intent import is_meant

REFRESH = "refresh"


@dataclass(frozen=True)
class Plan:
    """What the items of a golden file are to do: check against which golden, or learn it again."""

    golden: str
    refresh: bool
    audit: bool = False


class GoldenFile(pytest.File):
    """The golden file of one configured pipeline; it need not exist yet."""

    def __init__(self, *, spec: PipelineSpec, plan: Plan, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.spec = spec
        self.plan = plan

    def collect(self) -> Iterator[pytest.Item]:
        """The items, each with the markers of its pipeline."""
        for item in self._items():
            markers.mark(item, self.spec.name)
            yield item

    def _items(self) -> Iterator[pytest.Item]:
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
        replays = golden is not None and any(meaning_of(rule).conditional for rule in golden.invariants)
        known = {*lines, *(kind.value for kind in Kind)} if live else set(lines)
        yield RanItem.from_parent(self, name=RAN, known=frozenset(known))
        if live or replays:
            yield CoverageItem.from_parent(self, name=COVERAGE)
        if self.plan.audit:
            yield AuditItem.from_parent(self, name=AUDIT)
        if live:
            for kind in Kind:
                yield KindItem.from_parent(self, name=kind.value, kind=kind, subjects=frozenset(lines))
        for subject, line in lines.items():
            yield SubjectItem.from_parent(self, name=item_name(subject), subject=subject, line=line)

    def _read(self) -> Golden:
        try:
            return read_golden(self.path)
        except (GoldenError, PluginError) as error:
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


class TraincheckItem(pytest.Item):
    """Base of all items."""

    line = 0

    def setup(self) -> None:
        """Begin without what an earlier attempt noted: pytest-rerunfailures runs an item again."""
        self.user_properties[:] = [(name, value) for name, value in self.user_properties if name[:11] != "traincheck_"]

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.line, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The incident as text, no Python traceback: the cause is in the user's training, not in this package."""
        if not isinstance(excinfo.value, TraincheckFailure):
            return super().repr_failure(excinfo, style)
        return representation(excinfo.value, self.path, self.line)


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

    def carries(self, incidents: Sequence[Incident]) -> None:
        """Note that the outcome of this item tells of incidents: what no item tells of, the session has to."""
        self.user_properties += [(REPORTED, reported_name(self.spec.name, incident.id)) for incident in incidents]

    def incident_properties(self, incidents: Sequence[Incident]) -> None:
        first = incidents[0].cause
        self.carries(incidents)
        self.properties(
            invariants=" ".join(dict.fromkeys(v.invariant.id for item in incidents for v in item.violations)),
            relation=first.invariant.relation,
            kind=incidents[0].kind.value,
            sentence=first.title,
            step=first.step,
            stage=first.stage,
            rank=" ".join(map(str, first.ranks)),
            incident=incidents[0].number,
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


def pipeline_of(item: pytest.Item) -> PipelineSpec | None:
    """The pipeline that runs when an item does."""
    return item.spec if isinstance(item, PipelineItem) and not isinstance(item, MissingItem) else None


class RanItem(PipelineItem):
    """The pipeline ran and its trace can be relied upon. Also fails for incidents that no other item stands for."""

    def __init__(self, *, known: frozenset[str], **keywords: Any) -> None:
        super().__init__(**keywords)
        self.known = known

    def runtest(self) -> None:
        result = self.check()
        if result.errors:
            self.user_properties.append((REPORTED, reported_name(self.spec.name, ERROR)))
            self.properties(sentence=result.errors[0].message)
            raise TraincheckFailure(wording.errors_text(result), result.errors[0].message)
        homeless = [
            incident
            for incident in result.incidents
            if incident.cause.invariant.subject not in self.known and incident.kind.value not in self.known
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
        result = self.check()
        if result.outcome is Outcome.ERROR:
            pytest.skip(f"the pipeline did not run: {result.errors[0].message}")
        warnings = [item for item in result.warnings if item.kind == COVERAGE]
        found = result.coverage
        share = "" if found is None else f"{found.made} of {found.comparisons}"
        self.properties(coverage=share, sentence=warnings[0].title if warnings else "")
        if any(item.fails for item in warnings):
            self.user_properties.append((REPORTED, reported_name(self.spec.name, COVERAGE)))
            raise TraincheckFailure(wording.strict_text(warnings, result), one_line(warnings[0].title))
        if warnings:
            pytest.skip(f"warning: {warning(warnings[0])}")
        if reason := not_covered(result):
            pytest.skip(reason)


class AuditItem(PipelineItem):
    """The run breaks no law of a pack. Skipped where there are warnings only, so that they hide in no test that passed.

    What breaks a law and no rule of the golden was most likely learned with the mistake.
    """

    def runtest(self) -> None:
        result = self.check()
        if result.outcome is Outcome.ERROR:
            pytest.skip(f"the pipeline did not run: {result.errors[0].message}")
        audit = result.audit
        if audit is None:
            pytest.skip("the run was ended at its first incident and not audited")
        first = audit.findings[0] if audit.findings else None
        self.properties(
            rules=counts(audit),
            laws=" ".join(dict.fromkeys(name for finding in audit.findings for name in finding.names)),
            sentence=first.incident.cause.title if first is not None else "",
            source=first.incident.cause.source if first is not None else "",
        )
        if audit.outcome is not Outcome.PASS:
            self.user_properties.append((REPORTED, reported_name(self.spec.name, AUDIT)))
            sentence = f"{first.rule.id}: {first.incident.cause.title}" if first else audit.errors[0].message
            text = wording.audit_text(result)
            raise TraincheckFailure(f"{text}\n\n{THE_GOLDEN}" if not result.incidents else text, sentence)
        if first is not None:
            pytest.skip(one_line(f"warning: {first.rule.id}: {first.incident.cause.title}"))


THE_GOLDEN = (
    "No rule of the golden is broken, so most likely the golden run did the same; `traincheck refresh` says which laws "
    "the golden breaks."
)


class RulesItem(PipelineItem):
    """Base of the items that stand for some of the rules: one is green when at least one of these was evaluated, and
    all that were held.
    """

    def judge(self, is_own: Callable[[Invariant], bool], without_rules: str) -> None:
        """Fail, pass or skip by the rules that are the item's own; `without_rules` says why when there are none."""
        result = self.check()
        if result.outcome is Outcome.ERROR:
            pytest.skip(f"the pipeline did not run: {result.errors[0].message}")
        own = [item for item in result.incidents if is_own(item.cause.invariant)]
        if own:
            self.incident_properties(own)
            self.fail_with(own, result)
        followed = [item for item in result.incidents if any(is_own(one.invariant) for one in item.consequences)]
        if followed:
            self.carries(followed[:1])
            self._follow(followed[0], [one for one in followed[0].consequences if is_own(one.invariant)])
        rules = [item for item in result.verdicts if is_own(item.invariant)]
        if not rules:
            self.properties()
            pytest.skip(without_rules)
        self._pass(rules)

    def _pass(self, rules: Sequence[InvariantVerdict]) -> None:
        """Pass, and make visible how many of the rules that rests on; skip when it is none."""
        self.properties(invariants=" ".join(item.invariant.id for item in rules), rules=share(rules))
        if reason := unchecked(rules):
            pytest.skip(reason)
        if left_out := unevaluated(rules):
            lines = [f"{share(rules)}; not evaluated:", *(f"- {reason}" for reason in left_out)]
            self.add_report_section("call", "traincheck", "\n".join(lines))

    def _follow(self, incident: Incident, broken: Sequence[Violation]) -> None:
        first = broken[0]
        self.properties(
            invariants=" ".join(dict.fromkeys(item.invariant.id for item in broken)),
            relation=first.invariant.relation,
            kind=first.invariant.kind.value,
            sentence=first.title,
            step=first.step,
            rank=" ".join(map(str, first.ranks)),
            incident=incident.number,
        )
        text = wording.consequence(incident, broken)
        raise TraincheckFailure(text, text.splitlines()[0])


class KindItem(RulesItem):
    """With a golden that is learned in this session: the rules of a kind whose subject no item is known for."""

    def __init__(self, *, kind: Kind, subjects: frozenset[str], **keywords: Any) -> None:
        super().__init__(**keywords)
        self.kind = kind
        self.subjects = subjects

    def runtest(self) -> None:
        others = " without an item of its own" if self.subjects else ""
        self.judge(
            lambda rule: rule.kind is self.kind and rule.subject not in self.subjects,
            f"the golden has no {self.kind.value} rule{others}",
        )


class SubjectItem(RulesItem):
    """All rules about one API, parameter or module."""

    def __init__(self, *, subject: str, line: int, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.subject = subject
        self.line = line

    def runtest(self) -> None:
        self.judge(lambda rule: rule.subject == self.subject, "the golden has no rule about this any more")


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
