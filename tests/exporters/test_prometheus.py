"""The text file is one that Prometheus's own parser reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from trainings import DOCUMENT, INCIDENT

from pytest_traincheck.report.exporters.prometheus import Prometheus, TextFile


def _samples(path: Path) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(path.read_text(encoding="utf-8")):
        assert family.documentation.endswith(".")
        for sample in family.samples:
            labels = {key: value for key, value in sample.labels.items() if key != "pipeline"}
            found[" ".join([sample.name.removeprefix("traincheck_"), *labels.values()]).strip()] = sample.value
    return found


def test_a_training_from_beginning_to_end(tmp_path: Path) -> None:
    path = tmp_path / "metrics" / "net.prom"
    now = [1000.0]
    export = TextFile(path, 'a "net"', clock=lambda: now[0])
    assert _samples(path) == {
        "running": 1.0, "steps": 0.0, "incidents_total": 0.0, "updated_timestamp_seconds": 1000.0,
    }  # fmt: skip
    export.steps(7)
    assert _samples(path)["steps"] == 0.0
    now[0] += 6
    export.steps(8)
    assert _samples(path)["steps"] == 8.0
    export.incident(INCIDENT, 9)
    assert _samples(path)["incidents_total Accumulate behaviour"] == 1.0
    export.end(DOCUMENT)
    found = _samples(path)
    assert found["running"] == 0.0
    assert found["steps"] == 9.0
    assert found["incidents_total Accumulate behaviour"] == 1.0
    assert (found["verdict pass"], found["verdict fail"], found["verdict error"]) == (0.0, 1.0, 0.0)
    assert found["rules violated"] == 1.0
    assert found["coverage_ratio"] == 0.5
    assert found["seconds candidate_run"] == 4.5
    assert [item.name for item in path.parent.iterdir()] == ["net.prom"]


def test_a_place_that_cannot_be_written_is_known_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Not a directory"):
        Prometheus().begin(str(tmp_path / "file" / "x.prom"), "net")
