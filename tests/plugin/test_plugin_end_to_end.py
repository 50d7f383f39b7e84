"""Real training under `pytest --traincheck` and in the `traincheck` fixture."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from pytest_traincheck.golden import store
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.rules.claims import Foreign
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.workflow.replay import replay_bundle

RULES = (
    Invariant(
        "Count",
        "torch.nn.Linear",
        Foreign({"api": "torch.nn.Linear", "per": "run", "times": "some"}),
        (),
        Scope.TRANSFERABLE,
        Kind.BEHAVIOUR,
        "it is called",
        8,
        2,
    ),
)

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

NET = """
import torch

def train(steps, clear=True):
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        if clear:
            optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 6)), torch.randint(3, (16,)))
        loss.backward()
        optimizer.step()
"""

CONFIG = """
[tool.traincheck.pipelines.net]
run = "python train.py"
seed_env = "SEED"
seeds = [0]
"""

SCRIPT = "import os, torch\nfrom net import train\ntorch.manual_seed(int(os.environ['SEED']))\ntrain(4)\n"


def test_learn_pass_and_fail(pytester, plugin):
    (pytester.path / "net.py").write_text(NET)
    (pytester.path / "train.py").write_text(SCRIPT)
    (pytester.path / "pyproject.toml").write_text(CONFIG)
    run = pytester.runpytest_subprocess
    run(*plugin, "--traincheck-refresh").assert_outcomes(passed=1)
    clean = run(*plugin, "--traincheck")
    assert clean.ret == 0
    assert clean.parseoutcomes()["passed"] > 3
    (pytester.path / "train.py").write_text(SCRIPT.replace("train(4)", "train(4, clear=False)"))
    broken = run(*plugin, "--traincheck")
    assert broken.ret == 1
    broken.stdout.fnmatch_lines(["*= traincheck =*", "1. *zero_grad*", "*= FAILURES =*", "FAILED *net.jsonl::*"])
    again = run(*plugin, "--traincheck", "--lf")
    assert again.parseoutcomes() == {"failed": broken.parseoutcomes()["failed"]}


TEST = """
from net import train

def test_net(traincheck):
    for seed in (0, 1):
        with traincheck.pipeline("tiny", seed=seed):
            train(4)
"""


def test_fixture_in_process(pytester, plugin):
    (pytester.path / "net.py").write_text(NET)
    path = pytester.makepyfile(test_net=TEST)
    run = pytester.runpytest_subprocess
    missing = run(*plugin)
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["tiny: there is no golden*"])
    run(*plugin, "--traincheck-refresh").assert_outcomes(passed=1)
    run(*plugin).assert_outcomes(passed=1)
    path.write_text(TEST.replace("train(4)", "train(4, clear=False)"))
    broken = run(*plugin, "--traincheck-artifacts=kept")
    broken.assert_outcomes(failed=1)
    broken.stdout.fnmatch_lines(["tiny: the training broke rules of its golden", "1. *zero_grad*"])
    (bundle,) = (pytester.path / "kept").glob("tiny-test_net-*/bundle")
    broken.stdout.fnmatch_lines([f"note: kept what `traincheck replay {bundle.relative_to(pytester.path)}` needs*"])
    replayed = replay_bundle(bundle)
    assert replayed.incidents[0].cause.invariant.relation == "Accumulate"
    assert replayed.commands is not None
    assert replayed.commands.reproduce == ("pytest", "test_net.py::test_net")
    broken.stdout.fnmatch_lines([f"if intended: {' '.join(replayed.commands.accept)}"])


HANGS = "import os, pathlib, time\npathlib.Path(os.environ['PID_FILE']).write_text(str(os.getpid()))\ntime.sleep(600)\n"


def test_cancelled_session_ends_its_run(pytester, plugin):
    """pytest has no handler for SIGTERM; the run is in a session of its own and would go on."""
    (pytester.path / "train.py").write_text(HANGS)
    (pytester.path / "pyproject.toml").write_text(CONFIG)
    store.write(pytester.path / "golden_invariants" / "net.jsonl", Golden("net", "0" * 16, RULES))
    pid_file, temporary = pytester.path / "pid", pytester.path / "tmp"
    temporary.mkdir()
    session = subprocess.Popen(
        [sys.executable, "-m", "pytest", *plugin, "--traincheck"],
        cwd=pytester.path,
        env={**os.environ, "PID_FILE": str(pid_file), "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
    )
    deadline = time.monotonic() + 60
    while not (pid_file.exists() and pid_file.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    session.send_signal(signal.SIGTERM)
    printed, _ = session.communicate(timeout=60)
    assert session.returncode == 143
    assert b"terminated while a pipeline was running" in printed
    assert not psutil.pid_exists(int(pid_file.read_text()))
    assert list(temporary.iterdir()) == []
