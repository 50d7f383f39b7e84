"""`--export mlflow=URI`: a run at a tracking server of MLflow, or wherever else a tracking URI leads.

It is a run of its own beside that of the training, in the experiment that `MLFLOW_EXPERIMENT_NAME` names, or in
`traincheck`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


class MLflow:
    """Begins a run."""

    name = "mlflow"
    extra = "mlflow"

    def begin(self, target: str, pipeline: str) -> TrackedRun:
        """Begin the run. Raises `ImportError`, and `OSError` where the place does not take one."""
        # Nobody is told but the server that was named, unless somebody asked for that.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        # A server that is not there is said within seconds, and not after the minutes that MLflow would try.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        from mlflow.exceptions import MlflowException

        try:
            return TrackedRun(target, pipeline)
        except MlflowException as error:
            raise OSError(str(error)) from error


class TrackedRun:
    """The number of incidents against the step at which they happened, their sentences as tags, and the result."""

    def __init__(self, uri: str, pipeline: str) -> None:
        from mlflow import MlflowClient

        self._client = MlflowClient(uri)
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "traincheck")
        known = self._client.get_experiment_by_name(name)
        experiment = known.experiment_id if known is not None else self._client.create_experiment(name)
        run = self._client.create_run(experiment, run_name=f"traincheck {pipeline}")
        self._id = run.info.run_id
        self._found = 0
        self._going: list[Any] = []
        self._client.set_tag(self._id, "traincheck.pipeline", pipeline)

    def steps(self, count: int) -> None:
        """Nothing: a curve has an axis of steps already."""

    def incident(self, incident: Mapping[str, Any], steps: int) -> None:
        """One more, at the step where it happened; nobody waits until the server has it."""
        del steps
        self._found += 1
        step, tag = max(int(incident["step"]), 0), f"traincheck.incident.{incident['id']}"
        self._going += [
            self._client.log_metric(self._id, "traincheck.incidents", self._found, step=step, synchronous=False),
            self._client.set_tag(self._id, tag, str(incident["title"]), synchronous=False),
        ]

    def end(self, document: Mapping[str, Any]) -> None:
        """The result, and end the run when the server has everything."""
        for sent in self._going:
            sent.wait()
        self._client.set_tag(self._id, "traincheck.verdict", document["verdict"])
        self._client.log_metric(self._id, "traincheck.coverage", document["coverage"]["share"])
        for name, count in document["invariants"].items():
            self._client.log_metric(self._id, f"traincheck.rules.{name}", count)
        self._client.set_terminated(self._id, "FINISHED" if document["verdict"] == "pass" else "FAILED")
