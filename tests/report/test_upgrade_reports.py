"""What a person and a program read after an upgrade check."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from junit_schema import assert_valid
from result_schema import assert_result
from rich.cells import cell_len

from pytest_traincheck.check.attribution import Cell, Code, Libraries
from pytest_traincheck.check.library_call import LibraryCall
from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.report.upgrade import html
from pytest_traincheck.report.upgrade.json_report import document
from pytest_traincheck.report.upgrade.junit import write_junit
from pytest_traincheck.report.upgrade.result import UpgradeResult, VersionRow
from pytest_traincheck.report.upgrade.terminal import render_upgrade

VERSIONS = (
    VersionRow("transformers", "4.45.2", "4.46.3", True),
    VersionRow("tokenizers", "0.20.3", "", False),
    *(VersionRow(f"dependency-{number}", "", "1.0", False) for number in range(20)),
)
CALL = LibraryCall("transformers.Trainer.train", "is called there", "train.py:41")


def upgraded(cells: tuple[Cell, ...], *, reference: CheckResult | None = None) -> UpgradeResult:
    last = cells[-1].result if cells else CheckResult("tiny_gpt")
    return UpgradeResult(
        pipeline="tiny_gpt",
        reference=reference or CheckResult("tiny_gpt"),
        rules=112,
        cells=cells,
        calls=(CALL, None)[: len(last.incidents)],
        versions=VERSIONS,
        old_python="/home/user/project/.venv/bin/python",
        new_python="/home/user/.cache/traincheck/environments/transformers-4.46.3-0123456789abcdef/bin/python",
        notes=("in the second environment accelerate 1.0 requires tokenizers, which is not installed.",),
    )


@pytest.fixture
def four(failed: CheckResult, passed: CheckResult) -> UpgradeResult:
    passed = replace(passed, pipeline="tiny_gpt")
    return upgraded(
        (
            Cell(Code.GOLDEN, Libraries.NEW, failed),
            Cell(Code.CANDIDATE, Libraries.OLD, passed),
            Cell(Code.CANDIDATE, Libraries.NEW, failed),
        )
    )


@pytest.fixture
def one(failed: CheckResult) -> UpgradeResult:
    return upgraded((Cell(Code.GOLDEN, Libraries.NEW, failed),))


@pytest.fixture
def no_golden(errored: CheckResult) -> UpgradeResult:
    return upgraded((), reference=errored)


@pytest.fixture
def evil(hostile: CheckResult) -> UpgradeResult:
    result = upgraded((Cell(Code.GOLDEN, Libraries.NEW, hostile),))
    row = VersionRow(hostile.pipeline, hostile.pipeline, "<b>", True)
    return replace(result, pipeline=hostile.pipeline, versions=(row,), notes=(hostile.pipeline,))


@pytest.mark.parametrize("name", ["four", "one", "no_golden", "evil"])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(name: str, width: int, request: pytest.FixtureRequest) -> None:
    text = render_upgrade(request.getfixturevalue(name), width).plain
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text


def test_the_sentence_comes_first_then_the_four_verdicts(four: UpgradeResult) -> None:
    lines = render_upgrade(four, 80).plain.splitlines()
    assert lines[0] == "tiny_gpt: FAILED - The library alone broke it."
    assert lines[2].split() == ["golden", "code", "candidate", "code"]
    assert lines[3].split("  ")[0] == "old libraries"
    assert "learned, 112 rules" in lines[3]
    assert "passed" in lines[3]
    text = "\n".join(lines)
    assert text.index("new libraries") < text.index("broken by: the library") < text.index("versions:")
    assert "`transformers.Trainer.train`, called at train.py:41" in text
    assert "4.45.2        -> 4.46.3" in text
    assert "0.20.3        -> not installed  (comes along)" in text
    assert "and 14 more distributions" in text
    assert "83.3 % of the golden's" in " ".join(text.split())


def test_one_column_where_the_code_is_the_same(one: UpgradeResult) -> None:
    text = render_upgrade(one, 80).plain
    assert "candidate code" not in text
    assert "the code\n" in text


def test_a_golden_that_does_not_run_is_an_error(no_golden: UpgradeResult) -> None:
    text = render_upgrade(no_golden, 80).plain
    assert "tiny_gpt: ERROR - The golden code does not run to its end with the old libraries." in " ".join(text.split())
    assert "No module named 'tokenisers'" in text
    assert document([no_golden])["verdict"] == "error"


def test_json_is_that_of_a_check_and_more(four: UpgradeResult, one: UpgradeResult) -> None:
    found = json.loads(json.dumps(document([four])))
    assert_result(found, "upgrade")
    assert found["verdict"] == "fail"
    assert [item["id"] for item in found["incidents"]] == [item["incident"] for item in found["upgrade"]["broken_by"]]
    assert found["upgrade"]["broken_by"][0]["library_call"]["api"] == "transformers.Trainer.train"
    assert len(found["upgrade"]["cells"]) == 3
    share = found["upgrade"]["share"]
    assert (share["rules"], share["held"], share["violated"], share["not_evaluated"]) == (36, 30, 4, 2)
    several = document([four, one])
    assert_result(several, "upgrade")
    assert [single["upgrade"]["sentence"] for single in several["pipelines"]] == ["The library alone broke it."] * 2


def test_junit_has_a_suite_for_each_combination(four: UpgradeResult, tmp_path: Path) -> None:
    write_junit(tmp_path / "junit.xml", [four])
    assert_valid((tmp_path / "junit.xml").read_text())
    suites = [suite.get("name") for suite in ElementTree.parse(tmp_path / "junit.xml").getroot()]
    assert suites == [
        "tiny_gpt (new libraries, golden code)",
        "tiny_gpt (old libraries, candidate code)",
        "tiny_gpt (new libraries, candidate code)",
    ]


def test_the_page_escapes_everything(evil: UpgradeResult, four: UpgradeResult) -> None:
    assert "<script" not in html.to_text([evil])
    assert "<b>&lt;b&gt;" not in html.to_text([evil])
    text = html.to_text([four])
    assert "The library alone broke it." in text
    assert "Broken by the library." in text
