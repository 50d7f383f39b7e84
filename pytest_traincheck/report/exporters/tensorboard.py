"""`--export tensorboard=DIR`: event files beside those of the training, so that incidents stand below its curves.

They are written with TensorBoard's own classes: those of torch would import torch, which watching does without.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorboard.compat.proto.summary_pb2 import Summary


class TensorBoard:
    """Begins an event file."""

    name = "tensorboard"
    extra = "tensorboard"

    def begin(self, target: str, pipeline: str) -> EventFile:
        """Open a file in the directory. Raises `ImportError` and `OSError`."""
        return EventFile(target, pipeline)


class EventFile:
    """`traincheck/PIPELINE/incidents` as a scalar at the step of each, and their sentences as texts."""

    def __init__(self, directory: str, pipeline: str) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer = EventFileWriter(directory)
        self._prefix = f"traincheck/{pipeline}"
        self._found = 0
        self._number("incidents", 0, 0)

    def steps(self, count: int) -> None:
        """Nothing: a curve has an axis of steps already."""

    def incident(self, incident: Mapping[str, Any], steps: int) -> None:
        """One more, at the step where it happened."""
        del steps
        self._found += 1
        step = max(int(incident["step"]), 0)
        self._number("incidents", self._found, step)
        self._text(f"{incident['title']}  \n{incident['source']}", step)
        self._writer.flush()

    def end(self, document: Mapping[str, Any]) -> None:
        """The share of rules that held and of comparisons that took place, and close the file."""
        rules = document["invariants"]
        if rules["checked"]:
            self._number("rules held", rules["passed"] / rules["checked"], 0)
        self._number("coverage", document["coverage"]["share"], 0)
        self._writer.close()

    def _number(self, name: str, value: float, step: int) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._event(Summary(value=[Summary.Value(tag=f"{self._prefix}/{name}", simple_value=value)]), step)

    def _text(self, text: str, step: int) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.compat.proto.types_pb2 import DT_STRING

        content = TensorProto(dtype=DT_STRING, string_val=[text.encode("utf-8", errors="replace")])
        plugin = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        value = Summary.Value(tag=f"{self._prefix}/incident", tensor=content, metadata=plugin)
        self._event(Summary(value=[value]), step)

    def _event(self, summary: Summary, step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))
