"""The event file is one that TensorBoard shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from trainings import DOCUMENT, INCIDENT

from pytest_traincheck.report.exporters.tensorboard import TensorBoard


def test_incidents_are_a_curve_and_texts(tmp_path: Path) -> None:
    export = TensorBoard().begin(str(tmp_path), "net")
    export.steps(4)
    export.incident(INCIDENT, 4)
    export.end(DOCUMENT)
    shown = EventAccumulator(str(tmp_path))
    shown.Reload()
    assert [(event.step, event.value) for event in shown.Scalars("traincheck/net/incidents")] == [(0, 0.0), (3, 1.0)]
    assert [event.value for event in shown.Scalars("traincheck/net/coverage")] == [0.5]
    (text,) = shown.Tensors("traincheck/net/incident")
    assert b"zero_grad is" in text.tensor_proto.string_val[0]
    assert text.step == 3


def test_it_does_without_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from pytest_traincheck.report.exporters.tensorboard import TensorBoard\n"
        f"TensorBoard().begin({str(tmp_path)!r}, 'net'); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
