"""The demonstration that the README begins with, from end to end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import README, ROOT, blocks


def _run(script: Path, temporary: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.mark.slow
def test_demo_finds_the_bug_and_leaves_nothing(tmp_path: Path) -> None:
    done = _run(ROOT / "fixtures" / "demo.py", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line[0] for line in done.stdout.splitlines() if re.match(r"\d\. [A-Z]", line)] == list("12345")
    assert "-        optimizer.zero_grad()" in done.stdout
    assert list(tmp_path.iterdir()) == []
    # what the README shows is what the demo prints, but for counts and ids, which change with every new relation
    shown = next(block.text for block in blocks(README, "") if "FAILED" in block.text)
    printed = _without_numbers(done.stdout)
    for line in shown.splitlines():
        wanted = _without_numbers(line).strip()
        assert wanted in printed, f"the README shows a line that the demo does not print: {line}"


def _without_numbers(text: str) -> str:
    return re.sub(r"\b[0-9a-f]{12}\b|\d+", "#", text)


@pytest.mark.slow
@pytest.mark.sweep
def test_demo_fails_when_nothing_is_found(tmp_path: Path) -> None:
    """The same story with a patch that breaks nothing must not be told as a success."""
    fixtures = tmp_path / "fixtures"
    (fixtures / "bugs").mkdir(parents=True)
    (fixtures / "mnist_cnn").symlink_to(ROOT / "fixtures" / "mnist_cnn")
    demo = (ROOT / "fixtures" / "demo.py").read_text(encoding="utf-8")
    assert "seeds = [0, 1, 2]" in demo
    # One seed will do, where what is checked trains with the golden's own.
    (fixtures / "demo.py").write_text(demo.replace("seeds = [0, 1, 2]", "seeds = [0]"), encoding="utf-8")
    refactor = (ROOT / "fixtures" / "refactors" / "mnist_cnn.patch").read_bytes()
    (fixtures / "bugs" / "01-missing-zero-grad.patch").write_bytes(refactor)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = _run(fixtures / "demo.py", temporary)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "instead of 1 (failed tests)" in done.stderr
    assert list(temporary.iterdir()) == []
