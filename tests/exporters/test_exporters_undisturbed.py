"""What an exporter begins with leaves nothing behind that the training would find."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_traincheck.report.exporting import exporters

PLACES = {
    "mlflow": "runs", "otel": "http://127.0.0.1:9/v1/traces", "prometheus": "net.prom", "tensorboard": "events",
    "wandb": "kept",
}  # fmt: skip

BEGINS = """
import json, os, signal, sys

def around():
    signals = {number: signal.getsignal(number) for number in signal.valid_signals() if number not in (9, 19)}
    return dict(os.environ), signals, os.getcwd(), sys.stdout, sys.stderr, sys.excepthook

from pytest_traincheck.report.exporting import Exports, export_target
before = around()
exports = Exports([export_target(sys.argv[1])], "net", print)
after = around()
print(json.dumps([old == new for old, new in zip(before, after)]))
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.parametrize("name", PLACES)
def test_environment_signals_and_streams_are_as_before(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "MLFLOW_ALLOW_FILE_STORE": "true"}
    command = [sys.executable, "-c", BEGINS, f"{name}={PLACES[name]}"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [True] * 6


def test_every_exporter_is_tried() -> None:
    assert set(PLACES) == set(exporters())
