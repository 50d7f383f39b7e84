"""What `--export NAME=TARGET` asks for, and that a training goes on whatever becomes of its exports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from trainings import DOCUMENT, INCIDENT

from pytest_traincheck.report.errors import ReportError
from pytest_traincheck.report.exporting import Exports, ExportTarget, export_target, exporters

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("text", ["prometheus", "prometheus=", "=x"])
def test_what_names_no_place_is_refused(text: str) -> None:
    with pytest.raises(ReportError, match="names no system and place"):
        export_target(text)


def test_an_unknown_system_is_refused_with_the_nearest() -> None:
    with pytest.raises(ReportError, match="Did you mean 'prometheus'"):
        export_target("promethius=x")


def test_every_exporter_is_documented_and_its_extra_exists() -> None:
    page = (ROOT / "docs" / "guides" / "exports.md").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name, exporter in exporters().items():
        assert f"`{name}=" in page
        assert not exporter.extra or re.search(rf"^{exporter.extra} = \[", project, re.MULTILINE)


class Failing:
    """A system that is there at first."""

    name = "failing"
    extra = "failing"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.told: list[str] = []

    def begin(self, target: str, pipeline: str) -> Failing:
        del target, pipeline
        if self.error is not None:
            raise self.error
        return self

    def steps(self, count: int) -> None:
        self.told.append(f"steps {count}")
        if count == 2:
            raise RuntimeError("away")

    def incident(self, incident: Mapping[str, Any], steps: int) -> None:
        self.told.append(f"{incident['id']} {steps}")

    def end(self, document: Mapping[str, Any]) -> None:
        self.told.append(str(document["verdict"]))


def test_a_service_that_goes_away_is_told_nothing_more_and_the_others_are() -> None:
    first, second = Failing(), Failing()
    said: list[str] = []
    exports = Exports([ExportTarget(first, "a"), ExportTarget(second, "b")], "net", said.append)
    second.steps = second.told.append  # type: ignore[method-assign, assignment]
    for count in (1, 2, 3):
        exports.steps(count)
    exports.incident(INCIDENT, 3)
    exports.end(DOCUMENT)
    assert first.told == ["steps 1", "steps 2"]
    assert second.told == [1, 2, 3, "000094011587 3", "fail"]
    assert said == ["nothing more is exported to failing=a: RuntimeError: away. The training and its check go on."]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ImportError("No module named 'failing'"), r"Run `pip install 'pytest-traincheck\[failing\]'`"),
        (PermissionError(13, "Permission denied"), "nothing can be exported to failing=place: .*Permission denied"),
    ],
)
def test_what_cannot_begin_is_said_before_the_training_begins(error: Exception, said: str) -> None:
    with pytest.raises(ReportError, match=said):
        Exports([ExportTarget(Failing(error), "place")], "net", print)
