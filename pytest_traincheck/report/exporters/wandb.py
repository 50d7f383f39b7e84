"""`--export wandb=DIR`: an offline run of W&B in DIR, which `wandb sync` uploads when and if you want.

It is a run of its own beside that of the training. What the environment says of a project or an entity (`WANDB_...`)
holds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class WandB:
    """Begins an offline run."""

    name = "wandb"
    extra = "wandb"

    def begin(self, target: str, pipeline: str) -> OfflineRun:
        """Begin the run. Raises `ImportError` and `OSError`."""
        return OfflineRun(Path(target), pipeline)


class OfflineRun:
    """The number of incidents against the step at which they happened, and the result as the run's summary."""

    def __init__(self, directory: Path, pipeline: str) -> None:
        # Offline is meant: no reports of errors to W&B either, unless somebody asked for them.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        directory.mkdir(parents=True, exist_ok=True)
        # Nothing but what is logged: no code, no diff, and none of what is printed, which is the training's.
        settings = wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True)
        project = os.environ.get("WANDB_PROJECT", "traincheck")
        self._run = wandb.init(
            mode="offline", dir=str(directory), project=project, name=f"traincheck {pipeline}", settings=settings
        )
        self._run.define_metric("traincheck/incidents", step_metric="traincheck/step")
        self._found = 0

    def steps(self, count: int) -> None:
        """Nothing: a curve has an axis of steps already."""

    def incident(self, incident: Mapping[str, Any], steps: int) -> None:
        """One more, at the step where it happened."""
        del steps
        self._found += 1
        self._run.log({"traincheck/step": max(int(incident["step"]), 0), "traincheck/incidents": self._found})
        self._run.summary[f"traincheck/incident/{incident['id']}"] = incident["title"]

    def end(self, document: Mapping[str, Any]) -> None:
        """The result, and close the run."""
        self._run.summary["traincheck/verdict"] = document["verdict"]
        self._run.summary["traincheck/coverage"] = document["coverage"]["share"]
        for name, count in document["invariants"].items():
            self._run.summary[f"traincheck/rules/{name}"] = count
        self._run.finish(exit_code=int(document["verdict"] != "pass"))
