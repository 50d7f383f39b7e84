"""Findings that somebody allowed are silent, and entries that are of no use any more are told."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from pytest_traincheck.audit_config import Allow
from pytest_traincheck.check.audited import Audit, AuditFinding, LawVerdict
from pytest_traincheck.check.result import Incident, Outcome, Verdict, Violation
from pytest_traincheck.config import ConfigError, load_text
from pytest_traincheck.packs.model import Level, PackRule
from pytest_traincheck.rules.claims import Foreign
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.workflow.silence import silenced

TODAY = datetime.date(2026, 6, 1)


def rule(name: str) -> PackRule:
    claim = Foreign({"law": name})
    return PackRule(
        name,
        Level.LAW,
        Invariant("Law", "torch.optim.Optimizer", claim, (), Scope.TRANSFERABLE, Kind.BEHAVIOUR, f"{name}."),
    )


def finding(name: str, source: str = "train.py:41", *others: str) -> AuditFinding:
    def broken(law: PackRule) -> Violation:
        return Violation(law.invariant, f"{law.id} is broken.", "", "", 1, "train", (0,), 3, source=source)

    rest = tuple(map(rule, others))
    return AuditFinding(Incident(name, 1, broken(rule(name)), tuple(map(broken, rest))), rule(name), rest)


def audit(*findings: AuditFinding) -> Audit:
    verdicts = [LawVerdict(rule(name), "torch", Verdict.VIOLATED) for item in findings for name in item.names]
    held = LawVerdict(rule("held"), "torch", Verdict.HELD)
    quiet = LawVerdict(rule("quiet"), "torch", Verdict.NOT_TRIGGERED, "nothing came up")
    return Audit("train.py", verdicts=(*verdicts, held, quiet), findings=findings)


def quieted(found: Audit, *allowed: Allow, cwd: str = "/project") -> Audit:
    return silenced(found, allowed, root=Path("/project"), cwd=Path(cwd), today=TODAY)


def test_what_is_allowed_is_silent_and_still_reported() -> None:
    found = quieted(audit(finding("one"), finding("two")), Allow("one", "on purpose", "team-nlp"))
    assert [item.rule.id for item in found.findings] == ["two"]
    assert found.findings[0].incident.number == 1
    assert [(item.finding.rule.id, item.reason, item.owner) for item in found.silenced] == [
        ("one", "on purpose", "team-nlp")
    ]
    assert not found.warnings
    assert quieted(audit(finding("one")), Allow("one", "on purpose")).outcome is Outcome.PASS


def test_paths_are_those_from_the_configuration() -> None:
    narrow = Allow("one", "on purpose", paths=("scripts/*.py",))
    assert not quieted(audit(finding("one")), narrow, cwd="/project/scripts").findings
    elsewhere = quieted(audit(finding("one")), narrow)
    assert elsewhere.findings
    assert "matches nothing" in elsewhere.warnings[0].title


def test_a_finding_is_silent_when_all_that_is_broken_in_it_is_allowed() -> None:
    found = audit(finding("one", "train.py:41", "two"))
    assert quieted(found, Allow("one", "on purpose")).findings
    assert not quieted(found, Allow("one", "on purpose"), Allow("two", "that follows")).findings


def test_an_entry_that_has_expired_silences_nothing() -> None:
    late = quieted(audit(finding("one")), Allow("one", "for now", expires=datetime.date(2026, 5, 31)))
    assert late.findings
    assert "has expired on 2026-05-31" in late.warnings[0].title
    assert not quieted(audit(finding("one")), Allow("one", "for now", expires=TODAY)).findings


def test_an_entry_of_no_use_is_told_where_that_is_known() -> None:
    found = quieted(audit(), Allow("held", "once"), Allow("quiet", "elsewhere"), Allow("hel", "misspelt"))
    assert [item.kind for item in found.warnings] == ["allow", "allow"]
    assert "`held` matches nothing" in found.warnings[0].title
    assert "names no rule of these packs (did you mean `held`?)" in found.warnings[1].title


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("steps = 0", "`audit.steps` is 0. Write a whole number above 0"),
        ("stepz = 3", "`audit.stepz` is not a known key (did you mean `steps`?)"),
        ("allow = 3", "`audit.allow` must be an array of tables"),
        ("[[audit.allow]]\nlaw = 'x'", "`audit.allow[1].reason` is missing"),
        ("[[audit.allow]]\nlaw = 'x'\nreason = 'y'\nexpires = 'soon'", "`audit.allow[1].expires` is 'soon'"),
        ("[[audit.allow]]\nlaw = 'x'\nreason = 'y'\nexpire = 2027-01-01", "(did you mean `expires`?)"),
    ],
)
def test_a_configuration_that_cannot_be_used(text: str, what: str) -> None:
    body = text if text.startswith("[[") else f"[audit]\n{text}"
    with pytest.raises(ConfigError) as caught:
        load_text(Path("/project/traincheck.toml"), body)
    assert what in str(caught.value)


def test_a_configuration_of_audits() -> None:
    text = (
        "[audit]\nsteps = 4\npacks = ['ours.jsonl']\n[[audit.allow]]\nlaw = 'x'\nreason = 'y'\nowner = 'me'\n"
        "expires = 2027-01-31\npaths = ['a/*.py']"
    )
    found = load_text(Path("/project/traincheck.toml"), text).audit
    assert (found.steps, found.packs) == (4, ("ours.jsonl",))
    assert found.allow == (Allow("x", "y", "me", datetime.date(2027, 1, 31), ("a/*.py",)),)
