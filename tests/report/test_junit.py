"""JUnit XML as a CI server reads it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

from junit_schema import assert_valid

from pytest_traincheck.check.result import CheckResult, InvariantVerdict, Verdict
from pytest_traincheck.report.junit import to_text, write_junit
from pytest_traincheck.rules.claims import Foreign

CASE_ATTRIBUTES = {"name", "classname", "time"}
CASE_CHILDREN = ["properties", "skipped", "error", "failure", "system-out", "system-err"]


def cases(suite: ElementTree.Element) -> dict[str, ElementTree.Element]:
    return {case.get("name", ""): case for case in suite.findall("testcase")}


def the_suite(result: CheckResult) -> ElementTree.Element:
    (suite,) = ElementTree.fromstring(to_text([result]).encode())
    return suite


def message(case: ElementTree.Element, tag: str) -> str:
    found = case.find(tag)
    assert found is not None
    return found.get("message", "")


def test_one_case_per_subject_after_the_run(failed: CheckResult) -> None:
    suite = the_suite(failed)
    names = [case.get("name") for case in suite.findall("testcase")]
    assert names[0] == "ran"
    assert names[1:] == sorted({item.invariant.subject for item in failed.verdicts})
    assert {case.get("classname") for case in suite.findall("testcase")} == {"tiny_gpt"}
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (
        "8",
        "4",
        "0",
        "2",
    )


def test_the_cause_carries_the_incident(failed: CheckResult) -> None:
    case = cases(the_suite(failed))["torch.nn.utils.clip_grad_norm_"]
    failure = case.find("failure")
    assert failure is not None
    assert failure.get("message") == failed.incidents[0].cause.title
    assert "candidate: never in 8 steps" in (failure.text or "")
    properties = {item.get("name"): item.get("value") for item in case.iter("property")}
    assert properties["traincheck_invariant"] == failed.incidents[0].cause.invariant.id
    assert properties["traincheck_step"] == "1"
    assert properties["traincheck_diff"] == "train/loop.py, @@ -38,16 +38,14 @@ (same function)"
    assert "-        torch.nn.utils.clip_grad_norm_(" in (failure.text or "")
    assert properties["traincheck_ranks"] == "0-3"


def test_a_case_says_how_many_of_its_rules_were_evaluated(failed: CheckResult) -> None:
    (first, *others) = failed.verdicts
    idle = replace(
        first,
        invariant=replace(first.invariant, claim=Foreign({"what": "more"})),
        verdict=Verdict.NOT_TRIGGERED,
        reason="its context never came up in this run",
    )
    suite = the_suite(replace(failed, verdicts=(first, idle, *others)))
    properties = {
        item.get("name"): item.get("value") for item in cases(suite)[first.invariant.subject].iter("property")
    }
    total = sum(item.invariant.subject == first.invariant.subject for item in failed.verdicts)
    assert properties["traincheck_rules"] == f"{total} of {total + 1} rules evaluated"


def test_consequences_point_to_the_cause(failed: CheckResult) -> None:
    case = cases(the_suite(failed))["torch.Tensor.backward"]
    assert message(case, "failure").startswith("follows from 1. `torch.nn.utils.clip_grad_norm_` is no longer called")


def test_not_triggered_is_skipped_with_its_reason(failed: CheckResult) -> None:
    suite = cases(the_suite(failed))
    assert message(suite["torch.nn.Dropout"], "skipped") == "not triggered: the candidate never was in eval"
    assert "no GPU" in message(suite["torch.cuda.amp.GradScaler.step"], "skipped")
    assert suite["torch.nn.Linear"].find("skipped") is None


def test_a_broken_rule_without_an_incident_still_fails(passed: CheckResult) -> None:
    broken = tuple(replace(item, verdict=Verdict.VIOLATED, reason="") for item in passed.verdicts)
    assert the_suite(replace(passed, verdicts=broken)).get("failures") == "2"


def test_a_rule_that_was_told_before_is_skipped_with_the_reason(passed: CheckResult) -> None:
    held, other = passed.verdicts
    suite = the_suite(replace(passed, verdicts=(held, replace(other, verdict=Verdict.VIOLATED, reason="told before"))))
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")


def test_one_held_rule_is_enough_to_pass(passed: CheckResult) -> None:
    held = passed.verdicts[0]
    idle = InvariantVerdict(replace(held.invariant, claim=Foreign({"other": 1})), Verdict.NOT_TRIGGERED)
    suite = the_suite(replace(passed, verdicts=(held, idle)))
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "0")


def test_an_error_is_the_runs(errored: CheckResult) -> None:
    suite = the_suite(errored)
    assert suite.get("errors") == "1"
    error = cases(suite)["ran"].find("error")
    assert error is not None
    assert "exit status 1" in error.get("message", "")
    assert "ModuleNotFoundError" in (error.text or "")


def test_the_shape_that_ci_servers_validate(
    failed: CheckResult, passed: CheckResult, errored: CheckResult, hostile: CheckResult, tmp_path: Path
) -> None:
    path = tmp_path / "junit.xml"
    write_junit(path, [failed, passed, errored, hostile])
    assert_valid(path.read_text())
    root = ElementTree.parse(path).getroot()
    assert root.tag == "testsuites"
    assert len(root) == 4
    assert int(root.get("tests", "")) == len(list(root.iter("testcase")))
    for suite in root:
        assert {"name", "tests", "failures", "errors", "skipped", "time"} == set(suite.attrib)
        for case in suite.findall("testcase"):
            assert set(case.attrib) == CASE_ATTRIBUTES
            positions = [CASE_CHILDREN.index(child.tag) for child in case]
            assert positions == sorted(positions)
            assert len(case.findall("failure")) + len(case.findall("error")) + len(case.findall("skipped")) <= 1


def test_illegal_characters_are_removed(hostile: CheckResult) -> None:
    text = to_text([hostile])
    assert not {"\x00", "\x1b", "\ufffe", "\u202e"} & set(text)
    assert "<script>" not in text
    suite = the_suite(hostile)
    assert suite.get("name", "").startswith("<script>alert(1)</script> [bold red]x[/]")
