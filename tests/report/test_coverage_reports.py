"""What was not compared is seen in every report, and in none of them inside something that passed."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

from pytest_traincheck.check.result import CheckResult, Coverage, Outcome
from pytest_traincheck.report import github, html, json_report, junit
from pytest_traincheck.report.files import json_text
from pytest_traincheck.report.github_command import Place
from pytest_traincheck.report.terminal import render_result

TITLE = "only 3 of 214 comparisons with the golden run took place; the runs differ."


def strict(result: CheckResult) -> CheckResult:
    first, *others = result.warnings
    return replace(result, warnings=(replace(first, fails=True), *others))


def test_the_terminal_says_it_above_the_counts(uncovered: CheckResult) -> None:
    lines = render_result(uncovered, width=200).plain.splitlines()
    assert lines[0] == "mnist: passed - 1 of 2 rules held, 2 warnings"
    assert f"warning:   {TITLE} At train/data.py:31." in lines
    assert "warning:   The golden was learned from one seed." in lines
    counted = (
        "coverage:  3 of 214 comparisons with the golden run took place (1.4 %); 4 of 18 later steps began as in the"
    )
    assert any(line.startswith(counted) for line in lines)


def test_beside_an_incident_the_place_stands_in_the_coverage(failed: CheckResult, uncovered: CheckResult) -> None:
    text = " ".join(render_result(replace(failed, coverage=uncovered.coverage), width=200).plain.split())
    assert text.index("1. ") < text.index("coverage: 3 of 214 comparisons")
    place = "first batch: `batch[1]` differs, `batch[0]` is as in the golden run"
    assert f"the runs first differ in step 1, at train/data.py:31: {place}" in text
    assert "warning:" not in text


def test_golden_that_does_not_repeat_is_said_beside_the_share(passed: CheckResult) -> None:
    found = Coverage(200, 10, 0.02, repeats=False)
    text = " ".join(render_result(replace(passed, coverage=found)).plain.split())
    assert (
        "10 of 200 comparisons with the golden run took place (5.0 %); two golden runs with the same seed differ"
        in text
    )
    assert "so 2.0 % are expected" in text


def test_strict_fails(uncovered: CheckResult) -> None:
    assert uncovered.outcome is Outcome.PASS
    assert strict(uncovered).outcome is Outcome.FAIL


def test_the_json_keeps_to_the_contract(uncovered: CheckResult) -> None:
    content = json.loads(json_text(json_report.document([uncovered])))
    assert content["coverage"] == {
        "comparisons": 214,
        "made": 3,
        "share": 0.014,
        "floor": 1.0,
        "parted": {
            "what": "first batch: `batch[1]` differs, `batch[0]` is as in the golden run",
            "step": 1,
            "source": "train/data.py:31",
        },
        "reasons": {"drew other random numbers": 211},
        "later": {"steps": 18, "compared": 4, "lost": "drew other random numbers"},
    }
    assert content["warnings"][0] == {
        "kind": "coverage",
        "title": TITLE,
        "source": "train/data.py:31",
        "fails": False,
    }
    assert content["warnings"][1]["kind"] == "golden"


def test_several_pipelines_are_counted_together(uncovered: CheckResult, passed: CheckResult) -> None:
    other = replace(passed, pipeline="gan", coverage=Coverage(86, 86, 1.0, repeats=True))
    content = json_report.document([other, uncovered])
    assert (content["coverage"]["comparisons"], content["coverage"]["made"]) == (300, 89)
    assert content["coverage"]["share"] == round(89 / 300, 4)
    assert content["coverage"]["reasons"] == {"drew other random numbers": 211}
    assert content["coverage"]["later"] == {"steps": 18, "compared": 4, "lost": "drew other random numbers"}
    assert content["coverage"]["parted"]["step"] == 1
    assert [item["pipeline"] for item in content["warnings"]] == ["mnist", "mnist"]


def test_nothing_compared_is_no_whole_share(errored: CheckResult) -> None:
    content = json_report.document([errored])
    assert content["coverage"] == {
        "comparisons": 0,
        "made": 0,
        "share": 0.0,
        "floor": 0.0,
        "parted": None,
        "reasons": {},
        "later": {"steps": 0, "compared": 0, "lost": ""},
    }
    assert content["warnings"] == []


def cases(result: CheckResult) -> dict[str | None, ElementTree.Element]:
    (suite,) = ElementTree.fromstring(junit.to_text([result]).encode())
    return {case.get("name"): case for case in suite.findall("testcase")}


def test_junit_has_a_case_of_its_own(uncovered: CheckResult) -> None:
    skipped = cases(uncovered)["coverage"].find("skipped")
    assert skipped is not None
    assert TITLE in skipped.get("message", "")
    failure = cases(strict(uncovered))["coverage"].find("failure")
    assert failure is not None
    assert failure.get("message") == TITLE
    whole = replace(uncovered, warnings=(), coverage=Coverage(9, 9, 1.0, repeats=True))
    assert list(cases(whole)["coverage"]) == []


def test_junit_skips_the_case_with_another_seed(passed: CheckResult) -> None:
    found = Coverage(9, 0, 1.0, repeats=True, excuse="seed 3 instead of 0")
    skipped = cases(replace(passed, coverage=found))["coverage"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "not compared: seed 3 instead of 0"


def test_the_page_shows_a_card(uncovered: CheckResult) -> None:
    text = html.to_text([uncovered])
    assert 'class="card warning"' in text
    assert TITLE in text
    assert "3 of 214 comparisons with the golden run took place" in text


def test_github_shows_a_warning_or_under_strict_an_error(uncovered: CheckResult, tmp_path: Path) -> None:
    places = {"mnist": Place(tmp_path, tmp_path)}
    first, second = github.annotation_lines([uncovered], places)
    assert first == f"::warning file=train/data.py,line=31,title=traincheck mnist%3A coverage::{TITLE}"
    assert second.startswith("::warning title=traincheck mnist%3A golden::")
    assert github.annotation_lines([strict(uncovered)], places)[0].startswith("::error file=train/data.py,line=31")
    assert f"- warning: {TITLE}" in github.summary([uncovered])
