"""A run is where MLflow's own client finds it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

TELLS = f"""
import json, sys
sys.path.insert(0, {str(HERE)!r})
from trainings import DOCUMENT, INCIDENT
from pytest_traincheck.report.exporting import Exports, export_target

export = Exports([export_target(f"mlflow={{sys.argv[1]}}")], "net", sys.exit)
export.steps(4)
export.incident(INCIDENT, 4)
export.end(DOCUMENT)
assert "torch" not in sys.modules

from mlflow import MlflowClient

client = MlflowClient(sys.argv[1])
experiment = client.get_experiment_by_name("traincheck")
(run,) = client.search_runs([experiment.experiment_id])
curve = client.get_metric_history(run.info.run_id, "traincheck.incidents")
print(json.dumps([run.info.status, run.data.tags, run.data.metrics, [(item.step, item.value) for item in curve]]))
"""


def _tell(place: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: MLflow warns in this one. A directory takes runs where a variable allows it."""
    environment = {**os.environ, "MLFLOW_ALLOW_FILE_STORE": "true"}
    command = [sys.executable, "-c", TELLS, place]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_a_training_is_a_run(tmp_path: Path) -> None:
    done = _tell(str(tmp_path / "runs"))
    assert done.returncode == 0, done.stdout + done.stderr
    status, tags, metrics, curve = json.loads(done.stdout.splitlines()[-1])
    assert status == "FAILED"
    assert (tags["traincheck.pipeline"], tags["traincheck.verdict"]) == ("net", "fail")
    assert "zero_grad is" in tags["traincheck.incident.000094011587"]
    assert (metrics["traincheck.rules.violated"], metrics["traincheck.coverage"]) == (1.0, 0.5)
    assert curve == [[3, 1.0]]


def test_a_server_that_is_not_there_is_known_before_the_training_begins() -> None:
    done = _tell("http://127.0.0.1:9")
    assert done.returncode == 1
    assert "ReportError: nothing can be exported to mlflow=http://127.0.0.1:9" in done.stderr
