"""What is printed on terminals of 80, 120 and 200 columns: no line too wide, and an incident on one screen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from pytest_traincheck.check.result import CheckResult, Incident
from pytest_traincheck.detail import Detail
from pytest_traincheck.report.incident import SCREEN, incident_lines, render_incident_text
from pytest_traincheck.report.terminal import render_result

RESULTS = ["failed", "passed", "errored", "hostile", "uncovered"]


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("detail", Detail, ids=lambda detail: detail.name)
@pytest.mark.parametrize("name", RESULTS)
def test_no_line_is_too_wide(name: str, detail: Detail, width: int, request: pytest.FixtureRequest) -> None:
    text = render_result(request.getfixturevalue(name), width, detail=detail).plain
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert not any(line != line.rstrip() for line in text.splitlines())


def wordy(failed: CheckResult) -> Incident:
    """An incident whose every part is as long as a training can make it."""
    incident = failed.incidents[0]
    assert incident.diff is not None
    cause = replace(
        incident.cause,
        title="of `Model.layers.0.attention.projection.weight` " * 30,
        golden="a value " * 200,
        candidate="another.long.dotted.name " * 200,
        module="encoder." * 60,
        variables=tuple(f"Model.layers.{number}.attention.projection.weight" * 4 for number in range(50)),
        count=1234,
    )
    follows = tuple(replace(cause, title=f"consequence {number} " + "and so on " * 40) for number in range(40))
    hunk = "@@ -1,60 +1,60 @@\n" + "\n".join(f"{'-+ '[number % 3]}line {number} {'x' * 150}" for number in range(90))
    return replace(incident, cause=cause, consequences=follows, diff=replace(incident.diff, hunk=hunk, focus=40))


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_an_incident_fits_one_screen(failed: CheckResult, width: int) -> None:
    lines = incident_lines(wordy(failed), width)
    assert len(lines) <= SCREEN
    assert all(cell_len(line) <= width for line, _ in lines)
    text = "\n".join(line for line, _ in lines)
    # What is left of each part is enough to know what it is about.
    for piece in ("1. of", "golden:", "candidate:", "where:", "variables:", "rule:", "diff:", "40 consequences:"):
        assert piece in text
    assert text.count("\n     ") > 3
    assert "…" in text


def test_a_short_incident_is_not_cut(failed: CheckResult) -> None:
    for incident in failed.incidents:
        text = render_incident_text(incident, 80)
        # Lines of a diff end in one where they are too wide, without a blank.
        assert " …" not in text


def test_everything_is_there_when_it_is_asked_for(failed: CheckResult) -> None:
    text = render_incident_text(wordy(failed), 80, Detail.FULL)
    assert "consequence 39" in text
    assert "line 89" in text
    assert "Model.layers.49" in text.replace("\n", "").replace(" ", "")
    assert "more" not in text


def test_briefly_it_is_what_and_where(failed: CheckResult) -> None:
    text = render_result(failed, 80, detail=Detail.BRIEF).plain
    assert text.startswith("tiny_gpt: FAILED")
    assert "1. " in text
    assert "where:" in text
    for left_out in ("golden:", "rules:", "diff:", "timing:", "\n\n"):
        assert left_out not in text
    assert render_result(failed, 80).plain.count("\n") > 2 * text.count("\n")


def test_what_did_not_run_is_said_briefly_with_what_to_do(errored: CheckResult) -> None:
    text = render_result(errored, 80, detail=Detail.BRIEF).plain
    assert "error:" in text
    assert "do:" in text
    assert "last lines" not in text
