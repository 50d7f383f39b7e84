"""The commands after a failed check: once in every report, and ready to be pasted."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from pytest_traincheck.check.result import CheckResult, Commands
from pytest_traincheck.check.serialise import from_plain, to_plain
from pytest_traincheck.report import html, json_report, junit
from pytest_traincheck.report.wording import next_lines

ACCEPT = ("traincheck", "accept", "6f0c", "--pipeline", "net", "--owner", "'Ada O. <b>'", "--reason", '"..."')
COMMANDS = Commands(("traincheck", "check", "net", "--golden", "1a2b3c"), ACCEPT)


@pytest.fixture
def told(failed: CheckResult) -> CheckResult:
    return replace(failed, commands=COMMANDS)


@pytest.mark.parametrize("width", [30, 60, 80, 200, None])
def test_lines_fit_and_say_the_same_to_a_shell(told: CheckResult, width: int | None) -> None:
    lines = next_lines(told, width)
    assert width is None or max(map(len, lines)) <= max(width, len("    --owner 'Ada O. <b>' \\"))
    text = "\n".join(lines).replace("\\\n", " ")
    reproduce, accept = (line.partition(": ")[2] for line in text.splitlines())
    assert shlex.split(reproduce) == shlex.split(" ".join(COMMANDS.reproduce))
    assert shlex.split(accept) == shlex.split(" ".join(COMMANDS.accept))


def test_nothing_is_said_where_nothing_is_configured(failed: CheckResult) -> None:
    assert next_lines(failed) == []


def test_each_report_has_them_once(told: CheckResult) -> None:
    plain = "--owner 'Ada O. <b>'"
    assert junit.to_text([told]).count("--owner 'Ada O. &lt;b&gt;'") == 1
    assert html.to_text([told]).count("--owner &#39;Ada O. &lt;b&gt;&#39;") == 1
    assert plain not in html.to_text([told])
    document = json_report.document([told])
    assert document["commands"] == {"reproduce": "traincheck check net --golden 1a2b3c", "accept": " ".join(ACCEPT)}
    several = json_report.document([told, replace(told, pipeline="other", commands=None)])
    assert [single["commands"] is None for single in several["pipelines"]] == [False, True]


def test_they_travel_from_a_worker(told: CheckResult) -> None:
    assert from_plain(to_plain(told)) == told
