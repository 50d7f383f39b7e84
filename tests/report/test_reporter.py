"""Reports in formats of plug-ins: what can be asked for, and what a reporter that fails leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_traincheck import hookspecs, plugins
from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.plugins import PluginError
from pytest_traincheck.report import reporter
from pytest_traincheck.report.errors import ReportError
from pytest_traincheck.report.json_report import document


class Titles:
    name = "titles"

    def render(self, document: Mapping[str, Any]) -> str:
        return json.dumps([incident["title"] for incident in document["incidents"]])


Give = Callable[..., None]


@pytest.fixture
def give() -> Iterator[Give]:
    """Lets a plugin of a pytest session give reporters."""
    manager = pytest.PytestPluginManager()
    manager.add_hookspecs(hookspecs)

    def register(*found: object) -> None:
        manager.register(SimpleNamespace(pytest_traincheck_reporters=lambda: list(found)), f"plugin {len(found)}")

    with plugins.in_session(manager):
        yield register


def test_a_report_is_a_function_of_the_json_document(give: Give, failed: CheckResult, tmp_path: Path) -> None:
    give(Titles())
    reporter.write(reporter.target("titles=new/out.txt", tmp_path), [failed, failed])
    titles = [incident["title"] for incident in document([failed, failed])["incidents"]]
    assert json.loads((tmp_path / "new" / "out.txt").read_text()) == titles


@pytest.mark.parametrize("text", ["titles", "titles=", "=out.txt"])
def test_a_format_without_a_file_is_refused(give: Give, text: str) -> None:
    give(Titles())
    with pytest.raises(ReportError, match="Write NAME=FILE"):
        reporter.target(text)


def test_an_unknown_format_is_refused_with_the_nearest(give: Give) -> None:
    with pytest.raises(ReportError, match="no format of report is named 'title'"):
        reporter.target("title=out.txt")
    give(Titles())
    with pytest.raises(ReportError, match="Did you mean 'titles'"):
        reporter.target("title=out.txt")


class Fails(Titles):
    def render(self, document: Mapping[str, Any]) -> str:
        raise KeyError(document["verdict"])


class GivesBytes(Titles):
    def render(self, document: Mapping[str, Any]) -> Any:
        return document["verdict"].encode()


@pytest.mark.parametrize(("broken", "words"), [(Fails, "KeyError: 'pass'"), (GivesBytes, "gave bytes")])
def test_a_reporter_that_fails_is_named_and_writes_nothing(
    give: Give, passed: CheckResult, tmp_path: Path, broken: type[Titles], words: str
) -> None:
    give(broken())
    with pytest.raises(ReportError, match=words):
        reporter.write(reporter.target("titles=out.txt", tmp_path), [passed])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ((Titles,), "no usable name"),
        ((3,), "no usable name"),
        ((SimpleNamespace(name="a=b"),), "no usable name"),
        ((SimpleNamespace(name="titles"),), "lacks `render`"),
        ((Titles(), Titles()), "two reporters are named 'titles'"),
    ],
    ids=["class", "number", "equals", "render", "twice"],
)
def test_what_is_no_reporter_is_refused(give: Give, found: tuple[object, ...], words: str) -> None:
    give(*found)
    with pytest.raises(PluginError, match=words):
        reporter.reporters()
