"""`traincheck bisect` on a real history of real training."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from training_repository import TrainingRepository, environment


@pytest.mark.slow
def test_the_commit_that_lost_zero_grad_is_found(tmp_path: Path) -> None:
    repository = TrainingRepository(tmp_path / "repository")
    good = repository.git("rev-parse", "HEAD")
    repository.change('print("step"', 'print("training step"')
    repository.commit("Say what is printed")
    repository.change("import torch\n", "import torch\nimport nothing_of_that_name\n")
    repository.commit("Import what is not there")
    repository.change("import nothing_of_that_name\n", "")
    repository.commit("Import what is there")
    repository.change("    optimizer.zero_grad()\n", "")
    repository.change("loss.item()", "round(loss.item(), 3)")
    repository.commit("Print three digits")
    lost = repository.git("rev-parse", "HEAD")
    repository.change("training step", "step")
    repository.commit("Say less")
    repository.script.write_text("my own change, not committed\n")

    found = repository.call(
        "pytest_traincheck", "bisect", "net", "--good", good, "--bad", "HEAD", "--json", str(tmp_path / "found.json")
    )
    assert found.returncode == 1, found.stdout + found.stderr
    shown = found.stdout
    assert f"first bad commit: {lost}\n  author:  A. Person <person@example.invalid>\n" in shown
    assert "  subject: Print three digits\n" in shown
    assert "`torch.optim.SGD.zero_grad`: the golden run always cleared the gradients" in shown
    assert "-    optimizer.zero_grad()" in shown
    assert shown.startswith(f"good  {good[:12]}  The pipeline\n")
    assert max(map(len, shown.splitlines())) <= 80

    content = json.loads((tmp_path / "found.json").read_text())
    assert content["first_bad"]["commit"] == lost
    assert content["incident"]["diff"]["file"] == "train.py"
    # Only what this commit changed, not what has changed since the good one.
    assert "training step" not in "".join(line for line in content["incident"]["diff"]["hunk"] if line[0] in "+-")
    skipped = [item for item in content["tested"] if item["verdict"] == "skip"]
    assert [item["subject"] for item in skipped] == ["Import what is not there"]
    assert "ended with exit status 1" in skipped[0]["reason"]
    assert repository.script.read_text() == "my own change, not committed\n"
    assert len(repository.git("worktree", "list").splitlines()) == 1
    assert not repository.git("for-each-ref", "refs/bisect")


def interruptible() -> None:
    """What a shell has started in the background ignores interrupts, and so would all that is started from there."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    repository = TrainingRepository(tmp_path / "repository")
    good = repository.git("rev-parse", "HEAD")
    repository.script.write_text("import time\nprint('waiting')\ntime.sleep(600)\n")
    repository.commit("Wait")
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_traincheck", "bisect", "net", "--good", "HEAD", "--bad", good],
        cwd=repository.path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.communicate(timeout=120)
    assert process.returncode == 2  # the wrong way round: nothing is run for it

    (repository.path / "new").write_text("")
    repository.commit("Later")
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_traincheck", "bisect", "net", "--good", "HEAD~1", "--bad", "HEAD"],
        cwd=repository.path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=interruptible,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while len(repository.git("worktree", "list").splitlines()) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    assert len(repository.git("worktree", "list").splitlines()) == 1
    assert not (repository.path / ".git" / "worktrees").exists()
