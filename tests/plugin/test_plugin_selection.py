"""What is left out by `-k`, `--lf`, `--deselect`, node ids or a mark does not turn a failed pipeline green."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from pytest_traincheck.check.result import CheckResult, Incident, InvariantVerdict, Verdict
from pytest_traincheck.relations.called import Called
from pytest_traincheck.relations.count import PerRun

pytest_plugins = ["pytester"]

NET = "golden_invariants/net.jsonl"
LINEAR, ZERO, STEP = (
    f"{NET}::torch.nn.Linear",
    f"{NET}::torch.optim.Optimizer.zero_grad",
    f"{NET}::torch.optim.SGD.step",
)
NOT_SELECTED = f"FAILED {NET} - 1 incident not selected: torch.optim.Optimizer.zero_grad"


def summary_lines(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if line.startswith(("FAILED", "ERROR"))]


@pytest.mark.parametrize(
    "arguments",
    [
        ("-k", "Linear"),
        (LINEAR,),
        ("--deselect", ZERO, "--deselect", STEP, NET),
        ("-k", "Linear or ran", "-x"),
        ("-k", "Linear", "--maxfail=5"),
        ("-k", "Linear", "-n2", "--dist=loadfile"),
        pytest.param(("-k", "Linear or ran", "-n2", "--dist=load"), marks=[pytest.mark.slow, pytest.mark.sweep]),
    ],
    ids=" ".join,
)
def test_an_incident_in_an_item_that_was_not_selected_fails_the_session(project, results, arguments):
    if "-n2" in arguments:
        pytest.importorskip("xdist")
    project.set(results["failed"]("net"))
    result = project.run_apart("--traincheck", *arguments, "--traincheck-pipeline=net")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.parseoutcomes()["failed"] == 1
    assert summary_lines(result) == [NOT_SELECTED]
    result.stdout.fnmatch_lines(["net: FAILED - 1 incident*", "*= FAILURES =*", "1 incident in an item*"])
    result.stdout.fnmatch_lines(["reproduce: traincheck check net", "*= FAILURES =*"])


@pytest.mark.parametrize("keyword", ["zero_grad", "SGD.step"])
def test_an_item_that_tells_of_the_incident_is_enough(project, results, keyword):
    """The consequence names its cause, so nothing is said twice."""
    project.set(results["failed"]("net"))
    result = project.run("--traincheck", "-k", f"{keyword} and net")
    assert result.parseoutcomes() == {"failed": 1, "deselected": 8}
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_of_two_incidents_the_other_is_told_as_well(project, results):
    result = results["failed"]("net")
    (incident,) = result.incidents
    (consequence,) = incident.consequences
    project.set(
        replace(
            result,
            incidents=(
                replace(incident, consequences=()),
                Incident("def", 2, consequence),
            ),
        )
    )
    session = project.run("--traincheck", "-k", "SGD.step and net")
    assert summary_lines(session) == [
        f"FAILED {STEP} - step 2: SGD.step moved by another amount",
        NOT_SELECTED,
    ]


def test_a_pipeline_that_did_not_run_is_no_pass_when_its_first_item_is_not_selected(project, results):
    project.set(results["crashed"]("net"))
    result = project.run("--traincheck", "-k", "Linear and net")
    result.assert_outcomes(failed=1, skipped=1, deselected=8)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "error:*candidate: the candidate run of `python train.py` exited with 1",
            "*= FAILURES =*",
            "The pipeline did not run, and the item that says so was not selected: ran.",
        ]
    )


def test_last_failed_after_a_selection_runs_all_items_of_the_pipeline(project, results):
    project.set(results["failed"]("net"))
    project.run("--traincheck", "-k", "Linear and net").assert_outcomes(failed=1, skipped=1, deselected=8)
    again = project.run("--traincheck", "--lf")
    assert (again.parseoutcomes()["failed"], again.parseoutcomes()["skipped"]) == (2, 1)
    assert NOT_SELECTED not in again.outlines
    again = project.run("--traincheck", "--lf")
    assert again.parseoutcomes() == {"failed": 2, "deselected": again.parseoutcomes()["deselected"]}


def test_last_failed_does_not_hide_what_broke_since(project, results):
    """The former cause is mended, and another rule broke instead."""
    project.set(results["failed"]("net"))
    project.run("--traincheck").assert_outcomes(passed=6, failed=2, skipped=1)
    result = results["failed"]("net")
    linear, zero, step = (item.invariant for item in result.verdicts)
    (incident,) = result.incidents
    other = replace(incident, id="new", cause=replace(incident.cause, invariant=linear), consequences=())
    verdicts = (
        InvariantVerdict(linear, Verdict.VIOLATED),
        InvariantVerdict(zero, Verdict.HELD),
        InvariantVerdict(step, Verdict.HELD),
    )
    project.set(replace(result, incidents=(other,), verdicts=verdicts))
    session = project.run("--traincheck", "--lf")
    assert (session.parseoutcomes()["passed"], session.parseoutcomes()["failed"]) == (2, 1)
    assert summary_lines(session) == [f"FAILED {NET} - 1 incident not selected: torch.nn.Linear"]


def test_a_clean_selection_is_green(project):
    result = project.run("--traincheck", "-k", "zero_grad and net")
    assert result.parseoutcomes() == {"passed": 1, "deselected": 8}
    assert result.ret == 0


def test_a_skip_mark_is_no_pass(project, results):
    project.set(results["failed"]("net"))
    with (project.root / "conftest.py").open("a") as conftest:
        conftest.write(
            "\nimport pytest\n"
            "def pytest_collection_modifyitems(items):\n"
            "    for item in items:\n"
            "        if 'zero_grad' in item.nodeid or 'SGD' in item.nodeid:\n"
            "            item.add_marker(pytest.mark.skip(reason='not now'))\n"
        )
    result = project.run("--traincheck", NET)
    result.assert_outcomes(passed=1, failed=1, skipped=3)
    assert summary_lines(result) == [NOT_SELECTED]


def test_junit_has_a_case_for_what_was_not_selected(project, results):
    project.set(results["failed"]("net"))
    project.run("--traincheck", "-k", "Linear and net", "--junitxml=junit.xml", "-o", "junit_family=xunit2")
    root = ElementTree.parse(project.root / "junit.xml").getroot()
    (suite,) = root.iter("testsuite")
    assert (suite.get("failures"), suite.get("tests")) == ("1", "2")
    (case,) = (case for case in root.iter("testcase") if case.find("failure") is not None)
    assert case.get("name") == "golden_invariants.net.jsonl"
    assert case.find("failure").get("message") == "1 incident not selected: torch.optim.Optimizer.zero_grad"
    assert "1 incident in an item that was not selected" in case.find("failure").text
    properties = {item.get("name"): item.get("value") for item in case.iter("property")}
    assert properties["traincheck_pipeline"] == "net"


def test_failures_that_are_expected_are_not_called_failed(project, results):
    project.set(results["failed"]("net"))
    with (project.root / "conftest.py").open("a") as conftest:
        conftest.write(
            "\nimport pytest\n"
            "def pytest_collection_modifyitems(items):\n"
            "    for item in items:\n"
            "        if 'zero_grad' in item.nodeid or 'SGD' in item.nodeid:\n"
            "            item.add_marker(pytest.mark.xfail(reason='known', strict=False))\n"
        )
    result = project.run("--traincheck", NET)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["net: fails as expected (xfail) - 1 incident*"])
    assert "FAILED" not in result.stdout.str()


def partly(name: str, results: dict[str, Callable[[str], CheckResult]]) -> CheckResult:
    """Both rules of one subject, of which one did not come up; the others held."""
    result = results["passed"](name)
    extra = replace(result.verdicts[0].invariant, claim=PerRun(Called("more")), sentence="Linear is called with care")
    left_out = InvariantVerdict(extra, Verdict.NOT_OBSERVABLE, "no numbers for `linux-x86_64-cpu`")
    return replace(result, verdicts=(*result.verdicts, left_out))


def test_an_item_says_how_many_of_its_rules_were_evaluated(project, results):
    project.set(partly("net", results))
    result = project.run("--traincheck", NET, "-v", "-rP", "--junitxml=junit.xml", "-o", "junit_logging=all")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines([f"{LINEAR} PASSED (1 of 2 rules evaluated)*", f"{ZERO} PASSED *"])
    result.stdout.fnmatch_lines(
        [
            "*= PASSES =*",
            "1 of 2 rules evaluated; not evaluated:",
            "- 1 not observable: no numbers for `linux-x86_64-cpu`",
        ]
    )
    cases = {case.get("name"): case for case in ElementTree.parse(project.root / "junit.xml").iter("testcase")}
    shares = {
        name: item.get("value")
        for name, case in cases.items()
        for item in case.iter("property")
        if item.get("name") == "traincheck_rules"
    }
    assert shares == {
        "torch.nn.Linear": "1 of 2 rules evaluated",
        "torch.optim.Optimizer.zero_grad": "1 rule evaluated",
        "torch.optim.SGD.step": "1 rule evaluated",
    }


def test_an_item_without_any_evaluated_rule_is_skipped_with_all_reasons(project, results):
    result = partly("net", results)
    never = replace(result.verdicts[0], verdict=Verdict.NOT_TRIGGERED, reason="its context never came up in this run")
    project.set(replace(result, verdicts=(never, *result.verdicts[1:])))
    session = project.run("--traincheck", NET, "-rs")
    session.assert_outcomes(passed=3, skipped=1)
    session.stdout.fnmatch_lines(["*SKIPPED*never came up in this run; no numbers for `linux-x86_64-cpu`"])


def test_with_a_live_golden_a_kind_without_evaluated_rules_is_skipped(project, results):
    result = results["passed"]("net")
    idle = tuple(replace(item, verdict=Verdict.NOT_TRIGGERED, reason="its context") for item in result.verdicts)
    project.set(replace(result, verdicts=idle))
    (project.root / NET).unlink()
    session = project.run("--traincheck", "--traincheck-golden=main", "--traincheck-pipeline=net", "-v", "tests")
    session.stdout.fnmatch_lines([f"{NET}::ran PASSED*", f"{NET}::behaviour SKIPPED*not triggered: its context*"])


def test_with_a_live_golden_a_broken_rule_of_another_kind_fails_the_item_of_its_own(project, results):
    """A change of configuration is the cause; the behaviour that follows from it is not green."""
    from pytest_traincheck.rules.model import Kind

    result = results["failed"]("net")
    (incident,) = result.incidents
    root = replace(incident.cause, invariant=replace(incident.cause.invariant, kind=Kind.CONFIG))
    project.set(replace(result, incidents=(replace(incident, cause=root),)))
    (project.root / NET).unlink()
    session = project.run("--traincheck", "--traincheck-golden=main", "--traincheck-pipeline=net", "-v", "tests")
    session.stdout.fnmatch_lines([f"{NET}::behaviour FAILED*", f"{NET}::config FAILED*"])
    session.stdout.fnmatch_lines([f"FAILED {NET}::behaviour - follows from incident 1: zero_grad was never called"])
