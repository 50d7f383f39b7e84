"""What a month of checks tells."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from kept_checks import LATE, SECOND, a_month, check, selftest_of
from rich.console import Console

from pytest_traincheck.check.result import Outcome
from pytest_traincheck.history.record import Broke
from pytest_traincheck.history.story import Pipeline, stories
from pytest_traincheck.report.history.html import to_text
from pytest_traincheck.report.history.json_report import document
from pytest_traincheck.report.history.terminal import render_history

SENTENCES = {"b": "Batches differ."}


@pytest.fixture
def net() -> Pipeline:
    (story,) = stories(a_month())
    return story


def test_what_broke_when_and_when_it_was_gone(net: Pipeline) -> None:
    bug, change = net.episodes
    assert (bug.incident.id, bug.branch, bug.times) == ("000094011587", "tidy", 2)
    assert bug.gone is not None
    assert (bug.first.when.day, bug.last.when.day, bug.gone.when.day) == (3, 4, 5)
    # A check of another branch says nothing about this one.
    assert (change.branch, change.gone) == ("warm", None)


def test_a_check_that_could_not_be_made_ends_nothing() -> None:
    incident = a_month()[2].pipelines[0].incidents[0]
    records = [check(0, incident), check(1), check(2, incident)]
    (story,) = stories(records)
    assert [episode.times for episode in story.episodes] == [1, 1]
    entry = records[1].pipelines[0].__class__("net", Outcome.ERROR, errors=("timed out",))
    records[1] = records[1].__class__(records[1].when, "check", "", "main", Outcome.ERROR, (entry,))
    (story,) = stories(records)
    assert [episode.times for episode in story.episodes] == [2]


def test_who_accepted_what_and_why(net: Pipeline) -> None:
    (learned,) = net.learned
    assert (learned.origin, learned.rules_before, learned.rules) == (SECOND, 70, 71)
    (accepted,) = net.accepted
    assert (accepted.rule, accepted.times) == (LATE, 2)


def test_rules_that_never_come_up_are_those_of_the_golden_of_today(net: Pipeline) -> None:
    assert (net.silent.rules, net.silent.checks) == (("b",), 3)


def test_two_checks_say_nothing_about_never() -> None:
    (story,) = stories([check(0), check(1)])
    assert story.silent.rules == ()


def test_time_and_kill_rates(net: Pipeline) -> None:
    assert net.seconds == pytest.approx(7.5)
    assert [ran.entry.kill_rate for ran in net.selftests] == [0.9, 0.95]
    assert net.count(Outcome.FAIL) == 3


@pytest.mark.parametrize("width", [60, 100, 200])
def test_the_terminal_says_all_of_it(net: Pipeline, width: int) -> None:
    console = Console(width=width, no_color=True)
    with console.capture() as captured:
        console.print(render_history(a_month(), [net], SENTENCES))
    lines = captured.get().splitlines()
    assert all(len(line) <= width for line in lines)
    text = " ".join(captured.get().split())
    assert "11 runs, 2026-11-01 to 2026-11-10" in text
    assert "`zero_grad` is missing" in text
    assert "gone at 2026-11-05" in text
    assert "by Grace: longer warm-up (70 rules became 71)" in text
    assert "accepted until 2027-01-31 by vision: retuned" in text
    assert "1 of 71 rules came up in none of 3 checks: Batches differ. (b)" in text
    assert "net: betas-changed" in text


class _Page(HTMLParser):
    """Checks that what opens is closed, and collects what a page would load or run."""

    void = frozenset({"meta", "rect", "polyline", "circle", "br", "wbr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.roles: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.loads += [str(given[name]) for name in ("src", "href", "onload") if name in given]
        self.loads += [tag] if tag in {"script", "link", "iframe"} else []
        if tag == "svg":
            self.roles.append(given)
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag, attrs

    def handle_endtag(self, tag: str) -> None:
        if tag in self.void:
            return
        assert self.open.pop() == tag


def test_the_page_loads_nothing_and_is_whole(net: Pipeline) -> None:
    text = to_text(a_month(), [net], SENTENCES)
    page = _Page()
    page.feed(text)
    assert page.open == []
    assert page.loads == ["#content", "#pipeline-net"]
    assert [picture["role"] for picture in page.roles if "role" in picture] == ["img", "img"]
    assert "<desc>6 passed, 3 failed, 0 could not be made.</desc>" in text
    drawn = text[text.index("How checks came out") : text.index("</svg>", text.index("How checks came out"))]
    assert len(re.findall(r"<rect ", drawn)) == len(net.checks)
    assert "Batches differ." in text
    assert "95 %" in text


def test_names_are_escaped_on_the_page() -> None:
    bad = Broke("i", "<script>alert(1)</script>", "Count", "behaviour", "s", "a.py:1")
    text = to_text([check(0, bad)], stories([check(0, bad)]), {})
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_a_history_of_selftests_alone_is_a_page_too() -> None:
    records = [selftest_of(0, 1.0)]
    assert "100 %" in to_text(records, stories(records), {})


def test_the_json_is_what_was_read_and_what_it_tells(net: Pipeline) -> None:
    content = json.loads(json.dumps(document(a_month(), [net])))
    assert len(content["runs"]) == 11
    (told,) = content["pipelines"]
    assert told["verdicts"] == {"pass": 6, "fail": 3, "error": 0}
    assert [item["gone"] is None for item in told["broke"]] == [False, True]
    assert told["silent"] == {"rules": ["b"], "checks": 3}
