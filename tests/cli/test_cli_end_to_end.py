"""Real training through the real commands: a small network in a git repository, its mistakes and its accidents."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from small_training import TRAIN

pytestmark = pytest.mark.slow

CONFIG = """\
[tool.traincheck.pipelines.net]
run = "python train.py --steps 4"
seed_arg = "--seed {seed}"
seeds = [0, 1]
timeout = 120
"""

NO_TRAINING = "import torch\nprint(torch.ones(2).sum())\n"
HANGS = (
    "import os, pathlib, time\n"
    "pathlib.Path(os.environ.get('PID_FILE', os.devnull)).write_text(str(os.getpid()))\n"
    "print('waiting for the data', flush=True)\n"
    "time.sleep(600)\n"
)


def git(directory: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=tests", "-c", "user.email=tests@example.invalid")
    return subprocess.run(
        ["git", *identity, *arguments], cwd=directory, capture_output=True, text=True, check=True
    ).stdout


def traincheck(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest_traincheck", *arguments], cwd=directory, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose golden has been learned and committed."""
    root = tmp_path_factory.mktemp("learned")
    (root / "train.py").write_text(TRAIN)
    (root / "pyproject.toml").write_text(CONFIG)
    git(root, "init", "-qb", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "code")
    done = traincheck(root, "refresh")
    assert done.returncode == 0, done.stdout + done.stderr
    git(root, "add", "-A")
    git(root, "commit", "-qm", "golden")
    return root


@pytest.fixture
def repository(learned: Path, tmp_path: Path) -> Path:
    shutil.copytree(learned, tmp_path / "repository")
    return tmp_path / "repository"


def change(repository: Path, old: str, new: str) -> None:
    script = repository / "train.py"
    assert old in script.read_text()
    script.write_text(script.read_text().replace(old, new))


def test_golden_code_passes_its_own_check(repository):
    done = traincheck(repository, "check", "--json", "out.json")
    assert done.returncode == 0, done.stdout + done.stderr
    content = json.loads((repository / "out.json").read_text())
    assert content["invariants"]["checked"] > 0
    assert content["incidents"] == []


def test_second_refresh_writes_the_identical_file(repository):
    path = repository / "golden_invariants" / "net.jsonl"
    before = path.read_bytes()
    assert traincheck(repository, "refresh").returncode == 0
    assert path.read_bytes() == before


def test_missing_zero_grad_is_found_between_two_commits(repository):
    git(repository, "checkout", "-qb", "faster")
    change(repository, "    optimizer.zero_grad()\n", "")
    # The mistake bites silently: the script itself runs as before.
    subprocess.run([sys.executable, "train.py"], cwd=repository, check=True, capture_output=True)
    git(repository, "commit", "-qam", "faster")
    sides = ("--golden", "main", "--candidate", "faster")
    run = ("--run", "python train.py --steps 4", "--seed-arg", "--seed {seed}", "--seeds", "0,1")
    done = traincheck(repository, "compare", *sides, *run, "--json", "out.json")
    assert done.returncode == 1, done.stdout + done.stderr
    content = json.loads((repository / "out.json").read_text())
    top = content["incidents"][0]
    assert "zero_grad" in top["title"]
    assert top["diff"]["file"] == top["source"].partition(":")[0]
    assert any(line.startswith("-") for line in top["diff"]["hunk"].splitlines())
    assert content["candidate"]["commit"] == git(repository, "rev-parse", "faster").strip()
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_pipeline_that_exits_with_1_shows_its_output(repository):
    change(repository, "    loss.backward()\n", "    raise SystemExit('no such data set')\n")
    done = traincheck(repository, "check", "--json", "out.json")
    assert done.returncode == 3
    assert "no such data set" in done.stdout
    assert json.loads((repository / "out.json").read_text())["verdict"] == "error"


def test_pipeline_that_is_killed_half_way(repository):
    change(
        repository,
        "    optimizer.step()\n",
        "    optimizer.step()\n    if step == 1: import os; os.kill(os.getpid(), 9)\n",
    )
    done = traincheck(repository, "check")
    assert done.returncode == 3
    assert "SIGKILL" in done.stdout
    assert "| step 0" in done.stdout


def test_pipeline_that_trains_nothing(repository):
    (repository / "train.py").write_text(NO_TRAINING)
    done = traincheck(repository, "check")
    assert done.returncode == 3
    assert "nothing was trained" in " ".join(done.stdout.split())


def test_pipeline_that_hangs_is_ended(repository):
    (repository / "train.py").write_text(HANGS)
    config = repository / "pyproject.toml"
    config.write_text(config.read_text().replace("timeout = 120", "timeout = 3"))
    done = traincheck(repository, "check")
    assert done.returncode == 3
    assert "waiting for the data" in done.stdout


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_cancelled_job_leaves_nothing_behind(repository, tmp_path, number, status):
    (repository / "train.py").write_text(HANGS)
    git(repository, "commit", "-qam", "hangs")
    pid_file, temporary = tmp_path / "pid", tmp_path / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_traincheck", "check", "--golden", "HEAD"],
        cwd=repository,
        env={**os.environ, "PID_FILE": str(pid_file), "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # A shell that runs the tests in the background has them ignore SIGINT, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while not (pid_file.exists() and pid_file.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    pid = int(pid_file.read_text())
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == status
    assert not psutil.pid_exists(pid)
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert list(temporary.iterdir()) == []


def test_collect_infer_trace_and_diff(repository):
    collect = ("collect", "--run", "python train.py --steps 4", "--seed-arg", "--seed {seed}")
    for seed in ("0", "1"):
        done = traincheck(repository, *collect, "--seed", seed, "--output", f"run{seed}")
        assert done.returncode == 0, done.stdout + done.stderr
    done = traincheck(repository, "infer", "run0", "run1", "--output", "net.jsonl", "--reason", "by hand")
    assert done.returncode == 0, done.stdout + done.stderr
    # The same runs, asked for in the same words, say the same rules about the same spec.
    shown = traincheck(repository, "diff", "net.jsonl", "golden_invariants/net.jsonl").stdout
    assert "no change" in shown
    shown = traincheck(repository, "trace", "run0", "--events", "20")
    assert shown.returncode == 0
    assert "torch.nn.Linear" in shown.stdout
    pytest.importorskip("pyarrow")
    assert traincheck(repository, "trace", "run0", "--parquet", "events.parquet").returncode == 0
    assert (repository / "events.parquet").stat().st_size > 0
