"""Every page reads alike for eyes, keyboards and screen readers, asks nothing of the network, and trusts no string."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from page_states import BROKEN, GOLDEN, bisected, drawn, refreshed, selftested, states, traced, upgraded

from pytest_traincheck.check.result import CheckResult, ModuleAgreement
from pytest_traincheck.golden.portrait import Call, Curve, Group, Outline, Portraits, Rank
from pytest_traincheck.report import bisect_html, html, trace_html
from pytest_traincheck.report.refresh import html as refresh_html
from pytest_traincheck.report.selftest import html as selftest_html
from pytest_traincheck.report.upgrade import html as upgrade_html

STATES = (
    *("green check", "one incident", "several incidents", "several pipelines", "selftest with a survivor", "upgrade"),
    *("bisect", "refresh", "trace", "under a floor", "a run that failed", "history"),
)
VOID = {"meta", "br", "wbr"}
EVIL = "<img src=x onerror=alert(1)>\"'`</svg><script>"


class Outlined(HTMLParser):
    """The elements of a page in order, each with its attributes and the text right inside of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[int] = []
        self.elements: list[tuple[str, dict[str, str], str]] = []
        self.within: list[tuple[str, ...]] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.within.append(tuple(self.elements[place][0] for place in self.open))
        self.elements.append((tag, {name: value or "" for name, value in attrs}, ""))
        if tag not in VOID:
            self.open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self.open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            tag, attributes, text = self.elements[self.open[-1]]
            self.elements[self.open[-1]] = (tag, attributes, text + data)

    def of(self, *tags: str) -> list[tuple[str, dict[str, str], str]]:
        return [element for element in self.elements if element[0] in tags]


@pytest.fixture(scope="module")
def drawn_already() -> dict[str, str]:
    return {}


@pytest.fixture(params=STATES)
def text(
    request: pytest.FixtureRequest,
    drawn_already: dict[str, str],
    failed: CheckResult,
    passed: CheckResult,
    errored: CheckResult,
    uncovered: CheckResult,
) -> str:
    if request.param not in drawn_already:
        drawn_already[request.param] = states(failed, passed, errored, uncovered)[request.param]()
    return drawn_already[request.param]


