"""One failing check of a real pipeline, as a CI job runs it; several tests look at what it leaves."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest
from training_repository import FailedJob, TrainingRepository


@pytest.fixture(scope="session")
def failed_job(tmp_path_factory: pytest.TempPathFactory) -> FailedJob:
    """`pytest --traincheck` on a branch that lost `zero_grad`, in what looks like a step of GitHub Actions."""
    directory = tmp_path_factory.mktemp("job")
    repository = TrainingRepository(directory / "repository")
    learned = repository.call("pytest_traincheck", "refresh")
    assert learned.returncode == 0, learned.stdout + learned.stderr
    repository.commit("The golden")
    repository.change("    optimizer.zero_grad()\n", "")
    repository.commit("Simplify the loop")
    summary, artifacts, document = directory / "summary.md", directory / "artifacts", directory / "result.json"
    installed = any(entry.name == "traincheck" for entry in entry_points(group="pytest11"))
    process = repository.call(
        "pytest", *([] if installed else ["-p", "pytest_traincheck.plugin"]), "--traincheck",
        f"--traincheck-artifacts={artifacts}", f"--traincheck-json={document}",
        GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary),
    )  # fmt: skip
    return FailedJob(repository, process, summary, artifacts, document)
