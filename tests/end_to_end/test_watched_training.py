"""`traincheck run` and `traincheck watch` on a training that goes wrong late, in real processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

TRAIN = """\
import argparse, os, signal, sys, time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=6)
args = parser.parse_args()
mistake, _, at = os.environ.get("MISTAKE", "").partition("@")
pause = float(os.environ.get("PAUSE", 0))

def save(number, frame):
    print("saved", flush=True)
    sys.exit(7 if mistake else 0)

signal.signal(signal.SIGTERM, save)
torch.manual_seed(args.seed)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 3))
model[0].requires_grad_(False)
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
for step in range(args.steps):
    wrong = mistake if at and step >= int(at) else ""
    if wrong != "zero_grad":
        optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 6)), torch.randint(3, (16,)))
    loss.backward()
    optimizer.step()
    if wrong != "scheduler":
        scheduler.step()
    if wrong == "frozen":
        model[0].weight.data.mul_(1.001)
    if wrong == "eval":
        model.eval()
    if wrong == "crash":
        raise RuntimeError("out of luck")
    if step == 20 and "BEGUN" in os.environ:
        open(os.environ["BEGUN"], "w").close()
    time.sleep(pause)
print("trained", flush=True)
"""

CONFIGURATION = f"""\
python = "{sys.executable}"
[pipelines.tiny]
run = "python train.py --steps 6"
seed_arg = "--seed {{seed}}"
seeds = [0]
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a golden of six steps."""
    root = tmp_path_factory.mktemp("project")
    (root / "train.py").write_text(TRAIN)
    (root / "traincheck.toml").write_text(CONFIGURATION)
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"],
    ):
        subprocess.run(["git", *words], cwd=root, check=True)
    done = traincheck(root, "refresh", "tiny", "--reason", "first")
    assert done.returncode == 0, done.stderr
    return root


def traincheck(root: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest_traincheck", *words],
        cwd=root, env=environment(env), capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip


def environment(more: dict[str, str]) -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", **more}


def command(steps: int) -> Sequence[str]:
    return ("--", "python", "train.py", "--steps", str(steps), "--seed", "3")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_right_training_of_any_length_passes_and_prints_what_it_prints(project: Path, tmp_path: Path) -> None:
    done = traincheck(project, "run", "tiny", "--json", str(tmp_path / "out.json"), *command(90))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("trained\n")
    assert "the training made 90 steps, golden's runs 6" in done.stdout
    (document,) = lines(tmp_path / "out.json")
    assert document["verdict"] == "pass"


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        ("frozen", "`Sequential.0.weight`"),
        pytest.param("zero_grad", "zero_grad", marks=pytest.mark.sweep),
        pytest.param("eval", "eval mode", marks=pytest.mark.sweep),
        pytest.param("scheduler", "scheduler", marks=pytest.mark.sweep),
    ],
)
def test_what_goes_wrong_late_is_told_while_it_happens(project: Path, tmp_path: Path, mistake: str, says: str) -> None:
    out = tmp_path / "out.json"
    done = traincheck(project, "run", "tiny", "--json", str(out), *command(120), MISTAKE=f"{mistake}@80")
    assert done.returncode == 1, done.stdout + done.stderr
    first, *_, document = lines(out)
    assert says in first["title"]
    assert 80 <= first["step"] <= 82
    assert f"traincheck: step {first['step']} (train.py:" in done.stderr
    assert [incident["id"] for incident in document["incidents"]] == [first["id"]]
    assert (document["verdict"], document["format"]) == ("fail", 1)


@pytest.mark.parametrize("every", [pytest.param("7", marks=pytest.mark.sweep), "auto"])
def test_a_right_training_of_which_few_steps_are_observed_passes(project: Path, tmp_path: Path, every: str) -> None:
    out = tmp_path / "out.json"
    done = traincheck(project, "run", "tiny", "--every", every, "--json", str(out), *command(300))
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "the training made 300 steps, golden's runs 6" in said
    found = re.search(r"(\d+) of its steps were observed", said)
    assert found is not None
    assert 8 < int(found[1]) < 150
    (document,) = lines(out)
    assert document["verdict"] == "pass"


@pytest.mark.parametrize(
    ("mistake", "says"),
    [pytest.param("zero_grad", "zero_grad", marks=pytest.mark.sweep), ("frozen", "`Sequential.0.weight`")],
)
def test_what_goes_wrong_late_is_told_at_the_next_step_that_is_observed(
    project: Path, tmp_path: Path, mistake: str, says: str
) -> None:
    out = tmp_path / "out.json"
    done = traincheck(
        project, "run", "tiny", "--every", "10", "--json", str(out), *command(140), MISTAKE=f"{mistake}@83"
    )
    assert done.returncode == 1, done.stdout + done.stderr
    first, *_, document = lines(out)
    assert says in first["title"]
    assert 83 <= first["step"] <= 91
    assert [incident["id"] for incident in document["incidents"]] == [first["id"]]


def test_a_training_reads_what_it_is_handed(project: Path, tmp_path: Path) -> None:
    """Its standard input, and a descriptor that somebody has opened for it."""
    (tmp_path / "words").write_text("a descriptor")
    with (tmp_path / "words").open() as file:
        script = f"import os, sys; print(sys.stdin.read(), 'and', os.read({file.fileno()}, 100).decode())"
        done = subprocess.run(
            [sys.executable, "-m", "pytest_traincheck", "run", "tiny", "--", "python", "-c", script],
            cwd=project, env=environment({}), input="a pipe", pass_fds=[file.fileno()],
            capture_output=True, text=True, check=False, timeout=180,
        )  # fmt: skip
    assert "a pipe and a descriptor" in done.stdout, done.stderr


@dataclass(frozen=True)
class Late:
    """What became of a training that went wrong in step 30, and the directory of what was asked for."""

    done: subprocess.CompletedProcess[str]
    left: Path


@pytest.fixture(scope="module")
def late(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Late:
    """One training of which several things are asked; each of them is for a test of its own."""
    left = tmp_path_factory.mktemp("late")
    done = traincheck(
        project, "run", "tiny",
        "--export", f"prometheus={left}/tiny.prom", "--export", f"prometheus={left}/made/tiny.prom",
        "--on-incident=checkpoint", f"--checkpoint-file={left}/save-now",
        f"--checkpoint-command=echo $TRAINCHECK_STEP: $TRAINCHECK_INCIDENT >> {left}/log; nice > {left}/nice",
        f"--keep-trace={left}/trace", *command(60), MISTAKE="frozen@30",
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    return Late(done, left)


def test_a_training_is_told_to_other_systems(late: Late) -> None:
    """To two places at once; directories are made."""
    text = (late.left / "tiny.prom").read_text(encoding="utf-8")
    assert (late.left / "made" / "tiny.prom").exists()
    assert 'traincheck_running{pipeline="tiny"} 0' in text
    assert 'traincheck_verdict{pipeline="tiny",verdict="fail"} 1' in text
    (incidents,) = re.findall(r"^traincheck_incidents_total.* (\d+)$", text, re.MULTILINE)
    assert int(incidents) >= 1


@pytest.mark.fault(
    area="Runs", tried="--on-incident=stop", happens="SIGTERM, time to save, exit status 1 and the cause"
)
def test_a_training_is_stopped_at_the_first_incident(project: Path) -> None:
    begun = time.monotonic()
    done = traincheck(project, "run", "tiny", "--on-incident=stop", *command(4000), MISTAKE="eval@20", PAUSE="0.05")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "saved\n" in done.stdout
    assert "trained" not in done.stdout
    assert "the training was stopped at the first incident" in done.stdout
    assert time.monotonic() - begun < 100


@pytest.mark.fault(
    area="Runs",
    tried="`run` cannot watch: damaged numbers, a full disk",
    happens="the training goes on to its end; exit status 3 or 2 then",
)
@pytest.mark.parametrize(("wrong", "status"), [("numbers", 3), ("report", 2)])
def test_what_goes_wrong_with_watching_ends_no_training(project: Path, tmp_path: Path, wrong: str, status: int) -> None:
    root = tmp_path / "project"
    shutil.copytree(project, root)
    out = tmp_path / "out.json"
    if wrong == "numbers":
        (numbers,) = (root / "golden_invariants").glob("tiny.*.npz")
        numbers.write_bytes(b"PK")
    else:
        out.symlink_to("/dev/full")
    done = traincheck(root, "run", "tiny", "--json", str(out), *command(40), MISTAKE="eval@20")
    assert "trained\n" in done.stdout, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == status, done.stdout + done.stderr
    assert (numbers.name if wrong == "numbers" else "out.json") in done.stdout + done.stderr


def test_a_checkpoint_is_asked_for_once(late: Late) -> None:
    assert (late.left / "save-now").exists()
    (line,) = (late.left / "log").read_text().splitlines()
    assert line.startswith("31: `Sequential.0.weight`")
    assert "trained\n" in late.done.stdout


def test_what_a_checkpoint_is_asked_for_with_has_the_usual_priority(late: Late) -> None:
    """Looking gives way to the training; what is started at an incident does not."""
    assert int((late.left / "nice").read_text()) == os.getpriority(os.PRIO_PROCESS, 0)


@pytest.mark.fault(area="Runs", tried="the training crashes", happens="exit status 3, with what became of it")
def test_a_training_that_crashes_is_a_failed_run(project: Path) -> None:
    done = traincheck(project, "run", "tiny", *command(60), MISTAKE="crash@30")
    assert done.returncode == 3
    assert "out of luck" in done.stderr, "its own output is as it would be"
    assert "ended with exit status 1" in " ".join(done.stdout.split())


@pytest.mark.fault(area="Runs", tried="Ctrl-C or SIGTERM", happens="the training gets it and may save; then the report")
def test_a_signal_goes_to_the_training(project: Path, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_traincheck", "run", "tiny", *command(5000)],
        cwd=project, env=environment({"PAUSE": "0.05", "BEGUN": str(begun)}),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not begun.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    printed, errors = process.communicate(timeout=60)
    assert "saved" in printed
    assert process.returncode == 128 + signal.SIGTERM, printed + errors


def test_a_finished_trace_is_watched_to_the_same_end(project: Path, late: Late, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    again = traincheck(project, "watch", str(late.left / "trace"), "golden_invariants/tiny.jsonl", "--json", str(out))
    assert again.returncode == 1, again.stderr
    told, document = lines(out)
    assert told["step"] == 31
    assert document["incidents"][0]["id"] in late.done.stdout


def test_another_command_is_checked_against_transferable_rules(project: Path) -> None:
    done = traincheck(project, "run", "tiny", "--", "python", "-O", "train.py", "--steps", "30")
    assert done.returncode == 0, done.stdout
    assert "the command is another one than golden's (`-O` added)" in done.stderr


def test_a_check_ends_at_the_first_incident(project: Path, tmp_path: Path) -> None:
    """So does one under pytest. The command is the golden's, only slower; without the option it comes to its end."""
    slow = tmp_path / "slow"
    shutil.copytree(project, slow)
    (slow / "traincheck.toml").write_text(CONFIGURATION.replace("--steps 6", "--steps 40"))
    done = traincheck(slow, "refresh", "tiny", "--reason", "longer")
    assert done.returncode == 0, done.stderr
    late = {"MISTAKE": "eval@4", "PAUSE": "0.3"}
    done = traincheck(slow, "check", "--fail-fast", **late)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "eval mode" in done.stdout
    assert "at its first incident" in " ".join(done.stdout.split())
    words = ["-m", "pytest", "-q", "--traincheck", "--traincheck-fail-fast", "-p", "no:cacheprovider"]
    pytested = subprocess.run(
        [sys.executable, *words], cwd=slow, env=environment(late), capture_output=True, text=True, check=False
    )
    assert pytested.returncode == 1, pytested.stdout
    assert "eval mode" in pytested.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("run", "tiny", "--on-incident=checkpoint"), "does not say how a checkpoint is asked for"),
        (("run", "tinny"), "configures no pipeline 'tinny'"),
        (("run", "tiny", "--golden", "nowhere", "--", "python", "train.py"), "nowhere"),
        (
            ("run", "--golden", "golden_invariants/none.jsonl", "--", "python", "train.py"),
            "There is no golden 'golden_invariants/none.jsonl': no such file",
        ),
        (("run", "tiny", "--every", "0"), "no number of steps"),
        (("run", "tiny", "--share", "120"), "no percentage"),
        (("watch", "nothing", "golden_invariants/tiny.jsonl"), "there is no directory"),
    ],
)
def test_bad_input_is_one_clear_error(project: Path, words: Sequence[str], says: str) -> None:
    done = traincheck(project, *words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
