"""An audit in every format, with hostile names in it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from junit_schema import assert_valid
from result_schema import assert_result
from rich.cells import cell_len

from pytest_traincheck.check.audited import FINDINGS_SHOWN, Audit, AuditFinding, LawVerdict, PackUse, Silenced
from pytest_traincheck.check.result import CheckResult, Incident, Outcome, RunError, Verdict, Violation, Warned
from pytest_traincheck.check.serialise import from_plain, to_plain
from pytest_traincheck.packs.model import Evidence, Level, PackRule
from pytest_traincheck.report import github, html, json_report, junit
from pytest_traincheck.report.audit import github as audit_github
from pytest_traincheck.report.audit import html as audit_html
from pytest_traincheck.report.audit import junit as audit_junit
from pytest_traincheck.report.audit.json_report import document
from pytest_traincheck.report.audit.terminal import render_audit
from pytest_traincheck.rules.claims import Foreign
from pytest_traincheck.rules.model import Invariant, Kind, Scope

HOSTILE = '<script>alert(1)</script> [bold red]x[/] \x1b[31m & "quoted" {{ 7*7 }}'
LINK = "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html"


def rule(name: str, level: Level = Level.LAW) -> PackRule:
    invariant = Invariant(
        "Unheard", "torch.optim.Optimizer", Foreign({"law": name}), (), Scope.TRANSFERABLE, Kind.BEHAVIOUR, f"{name}."
    )
    evidence = Evidence(("a", "b"), (), 10, 2, 0, 0.7764)
    return PackRule(name, level, invariant, "`backward` adds.", LINK, "Call it.", "A sum.", evidence=evidence)


def finding(number: int, name: str, level: Level = Level.LAW, *others: str) -> AuditFinding:
    def broken(law: PackRule) -> Violation:
        title = f"`{HOSTILE}` breaks {law.id}."
        return Violation(
            law.invariant, title, "", HOSTILE, 1, "train", (0,), 7, variables=(HOSTILE,), source="train.py:41", count=3
        )

    rest = tuple(map(rule, others))
    return AuditFinding(
        Incident(name, number, broken(rule(name, level)), tuple(map(broken, rest))), rule(name, level), rest
    )


@pytest.fixture
def audit() -> Audit:
    found = (finding(1, "left-over", Level.LAW, "follows"), finding(2, "dropout", Level.HABIT))
    verdicts = [LawVerdict(item, "torch", Verdict.VIOLATED) for each in found for item in (each.rule, *each.others)]
    verdicts.append(LawVerdict(rule("held"), "torch", Verdict.HELD))
    verdicts.append(LawVerdict(rule("quiet"), "torch", Verdict.NOT_TRIGGERED, "nothing came up"))
    return Audit(
        f"python {HOSTILE}.py",
        (PackUse("torch", "torch", 4),),
        tuple(verdicts),
        found,
        (Silenced(finding(1, "allowed"), HOSTILE, "team"),),
        {"torch": "2.13.0"},
        8,
        warnings=(Warned("allow", HOSTILE),),
        notes=(HOSTILE,),
    )


@pytest.mark.parametrize("width", [40, 80, 120])
def test_terminal(audit: Audit, width: int) -> None:
    text = render_audit(audit, width=width).plain
    # A link that is broken into lines cannot be followed.
    lines = [line for line in text.splitlines() if "https://" not in line]
    assert all(cell_len(line) <= width for line in lines)
    assert "\x1b" not in text
    flat = " ".join(text.split())
    assert "FAILED - 1 error, 1 warning, 4 of 5 rules came up, 1 held" in flat
    assert "1. error left-over:" in flat
    assert "- follows:" in flat
    assert "unless: A sum." in flat
    assert "5 known: 1 held, 3 broken, 1 not triggered" in flat
    assert "8 training steps, torch 2.13.0" in flat
    if width >= 120:
        assert f"   {LINK}\n" in text


def test_ten_findings_are_told_and_the_rest_is_counted(audit: Audit) -> None:
    many = replace(audit, findings=tuple(finding(number, f"law-{number}") for number in range(1, 14)))
    text = render_audit(many).plain
    assert f"{FINDINGS_SHOWN}. error law-10" in text
    assert "11. error" not in text
    assert "3 more, which come later" in " ".join(text.split())
    assert len(document(many)["incidents"]) == 13


def test_json(audit: Audit) -> None:
    found = json.loads(json.dumps(document(audit)))
    assert_result(found, "audit")
    assert found["verdict"] == "fail"
    first, second = found["incidents"]
    assert (first["level"], first["law"], first["laws"]) == ("error", "left-over", ["left-over", "follows"])
    assert (second["level"], second["law"]) == ("warning", "dropout")
    assert first["evidence"]["at_most"] == 0.7764
    assert found["laws"] == {"known": 5, "held": 1, "broken": 3, "not_triggered": 1, "not_observable": 0}
    assert found["silenced"][0]["reason"] == HOSTILE
    assert {"format", "golden", "candidate", "invariants", "timing", "errors", "coverage", "warnings"} <= set(found)


def test_junit(audit: Audit) -> None:
    assert_valid(audit_junit.to_text([audit]))
    root = ElementTree.fromstring(audit_junit.to_text([audit]).partition("\n")[2])
    cases = {case.get("name"): case for case in root.iter("testcase")}
    failed = {name for name, case in cases.items() if case.find("failure") is not None}
    assert failed == {"left-over", "follows"}
    assert {name for name, case in cases.items() if case.find("skipped") is not None} == {"dropout", "quiet"}
    strict = ElementTree.fromstring(audit_junit.to_text([replace(audit, strict=True)]).partition("\n")[2])
    assert strict.get("failures") == "3"


def test_html_escapes(audit: Audit) -> None:
    for page in (audit_html.to_text([audit]), html.to_text([CheckResult("net", audit=audit)])):
        assert "<script>alert" not in page
        assert "left-over" in page
        assert "49" not in page.partition("{{")[0][-4:]


def test_github(audit: Audit) -> None:
    lines = audit_github.annotation_lines(audit, None)
    assert [line.partition(" ")[0] for line in lines] == ["::error", "::warning"]
    assert all("\n" not in line for line in lines)
    assert github.annotation_lines([CheckResult("net", audit=audit)], {}) == lines
    summary = audit_github.summary(audit, 10_000)
    assert f"[left-over]({LINK})" in summary
    assert "`<script>alert(1)</script>" in summary
    assert len(audit_github.summary(audit, 200).encode()) <= 201


def test_a_run_that_failed() -> None:
    error = RunError("", "no optimizer stepped", "Let it train.", "Traceback")
    failed = Audit("train.py", errors=(error,))
    assert failed.outcome is Outcome.ERROR
    assert "no optimizer stepped" in render_audit(failed).plain
    assert "<error" in audit_junit.to_text([failed])
    assert_valid(audit_junit.to_text([failed]))
    assert audit_github.annotation_lines(failed, None)[0].startswith("::error ")
    assert document(failed)["verdict"] == "error"
    assert "no optimizer stepped" in audit_html.to_text([failed])


def test_beside_a_check(audit: Audit) -> None:
    result = CheckResult("net", audit=audit)
    assert result.outcome is Outcome.FAIL
    assert json_report.document([result])["audit"]["incidents"][0]["law"] == "left-over"
    assert "audit" not in json_report.document([CheckResult("net")])
    assert 'name="left-over"' in junit.to_text([result])
    assert from_plain(json.loads(json.dumps(to_plain(result)))).audit == audit
