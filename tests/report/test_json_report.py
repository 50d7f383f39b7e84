"""The JSON contract, for one pipeline and for several."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from result_schema import assert_result

from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.report.errors import ReportError
from pytest_traincheck.report.json_report import document, write_json


def test_one_result_is_its_own_document(failed: CheckResult, tmp_path: Path) -> None:
    assert document([failed]) == failed.to_json()
    assert_result(document([failed]), "check")
    path = tmp_path / "new" / "report.json"
    write_json(path, [failed])
    assert json.loads(path.read_text()) == failed.to_json()


def test_an_incident_has_the_changed_lines_or_null(failed: CheckResult) -> None:
    first, second = failed.to_json()["incidents"]
    assert set(first["diff"]) == {"file", "hunk", "how"}
    assert first["diff"]["file"] == "train/loop.py"
    assert first["diff"]["hunk"].startswith("@@ -38,16 +38,14 @@\n     model.train()\n")
    assert second["diff"] is None


def test_several_results_are_aggregated(failed: CheckResult, passed: CheckResult) -> None:
    content = document([failed, passed, failed])
    assert_result(content, "check")
    assert set(failed.to_json()) < set(content)
    assert content["verdict"] == "fail"
    assert content["pipeline"] == "tiny_gpt, mnist, tiny_gpt"
    assert content["invariants"] == {"golden": 74, "checked": 70, "passed": 62, "violated": 8, "not_evaluated": 4}
    assert [incident["rank"] for incident in content["incidents"]] == [1, 2, 3, 4]
    assert {incident["pipeline"] for incident in content["incidents"]} == {"tiny_gpt"}
    assert content["timing"]["golden_run_s"] == pytest.approx(9.42)
    assert content["golden"]["runs"] == 9
    assert content["golden"]["commit"] == "4f1c2ab90d"
    assert content["candidate"]["environment"] == {
        "python": "3.11.7",
        "numpy": "2.3.1",
        "platform": "linux-x86_64-cpu",
    }
    assert content["golden"]["command"] == ""
    assert content["renamed"][0] == {
        "candidate": "Distiller.student.a",
        "golden": "Student.a",
        "pipeline": failed.pipeline,
    }
    assert content["pipelines"] == [failed.to_json(), passed.to_json(), failed.to_json()]


def test_the_worst_verdict_counts(failed: CheckResult, passed: CheckResult, errored: CheckResult) -> None:
    assert document([passed, passed])["verdict"] == "pass"
    content = document([passed, errored, failed])
    assert_result(content, "check")
    assert content["verdict"] == "error"
    assert [error["pipeline"] for error in content["errors"]] == ["gan"]


def test_checking_nothing_is_an_error() -> None:
    content = document([])
    assert content["verdict"] == "error"
    assert content["errors"][0]["message"] == "no pipeline was checked"
    assert set(content["invariants"].values()) == {0}


def test_any_string_can_be_written(hostile: CheckResult, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_json(path, [hostile])
    assert json.loads(path.read_bytes()) == hostile.to_json()


def test_a_report_that_cannot_be_written(failed: CheckResult, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match=r"Cannot write the JSON report to .*report\.json: Not a directory\. Give"):
        write_json(tmp_path / "file" / "report.json", [failed])