def test_landmarks_and_headings_are_in_order(text: str) -> None:
    page = Outlined(text)
    for landmark in ("header", "main", "footer"):
        assert len(page.of(landmark)) == 1
    levels = [int(tag[1]) for tag, _, _ in page.of("h1", "h2", "h3", "h4", "h5")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels


def test_drawings_have_names_and_tables_have_headers(text: str) -> None:
    page = Outlined(text)
    for place, (_, attributes, _) in enumerate(page.elements):
        if page.elements[place][0] != "svg" or attributes.get("aria-hidden"):
            continue
        assert attributes["role"] == "img"
        (title, _, name), (desc, _, words) = page.elements[place + 1 : place + 3]
        assert (title, desc) == ("title", "desc")
        assert name
        assert words
    assert all(attributes.get("scope") in ("col", "row") for _, attributes, _ in page.of("th"))
    for _, attributes, _ in page.of("div"):
        if attributes.get("tabindex") == "0":
            assert attributes["aria-label"]


def test_pictures_ask_and_answer_and_are_tables_too(text: str) -> None:
    page = Outlined(text)
    figures = [place for place, element in enumerate(page.elements) if element[1].get("class") == "picture"]
    for place in figures:
        caption = [element for element in page.elements[place + 1 : place + 4] if element[0] != "code"]
        assert caption[0][0] == "figcaption"
        assert caption[1][2].rstrip().endswith("?")
    assert text.count("<table>") >= len(figures)
    ids = [attributes["id"] for _, attributes, _ in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {attributes["href"][1:] for _, attributes, _ in page.of("a") if attributes["href"].startswith("#")}
    assert targets <= set(ids)


def test_no_script_and_no_network(text: str) -> None:
    assert "<script" not in text
    assert not re.search(r"\b(src|srcset|action|formaction|onload|onerror|onclick|xlink:href)=", text)
    assert "default-src 'none'" in text
    assert set(re.findall(r"url\((.)", text)) <= {"#"}
    assert not re.search(r"""(href|url\()["']?(https?:)?//""", text)


def test_the_same_result_is_the_same_bytes(failed: CheckResult) -> None:
    assert html.to_text([drawn(failed)]) == html.to_text([drawn(failed)])


def test_a_page_is_small(failed: CheckResult) -> None:
    assert len(html.to_text([drawn(failed)]).encode()) < 100_000


def test_everything_that_is_there_is_drawn(failed: CheckResult) -> None:
    page = Outlined(html.to_text([drawn(failed)]))
    names = [attributes["id"] for _, attributes, _ in page.elements if attributes.get("class") == "picture"]
    found = [name.rsplit("-", 1)[-1] for name in names]
    assert found == ["curves", "timeline", "modules", "batches", "groups", "ranks", "observed"]


def test_nothing_is_drawn_of_nothing(passed: CheckResult) -> None:
    text = html.to_text([replace(passed, verdicts=())])
    assert 'class="picture"' not in text
    assert "What the runs looked like" not in text


def evil(result: CheckResult) -> CheckResult:
    """Every string that can be drawn is an attack."""
    portrait = replace(
        BROKEN,
        seed=EVIL,
        curves=(Curve(EVIL, EVIL, (1.0, 2.0), (1.0, 2.0), ((1.0, 1.0),)), Curve(EVIL, "other", (1.0, 2.0))),
        outline=Outline((Call(EVIL, EVIL), Call("module", EVIL)), ((0, 1),), (0, 0)),
        groups=(Group(EVIL, 0, 1, 1, 1, (EVIL,), ((EVIL, EVIL),)),),
        ranks=(Rank(0, ((EVIL,), (EVIL + "2",)), (1.0, 2.0), (1.0, 2.0), (1, 1)),) * 2,
    )
    modules = tuple(ModuleAgreement(f"Net.{EVIL}{place}", EVIL, 0.1, 1) for place in range(3))
    modules += (ModuleAgreement(EVIL, "deviates", float("inf"), 1),)
    return replace(result, portraits=Portraits(portrait, replace(GOLDEN, seed=EVIL)), modules=modules)


def test_names_are_never_markup(hostile: CheckResult, failed: CheckResult, passed: CheckResult) -> None:
    bad = evil(hostile)
    pages = (
        html.to_text([bad, bad]),
        selftest_html.to_text([selftested(bad, EVIL)]),
        upgrade_html.to_text([upgraded(bad, passed)]),
        bisect_html.to_text(bisected(bad, EVIL)),
        refresh_html.to_text([replace(refreshed(failed), result=bad, became=EVIL, reason=EVIL, notes=(EVIL,))]),
        trace_html.to_text(replace(traced(EVIL), why=EVIL, portrait=evil(failed).portraits.candidate)),
    )
    for text in pages:
        page = Outlined(text)
        assert not page.of("img", "script", "iframe", "object")
        assert not [name for _, attributes, _ in page.elements for name in attributes if name.startswith("on")]
    assert all("onerror=alert(1)" in text for text in (pages[0], *pages[3:])), "it is there, as text"


def colours(text: str) -> list[dict[str, str]]:
    """The colours of the light and of the dark scheme by their names."""
    light, dark = (
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", part))
        for part in re.findall(r":root \{(.*?)\}", text, re.DOTALL)[:2]
    )
    return [light, {**light, **dark}]


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.fixture(scope="module")
def schemes() -> Sequence[dict[str, str]]:
    """The colours by light and in the dark, which are those of every page."""
    return colours(html.to_text([CheckResult("net")]))


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("words", "ground"),
    [
        *((words, ground) for words in ("text", "quiet", "red", "amber", "blue") for ground in ("page", "card")),
        *(("text", ground) for ground in ("code", "gold-soft", "blue-soft", "gold-band", "red-soft")),
        *(("gold", "gold-soft"), ("blue", "blue-soft"), ("red", "red-soft"), ("violet", "card"), ("quiet", "code")),
        *(("on", ground) for ground in ("red", "green", "violet")),
    ],
)
def test_words_stand_out_from_their_ground(
    schemes: Sequence[dict[str, str]], scheme: int, words: str, ground: str
) -> None:
    found = schemes[scheme]
    low, high = sorted((luminance(found[words]), luminance(found[ground])))
    assert (high + 0.05) / (low + 0.05) >= 4.5
