"""`--traincheck-audit` beside goldens, and the audit of training inside a test."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from small_training import TRAIN

pytestmark = pytest.mark.slow

LEFT_OVER = "gradients-left-over"
WRONG = TRAIN.replace("    optimizer.zero_grad()\n", "")
CONFIG = "[pipelines.net]\nrun = 'python train.py --steps 4'\nseed_arg = '--seed {seed}'\nseeds = [0]\n"


def run(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *words], cwd=directory, capture_output=True, text=True)


@pytest.mark.sweep
def test_a_golden_that_was_learned_from_a_mistake_is_told_to_break_a_law(tmp_path: Path) -> None:
    (tmp_path / "traincheck.toml").write_text(CONFIG)
    (tmp_path / "train.py").write_text(WRONG)
    done = run(tmp_path, "pytest_traincheck", "refresh")
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert f"warning: the golden breaks the law `{LEFT_OVER}`" in said
    done = run(tmp_path, "pytest", "-q", "--traincheck-audit", "--traincheck-json", "found.json")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "net.jsonl::audit" in done.stdout
    assert "No rule of the golden is broken, so most likely the golden run did the same" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["verdict"] == "fail"
    assert found["audit"]["incidents"][0]["law"] == LEFT_OVER
    done = run(tmp_path, "pytest", "-q", "--traincheck")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "audit" not in done.stdout


TESTS = """
import pytest_traincheck

BODY = '''{body}'''

def test_fixture(audit):
    with audit():
        exec(BODY, {{"__name__": "script"}})

def test_block():
    with pytest_traincheck.audit() as found:
        exec(BODY, {{"__name__": "script"}})
    assert found.audit.steps == 6
    assert [item.rule.id for item in found.errors] == {errors}
    assert "training steps" in str(found)
"""


@pytest.mark.parametrize(("script", "errors", "failed"), [(TRAIN, [], 0), (WRONG, [LEFT_OVER], 1)])
def test_training_inside_a_test(tmp_path: Path, script: str, errors: list[str], failed: int) -> None:
    body = script.replace("parser.parse_args()", "parser.parse_args([])")
    (tmp_path / "test_it.py").write_text(textwrap.dedent(TESTS).format(body=body, errors=errors))
    done = run(tmp_path, "pytest", "-q", "test_it.py")
    assert f"{2 - failed} passed" in done.stdout, done.stdout + done.stderr
    assert (f"{failed} failed" in done.stdout) == bool(failed)
    assert (LEFT_OVER in done.stdout) == bool(failed)
