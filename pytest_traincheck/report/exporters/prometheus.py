"""`--export prometheus=FILE.prom`: a text file for the textfile collector of Prometheus's node exporter.

The file is replaced in one step, so that a collector never reads half of it. The format is the text exposition format,
version 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats/).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_traincheck.atomic import replace_file

_EVERY_S = 5.0
"""Collectors look every fifteen seconds or less often."""

_Sample = tuple[Mapping[str, str], float]


class Prometheus:
    """Begins a file."""

    name = "prometheus"
    extra = ""

    def begin(self, target: str, pipeline: str) -> TextFile:
        """Write the file for the first time. Raises `OSError`."""
        return TextFile(Path(target), pipeline)


class TextFile:
    """The metrics of one training."""

    def __init__(self, path: Path, pipeline: str, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._pipeline = pipeline
        self._clock = clock
        self._steps = 0
        self._incidents: Counter[tuple[str, str]] = Counter()
        self._document: Mapping[str, Any] | None = None
        self._written = 0.0
        self._write()

    def steps(self, count: int) -> None:
        """Note the number, and write it every few seconds."""
        self._steps = count
        if self._clock() - self._written >= _EVERY_S:
            self._write()

    def incident(self, incident: Mapping[str, Any], steps: int) -> None:
        """Count it, and write at once: an alert waits for it."""
        self._steps = max(self._steps, steps)
        self._incidents[str(incident["relation"]), str(incident["kind"])] += 1
        self._write()

    def end(self, document: Mapping[str, Any]) -> None:
        """Write what came of it."""
        self._document = document
        found = Counter((str(item["relation"]), str(item["kind"])) for item in document["incidents"])
        # A counter never falls.
        self._incidents |= found
        self._write()

    def _write(self) -> None:
        text = "".join(line for metric in self._metrics() for line in self._lines(*metric))
        replace_file(self._path, text.encode("utf-8", errors="replace"))
        self._written = self._clock()

    def _metrics(self) -> Iterator[tuple[str, str, str, Sequence[_Sample]]]:
        document = self._document
        yield "running", "gauge", "1 while the training is watched, 0 behind its end.", [({}, float(document is None))]
        yield "steps", "gauge", "Training steps that were looked at.", [({}, self._steps)]
        counts = [({"relation": name, "kind": kind}, n) for (name, kind), n in sorted(self._incidents.items())]
        yield (
            "incidents_total",
            "counter",
            "Incidents that were found, by relation and kind.",
            counts or [({"relation": "", "kind": ""}, 0)],
        )
        yield "updated_timestamp_seconds", "gauge", "When this file was written.", [({}, round(self._clock(), 3))]
        if document is None:
            return
        verdicts = [({"verdict": name}, float(document["verdict"] == name)) for name in ("pass", "fail", "error")]
        yield "verdict", "gauge", "1 for how the check came out, 0 for the others.", verdicts
        rules = [({"state": name}, count) for name, count in sorted(document["invariants"].items())]
        yield "rules", "gauge", "Rules of the golden, and what became of them.", rules
        yield "coverage_ratio", "gauge", "Share of comparisons that took place.", [({}, document["coverage"]["share"])]
        seconds = [({"part": name.removesuffix("_s")}, value) for name, value in sorted(document["timing"].items())]
        yield "seconds", "gauge", "Wall time of the run and of checking it.", seconds

    def _lines(self, name: str, kind: str, meaning: str, samples: Sequence[_Sample]) -> Iterator[str]:
        yield f"# HELP traincheck_{name} {meaning}\n# TYPE traincheck_{name} {kind}\n"
        for labels, value in samples:
            named = {"pipeline": self._pipeline, **labels}
            shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in named.items())
            yield f"traincheck_{name}{{{shown}}} {value:.15g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
