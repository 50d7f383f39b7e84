"""Beside other plugins of pytest, and as its users are used to: markers, one run, nothing said twice."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

pytest_plugins = ["pytester"]

NET = "golden_invariants/net.jsonl"
COUNT = ["-p", "no:cacheprovider", "--strict-markers", "-W", "error::pytest.PytestUnknownMarkWarning"]


@pytest.mark.parametrize(
    ("expression", "runs", "passed"),
    [
        ("traincheck", ["gan", "net"], 8),
        ("traincheck_net", ["net"], 4),
        ("not traincheck", [], 1),
        ("traincheck and not traincheck_net", ["gan"], 4),
    ],
)
def test_pipelines_are_selected_by_marker(project, expression, runs, passed):
    result = project.run("--traincheck", "-m", expression, *COUNT)
    result.assert_outcomes(passed=passed, deselected=9 - passed)
    assert sorted(project.runs) == runs


def test_a_pipeline_may_have_the_name_of_a_marker(project, results):
    """It would be skipped if the marker were called as the pipeline is."""
    configuration = project.root / "pyproject.toml"
    configuration.write_text(configuration.read_text().replace("pipelines.gan]", "pipelines.skip]"))
    project.set(results["passed"]("skip"))
    result = project.run("--traincheck", "-m", "traincheck_skip", *COUNT)
    assert result.parseoutcomes()["passed"] == 4


def test_tests_with_the_fixture_have_the_marker_and_all_are_registered(project):
    (project.root / "tests" / "test_other.py").write_text(
        "def test_it(traincheck):\n    pass\ndef test_audited(audit):\n    pass\ndef test_else():\n    pass\n"
    )
    result = project.run("-m", "traincheck", "--collect-only", "-q", "tests", *COUNT)
    assert [line for line in result.outlines if "::" in line] == [
        "tests/test_other.py::test_it",
        "tests/test_other.py::test_audited",
    ]
    project.run("--traincheck", "--markers").stdout.fnmatch_lines(
        ["@pytest.mark.traincheck(pipeline): *", "@pytest.mark.traincheck_net: *", "@pytest.mark.traincheck_gan: *"]
    )


def test_a_directory_of_tests_and_the_flag_are_all_tests_and_all_pipelines(project):
    result = project.run("tests/", "--traincheck")
    result.assert_outcomes(passed=9)
    assert sorted(project.runs) == ["gan", "net"]


def test_an_incident_is_printed_once(project, results):
    project.set(results["failed"]("net"))
    result = project.run("--traincheck", NET, "--junitxml=j.xml")
    section, _, failures = result.stdout.str().partition("= FAILURES =")
    assert section.count("1. zero_grad was never called") == 1
    assert section.count("reproduce: ") == 1
    for again in ("golden:", "candidate:", "where:", "reproduce:", "1. zero_grad"):
        assert again not in failures
    assert "incident 1, see above under traincheck" in failures
    assert "follows from incident 1, see above under traincheck\n" in failures
    assert section.count("SGD.step moved") == 1
    assert "  - step 2: SGD.step moved" not in failures
    # Whoever reads reports elsewhere has it all.
    assert "reproduce: traincheck check net" in (project.root / "j.xml").read_text()


def test_a_pipeline_that_did_not_run_is_explained_once(project, results):
    project.set(results["crashed"]("net"))
    said = project.run("--traincheck", NET).stdout.str()
    assert said.count("last line\n") == 1
    assert "see above under traincheck" in said


def test_an_incident_takes_one_screen_and_with_v_all_that_there_is(project, results):
    failed = results["failed"]("net")
    (incident,) = failed.incidents
    (follows,) = incident.consequences
    many = tuple(replace(follows, title=f"consequence {number} {'of words ' * 60}") for number in range(30))
    cause = replace(incident.cause, title="much " * 300, golden="was " * 300, candidate="is " * 300)
    long = replace(failed, incidents=(replace(incident, cause=cause, consequences=many),))
    project.set(long)
    said = {}
    for options in ((), ("-v",)):
        lines = project.run("--traincheck", NET, *options).outlines
        first = next(number for number, line in enumerate(lines) if line.startswith("1. much"))
        said[options] = lines[first : next(n for n, line in enumerate(lines) if n > first and not line)]
    assert len(said[()]) <= 40
    assert not any("consequence 29" in line for line in said[()])
    assert any("consequence 29" in line for line in said[("-v",)])
    assert len(said[("-v",)]) > 40


def test_brief(project, results):
    project.set(results["failed"]("net"))
    said = project.run("--traincheck", NET, "-qq").stdout.str()
    assert "net: FAILED" in said
    assert "1. zero_grad was never called" in said
    assert "candidate:" not in said
    assert "reproduce: traincheck check net" in said


def test_a_rerun_does_not_train_again(project, results):
    pytest.importorskip("pytest_rerunfailures")
    project.set(results["failed"]("net"))
    result = project.run_apart("--traincheck", NET, "--reruns=2", "--traincheck-json=out.json", "--junitxml=j.xml")
    outcomes = result.parseoutcomes()
    assert (outcomes["failed"], outcomes["rerun"]) == (2, 4)
    assert project.runs == ["net"]
    case = (project.root / "j.xml").read_text().partition('name="torch.optim.Optimizer.zero_grad"')[2]
    assert case.partition("</testcase>")[0].count('name="traincheck_step"') == 1
    assert len(json.loads((project.root / "out.json").read_text())["incidents"]) == 1


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["here", "xdist"])
def test_the_page_of_pytest_html_links_to_ours(project, results, workers):
    pytest.importorskip("pytest_html")
    project.set(results["failed"]("net"))
    result = project.run_apart(
        "--traincheck", NET, "--html=theirs/report.html", "--traincheck-html=ours/page.html", *workers
    )
    assert result.parseoutcomes()["failed"] == 2
    assert (project.root / "ours" / "page.html").exists()
    theirs = (project.root / "theirs" / "report.html").read_text()
    assert theirs.count("../ours/page.html") >= 3
    assert "zero_grad was never called" in theirs


def test_without_a_page_of_ours_there_is_no_link(project):
    pytest.importorskip("pytest_html")
    project.run_apart("--traincheck", NET, "--html=report.html", "--self-contained-html").assert_outcomes(passed=4)
    assert "traincheck&#34;, &#34;format_type" not in (project.root / "report.html").read_text()


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["here", "xdist"])
def test_json_report_has_our_properties_and_the_whole_text(project, results, workers):
    pytest.importorskip("pytest_jsonreport")
    project.set(results["failed"]("net"))
    project.run_apart("--traincheck", NET, "--json-report", "--json-report-file=r.json", *workers)
    tests = {item["nodeid"]: item for item in json.loads((project.root / "r.json").read_text())["tests"]}
    broken = tests[f"{NET}::torch.optim.Optimizer.zero_grad"]
    assert {"traincheck_sentence": "zero_grad was never called"} in broken["user_properties"]
    assert re.search(r"golden: +always\n", broken["call"]["longrepr"])


def test_a_consequence_that_the_incident_leaves_out_is_told_by_its_item(project, results):
    failed = results["failed"]("net")
    (incident,) = failed.incidents
    (follows,) = incident.consequences
    others = tuple(replace(follows, title=f"consequence {number}") for number in range(3))
    project.set(replace(failed, incidents=(replace(incident, consequences=(*others, follows)),)))
    section, _, failures = project.run("--traincheck", NET).stdout.str().partition("= FAILURES =")
    assert "consequence 2" in section
    assert "consequence 2" not in failures
    assert "SGD.step moved" not in section
    assert "  - step 2: SGD.step moved" in failures
