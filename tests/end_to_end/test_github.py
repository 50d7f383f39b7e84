"""What a pull request shows of a real failing run."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt
from training_repository import FailedJob

pytestmark = pytest.mark.slow


def test_the_step_fails_with_one_annotation_at_the_line(failed_job: FailedJob) -> None:
    assert failed_job.process.returncode == 1, failed_job.process.stdout + failed_job.process.stderr
    lines = [line for line in failed_job.process.stdout.splitlines() if line.startswith("::")]
    commands = [line for line in lines if not line.startswith("::warning")]  # its golden is of one seed
    assert len(commands) == 1
    command, _, message = commands[0][2:].partition("::")
    script = failed_job.repository.script.read_text().splitlines()
    line = next(number for number, text in enumerate(script, start=1) if "optimizer.step()" in text)
    # The pipeline runs in `training`; the path is that of the repository.
    assert command == f"error file=training/train.py,line={line},title=traincheck net%3A torch.optim.SGD.zero_grad"
    assert message.startswith(
        "`torch.optim.SGD.zero_grad`: the golden run always cleared the gradients between two steps;"
    )
    assert "%0Agolden: gradients cleared" in message


def test_the_summary_shows_the_incident_and_the_lost_line(failed_job: FailedJob) -> None:
    text = failed_job.summary.read_text()
    page = MarkdownIt("commonmark").enable("table").render(text)
    assert "<h2>traincheck: 1 failed of 1 pipeline</h2>" in page
    assert "<code>torch.optim.SGD.zero_grad</code>: the golden run always cleared" in page
    assert "-    optimizer.zero_grad()" in page
    assert "traincheck replay" in page


def test_switched_off_nothing_is_said(failed_job: FailedJob) -> None:
    """Also without a run: the pipeline named does not exist, which is an error of its own."""
    off = failed_job.repository.call(
        "pytest_traincheck", "check", "--github", "off", "nothing", GITHUB_ACTIONS="true",
        GITHUB_STEP_SUMMARY=str(failed_job.summary),
    )  # fmt: skip
    assert off.returncode == 2
    assert "::error" not in off.stdout
    on = failed_job.repository.call("pytest_traincheck", "check", "nothing", GITHUB_ACTIONS="true")
    assert on.returncode == 2
    assert on.stdout.startswith("::error title=traincheck nothing%3A the pipeline did not run::")
