"""The HTML page: self-contained, complete, and safe whatever the strings are."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.report.html import to_text, write_html

VOID = {"meta", "br", "wbr"}
DRAWN = {
    *("svg", "title", "desc", "defs", "pattern", "g", "rect", "line", "path", "circle", "text"),
}
ALLOWED = DRAWN | {
    *("nav", "h4", "caption"),
    *("html", "head", "meta", "title", "style", "body", "main", "article", "header", "section", "footer", "div"),
    *("h1", "h2", "h3", "p", "ul", "li", "dl", "dt", "dd", "pre", "code", "span", "b", "a", "br", "wbr", "details"),
    *("figure", "figcaption", "summary", "table", "thead", "tbody", "tr", "th", "td"),
}


class Page(HTMLParser):
    """Checks nesting, collects tags, attributes and the text that a reader sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def test_everything_a_reader_needs(failed: CheckResult) -> None:
    page = Page(to_text([failed]))
    assert "2 incidents, 4 of 36 rules broken" in page.text
    assert page.text.index("Most likely cause") < page.text.index("Incident 2")
    assert "torch.nn.utils.clip_grad_norm_ is no longer called before torch.optim.AdamW.step" in page.text
    assert "13 consequences" in page.text
    assert "step 1 (train), ranks 0-3, module transformer.blocks.0.attention, at train/loop.py:41" in page.text
    assert "not triggered: " not in page.text
    assert "the candidate never was in eval" in page.text
    for item in failed.verdicts:
        assert item.invariant.id in page.text
    assert "torch 2.13.0+cpu 2.14.0+cpu" in page.text.replace(
        "torch2.13.0+cpu2.14.0+cpu", "torch 2.13.0+cpu 2.14.0+cpu"
    )
    assert "4.2 s" in page.text
    assert failed.notes[0] in page.text
    assert "Distiller.student.f is Student.f in the golden run" in page.text


def test_only_what_differs_is_marked(failed: CheckResult) -> None:
    rows = re.findall(r'<tr class="differs"><th scope="row">(.*?)</th>', to_text([failed]))
    assert rows == ["torch"]


@pytest.mark.parametrize("name", ["failed", "passed", "errored", "hostile"])
def test_nothing_is_loaded_from_elsewhere(name: str, request: pytest.FixtureRequest) -> None:
    text = to_text([request.getfixturevalue(name)])
    page = Page(text)
    assert page.tags <= ALLOWED
    assert not {name for name, _ in page.attributes} & {"src", "onclick", "onload", "onerror", "srcset"}
    assert all(value.startswith("#") for name, value in page.attributes if name == "href")
    assert set(re.findall(r"url\((.)", text)) <= {"#"}, "patterns of the page itself"
    assert "@import" not in text


def test_hostile_strings_are_text(hostile: CheckResult) -> None:
    text = to_text([hostile, hostile])
    page = Page(text)
    assert "script" not in page.tags
    assert "<script>alert(1)</script> [bold red]x[/]" in page.text
    assert "{{ 7*7 }}" in page.text
    assert not {"\x00", "\x1b", "\u202e", "\ufffe"} & set(text)


def test_changed_lines_are_marked_as_removed_and_added(failed: CheckResult) -> None:
    text = to_text([failed])
    page = Page(text)
    assert "Changed lines: train/loop.py same function" in page.text
    assert re.findall(r'<span class="removed">(.*)\n', text)[-1] == "-        log(norm)"
    assert re.findall(r'<span class="added">(.*)\n', text) == [
        "+        # clipped by the optimizer now",
        "+        log(loss, step)",
    ]
    assert text.count('<figure class="diff"') == 1


def test_backticks_become_code_and_an_odd_one_stays(passed: CheckResult) -> None:
    text = to_text([replace(passed, notes=("call `a<b`", "odd ` tick"))])
    assert "call <code>a&lt;b</code>" in text
    assert "odd ` tick" in text


def test_several_results_have_an_overview(failed: CheckResult, passed: CheckResult, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_html(path, [failed, passed])
    page = Page(path.read_text(encoding="utf-8"))
    assert page.text.startswith("tiny_gpt, mnist: fail")
    assert "2 pipelines fail" in page.text
    assert ("href", "#pipeline-2") in page.attributes
    assert ("id", "pipeline-2") in page.attributes


def test_no_result_is_an_error() -> None:
    assert "Nothing was checked error" in Page(to_text([])).text
