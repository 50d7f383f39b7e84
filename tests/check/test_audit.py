"""A run without a golden is held against packs: what is told, what was looked at, what was not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from training_story import Loop, Recorder

from pytest_traincheck.check.audit import audit_run
from pytest_traincheck.check.audited import Audit, LawVerdict
from pytest_traincheck.check.result import Outcome, Verdict
from pytest_traincheck.infer import Terms, learn_pack
from pytest_traincheck.packs.model import Level, Pack, PackRule
from pytest_traincheck.relations import laws
from pytest_traincheck.rules.claims import Foreign, to_json
from pytest_traincheck.rules.model import Invariant

LEFT_OVER = "gradients-left-over"
SCHEDULE = "scheduler-before-optimizer"
RIGHT = Loop(name="Unseen", seed=8)


@pytest.fixture
def pack(recorder: Recorder) -> Pack:
    """Laws, as they are in a file: with claims that nobody has read yet."""
    programs = {f"p{number}": [recorder.record(Loop(seed=number, lr=0.01 * (number + 1)))] for number in range(3)}
    found = learn_pack(programs, name="torch", terms=Terms(laws_only=True))
    return with_rules(found, (replace(rule, invariant=unread(rule.invariant)) for rule in found.rules))


def unread(rule: Invariant) -> Invariant:
    return replace(rule, claim=Foreign(to_json(rule.claim)))


def with_rules(pack: Pack, rules: Iterable[PackRule]) -> Pack:
    return replace(pack, rules=tuple(rules))


def of(audit: Audit, name: str) -> LawVerdict:
    return next(item for item in audit.verdicts if item.rule.id == name)


def test_right_code_breaks_nothing_and_it_is_said_what_was_looked_at(recorder: Recorder, pack: Pack) -> None:
    audit = audit_run(recorder.record(RIGHT), [pack], name="train.py")
    assert audit.outcome is Outcome.PASS
    assert not audit.findings
    counts = audit.laws()
    assert counts["held"] > 5
    assert counts["known"] == sum(counts[key] for key in ("held", "broken", "not_triggered", "not_observable"))
    assert all(item.reason for item in audit.verdicts if item.verdict is not Verdict.HELD)


def test_a_broken_law_is_an_error_at_its_line(recorder: Recorder, pack: Pack) -> None:
    audit = audit_run(recorder.record(RIGHT.but(zero_grad="never")), [pack], name="train.py")
    assert audit.outcome is Outcome.FAIL
    first = audit.findings[0]
    assert (first.rule.id, first.level, first.incident.number) == (LEFT_OVER, "error", 1)
    assert first.incident.cause.source == "train.py:15"
    assert first.incident.cause.step == 1
    assert "golden" not in first.incident.cause.title
    assert of(audit, LEFT_OVER).verdict is Verdict.VIOLATED


def test_each_mistake_is_one_finding_and_errors_come_first(recorder: Recorder, pack: Pack) -> None:
    weaker = with_rules(
        pack, (replace(rule, level=Level.HABIT) if rule.id == SCHEDULE else rule for rule in pack.rules)
    )
    run = recorder.record(RIGHT.but(zero_grad="never", schedule="before"))
    levels = [(finding.rule.id, finding.level) for finding in audit_run(run, [weaker], name="train.py").findings]
    assert levels[0] == (LEFT_OVER, "error")
    assert levels[-1] == (SCHEDULE, "warning")
    assert [level for _, level in levels] == sorted(level for _, level in levels)


def test_warnings_alone_fail_only_where_it_is_strict(recorder: Recorder, pack: Pack) -> None:
    habits = with_rules(pack, (replace(rule, level=Level.HABIT) for rule in pack.rules))
    audit = audit_run(recorder.record(RIGHT.but(zero_grad="never")), [habits], name="train.py")
    assert audit.outcome is Outcome.PASS
    assert replace(audit, strict=True).outcome is Outcome.FAIL


def test_what_cannot_be_evaluated_says_why(recorder: Recorder, pack: Pack) -> None:
    rule = pack.rules[0]
    strange = replace(rule, id="strange", invariant=replace(rule.invariant, relation="Unheard"))
    newer = replace(rule, id="newer", invariant=replace(rule.invariant, claim=Foreign({"law": "mostly"})))
    audit = audit_run(recorder.record(RIGHT), [with_rules(pack, (strange, newer))], name="train.py")
    assert of(audit, "strange").verdict is Verdict.NOT_OBSERVABLE
    assert "no relation named 'Unheard'" in of(audit, "strange").reason
    assert "its claim is none of" in of(audit, "newer").reason
    assert audit.laws()["not_observable"] == 2


def test_a_rule_holds_from_its_version_on_and_a_pack_for_its_library(recorder: Recorder, pack: Pack) -> None:
    run = recorder.record(RIGHT.but(zero_grad="never"))
    later = with_rules(pack, (replace(rule, since="99.1") for rule in pack.rules))
    audit = audit_run(run, [later], name="train.py")
    assert not audit.findings
    assert of(audit, LEFT_OVER).verdict is Verdict.NOT_TRIGGERED
    assert "it holds from torch 99.1 on" in of(audit, LEFT_OVER).reason
    other = audit_run(run, [replace(pack, library="deepspeed")], name="train.py")
    assert not other.findings
    assert other.packs[0].reason == "the run does not use deepspeed"


def test_a_rule_in_two_packs_is_told_once(recorder: Recorder, pack: Pack) -> None:
    run = recorder.record(RIGHT.but(zero_grad="never"))
    once = audit_run(run, [pack], name="train.py")
    twice = audit_run(run, [pack, replace(pack, name="own")], name="train.py")
    assert twice.verdicts == once.verdicts


def test_a_rule_without_a_reason_speaks_of_programs_and_not_of_a_golden_run(recorder: Recorder) -> None:
    programs = {f"p{number}": [recorder.record(Loop(seed=number, lr=0.01 * (number + 1)))] for number in range(3)}
    found = learn_pack(programs, name="own", terms=Terms(unreasoned=3))
    habits = with_rules(found, (rule for rule in found.rules if rule.invariant.relation not in laws()))
    audit = audit_run(recorder.record(RIGHT.but(clip=None)), [habits], name="train.py")
    assert audit.findings
    for finding in audit.findings:
        assert "golden" not in finding.incident.cause.title
        assert "3 of the 3 programs of the pack `own`" in finding.incident.cause.title
