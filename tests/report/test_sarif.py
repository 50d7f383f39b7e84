"""SARIF: what code hosts show as annotations of lines."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_traincheck.check.result import CheckResult, Incident
from pytest_traincheck.report import reporter

MESSAGE = {
    "type": "object",
    "required": ["text"],
    "additionalProperties": False,
    "properties": {"text": {"type": "string"}},
}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
PLACE = {
    "type": "object",
    "required": ["artifactLocation"],
    "additionalProperties": False,
    "properties": {
        "artifactLocation": {
            "type": "object",
            "required": ["uri", "uriBaseId"],
            "additionalProperties": False,
            "properties": {
                # A relative reference (RFC 3986): of these characters, with no scheme and from no root.
                "uri": {"pattern": r"^(?!/)(?!\.\./)([A-Za-z0-9_.~/-]|%[0-9A-F]{2})+$"},
                "uriBaseId": {"type": "string"},
            },
        },
        "region": {
            "type": "object",
            "required": ["startLine"],
            "additionalProperties": False,
            "properties": {"startLine": {"type": "integer", "minimum": 1}},
        },
    },
}
RULE = {
    "type": "object",
    "required": ["id", "shortDescription"],
    "additionalProperties": False,
    "properties": {"id": {"type": "string"}, "shortDescription": MESSAGE},
}
RESULT = {
    "type": "object",
    "required": ["message", "ruleId", "ruleIndex", "level"],
    "additionalProperties": False,
    "properties": {
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": LEVEL,
        "message": MESSAGE,
        "locations": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["physicalLocation"],
                "additionalProperties": False,
                "properties": {"physicalLocation": PLACE},
            },
        },
        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
        "properties": {"type": "object"},
    },
}
INVOCATION = {
    "type": "object",
    "required": ["executionSuccessful"],
    "additionalProperties": False,
    "properties": {
        "executionSuccessful": {"type": "boolean"},
        "toolExecutionNotifications": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["message"],
                "additionalProperties": False,
                "properties": {"level": LEVEL, "message": MESSAGE},
            },
        },
    },
}
DRIVER = {
    "type": "object",
    "required": ["name", "version", "rules"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "version": {"type": "string"},
        "rules": {"type": "array", "uniqueItems": True, "items": RULE},
    },
}
LOG = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool", "results", "invocations"],
                "additionalProperties": False,
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "additionalProperties": False,
                        "properties": {"driver": DRIVER},
                    },
                    "invocations": {"type": "array", "items": INVOCATION},
                    "results": {"type": "array", "items": RESULT},
                },
            },
        },
    },
}
"""What of SARIF 2.1.0 is written, after sections 3.13 to 3.58: no less than it demands, and nothing that it lacks."""


def rendered(results: Sequence[CheckResult], directory: Path) -> dict[str, Any]:
    """The only run of the log, which follows the specification."""
    reporter.write(reporter.target("sarif=out.sarif", directory), results)
    log = json.loads((directory / "out.sarif").read_text(encoding="utf-8"))
    jsonschema.validate(log, LOG)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    return run  # type: ignore[no-any-return]


def place(result: dict[str, Any]) -> tuple[str, int]:
    """Path and line of a result; 0 for a whole file."""
    (location,) = result["locations"]
    physical = location["physicalLocation"]
    return physical["artifactLocation"]["uri"], physical.get("region", {}).get("startLine", 0)


def at(result: CheckResult, source: str, directory: str = "") -> CheckResult:
    """The same incident elsewhere: only the first is left, without changed lines."""
    first = result.incidents[0]
    incident = replace(first, cause=replace(first.cause, source=source), diff=None)
    return replace(result, incidents=(incident,), candidate=replace(result.candidate, directory=directory))


def test_an_incident_is_an_error_at_its_line(failed: CheckResult, tmp_path: Path) -> None:
    run = rendered([failed], tmp_path)
    clipping, rate = run["results"]
    assert (clipping["ruleId"], clipping["level"], place(clipping)) == ("APISequence", "error", ("train/loop.py", 41))
    assert (rate["ruleId"], rate["level"]) == ("APIArg", "error")
    lines = clipping["message"]["text"].split("\n")
    assert lines[0] == (
        "tiny_gpt: `torch.nn.utils.clip_grad_norm_` is no longer called before `torch.optim.AdamW.step`"
    )
    assert lines[2] == "candidate: never in 8 steps"
    assert lines[-1] == "with it: 13 consequences"
    assert clipping["partialFingerprints"] == {"traincheckIncident/v1": "c0ffee"}
    assert run["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]


def test_several_pipelines_are_one_run_of_the_tool(failed: CheckResult, passed: CheckResult, tmp_path: Path) -> None:
    other = replace(at(failed, "loop.py:3", "second"), pipeline="other")
    run = rendered([at(failed, "loop.py:3", "first"), passed, other], tmp_path)
    assert [place(result)[0] for result in run["results"]] == ["first/loop.py", "second/loop.py"]
    assert [result["properties"]["pipeline"] for result in run["results"]] == ["tiny_gpt", "other"]
    assert len(run["tool"]["driver"]["rules"]) == 1


def test_nothing_broken_is_no_result(passed: CheckResult, tmp_path: Path) -> None:
    assert rendered([passed], tmp_path)["results"] == []


def test_a_warning_is_a_warning_unless_the_check_fails_for_it(uncovered: CheckResult, tmp_path: Path) -> None:
    coverage, golden = rendered([uncovered], tmp_path)["results"]
    assert (coverage["ruleId"], coverage["level"], place(coverage)) == (
        "warning.coverage", "warning", ("train/data.py", 31)
    )  # fmt: skip
    assert (golden["ruleId"], golden["level"]) == ("warning.golden", "warning")
    strict = replace(uncovered, warnings=tuple(replace(item, fails=True) for item in uncovered.warnings))
    assert {result["level"] for result in rendered([strict], tmp_path)["results"]} == {"error"}


def test_a_run_that_failed_is_told_and_is_no_success(errored: CheckResult, tmp_path: Path) -> None:
    (invocation,) = rendered([errored], tmp_path)["invocations"]
    assert not invocation["executionSuccessful"]
    (told,) = invocation["toolExecutionNotifications"]
    assert told["message"]["text"].startswith("candidate: `python train.py --steps 8` ended with exit status 1")


@pytest.mark.parametrize(
    ("source", "directory", "found"),
    [
        ("train.py:7", "", ("train.py", 7)),
        ("train.py:7", "training/net", ("training/net/train.py", 7)),
        ("../lib/loop.py:7", "training", ("lib/loop.py", 7)),
        ("./a b/ü#1.py:7", "", ("a%20b/%C3%BC%231.py", 7)),
        # What lies outside of the repository is no place in it: the pipeline's script is.
        ("/usr/lib/loop.py:7", "training", ("training/train.py", 0)),
        ("../../loop.py:7", "training", ("training/train.py", 0)),
        ("", "training", ("training/train.py", 0)),
        ("pyproject.toml", "", ("pyproject.toml", 0)),
    ],
)
def test_a_place_is_a_path_of_the_repository(
    failed: CheckResult, tmp_path: Path, source: str, directory: str, found: tuple[str, int]
) -> None:
    (result,) = rendered([at(failed, source, directory)], tmp_path)["results"]
    assert place(result) == found


def test_without_a_line_the_file_of_the_changed_lines_is_the_place(failed: CheckResult, tmp_path: Path) -> None:
    first = failed.incidents[0]
    unplaced: Incident = replace(first, cause=replace(first.cause, source=""))
    assert place(rendered([replace(failed, incidents=(unplaced,))], tmp_path)["results"][0]) == ("train/loop.py", 0)


def test_without_any_file_there_is_no_place(failed: CheckResult, tmp_path: Path) -> None:
    bare = at(replace(failed, candidate=replace(failed.candidate, command="make train")), "")
    assert "locations" not in rendered([bare], tmp_path)["results"][0]


def test_text_of_unknown_origin_becomes_no_placeholder_link_or_escape(hostile: CheckResult, tmp_path: Path) -> None:
    root = replace(hostile.incidents[0].cause, title="{0} of [x](http://y) \x1b[31m\x00 \u202e")
    run = rendered([replace(hostile, incidents=(replace(hostile.incidents[0], cause=root),))], tmp_path)
    (result,) = run["results"]
    texts = [result["message"]["text"], run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]]
    assert "{{0}} of [x] (http://y)" in texts[0]
    for text in texts:
        assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]|\]\(", text)
        assert "{" not in text.replace("{{", "")
