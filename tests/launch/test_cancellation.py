"""A command that is cancelled or killed while a pipeline is running: nothing of the pipeline goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

PATIENCE_S = 120.0
"""Longer than anything takes on a busy machine; nothing waits for it in vain but a failing test."""

CONFIGURATION = """
[tool.traincheck.pipelines.net]
run = "python train.py"
seeds = [0, 1]
"""

# The second one is a daemon without a variable of ours, in a session of its own, whose parents have gone.
PIPELINE = """
import os, signal, sys, time

if "STUBBORN" in os.environ:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        code = "import time; time.sleep(600)"
        here = os.open(os.environ["PIDS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(here, f"daemon {os.getpid()}\\n".encode())
        os.execve(sys.executable, [sys.executable, "-I", "-c", code], {})
    os._exit(0)
os.wait()
here = os.open(os.environ["PIDS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(here, f"command {os.getpid()}\\n".encode())
time.sleep(600)
"""

COMMANDS = {
    "compare": "compare --golden HEAD~ --candidate . --run 'python train.py'",
    "check": "check",
    "check of a commit": "check --golden HEAD~",
    "refresh": "refresh",
    "refresh of a commit": "refresh --golden HEAD~",
    "collect": "collect --run 'python train.py' --output trace",
    "selftest": "selftest",
    "upgrade": "upgrade --python ../environment/bin/python --golden HEAD~",
    "bisect": "bisect net --good HEAD~ --bad HEAD",
}


@dataclass
class Cancelled:
    """A command in a repository, with temporary directories of its own."""

    repository: Path
    process: subprocess.Popen[bytes]
    temporary: Path
    pids: Path

    def pipeline(self, runs: int = 1) -> list[psutil.Process]:
        """The command and its daemon, once they run; of so many runs at a time."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            lines = sorted(self.pids.read_text().splitlines()) if self.pids.exists() else []
            if len(lines) == 2 * runs:
                return [psutil.Process(int(line.split()[1])) for line in lines]
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        output = self.process.communicate()[0].decode()
        pytest.fail(f"the pipeline did not start: {output}")

    def left(self) -> list[str]:
        return sorted(path.name for path in self.temporary.iterdir() if path.name.startswith("traincheck-"))


def wait_until(said: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, said
        time.sleep(0.05)


def is_gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


Start = Callable[..., Cancelled]


@pytest.fixture
def start(tmp_path: Path, repository: Path, git: Callable[..., str]) -> Iterator[Start]:
    """Starts a command in a repository whose pipeline hangs."""
    (repository / "pyproject.toml").write_text(CONFIGURATION)
    (repository / "train.py").write_text(PIPELINE)
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "a pipeline")
    (repository / "later.txt").write_text("later")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "later")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    started: list[subprocess.Popen[bytes]] = []

    def begin(command: str, *, stubborn: bool = False) -> Cancelled:
        from shlex import split

        pids = tmp_path / f"pids{len(started)}"
        environment = {
            **os.environ,
            "TMPDIR": str(temporary),
            "TRAINCHECK_CACHE_DIR": str(tmp_path / "cache"),
            "PIDS": str(pids),
            **({"STUBBORN": "1"} if stubborn else {}),
        }
        program = ["pytest"] if command.startswith("pytest") else ["pytest_traincheck"]
        words = [sys.executable, "-m", *program, *split(command.removeprefix("pytest "))]
        process = subprocess.Popen(
            words, cwd=repository, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            # Where the tests run the signals may be ignored, as under nohup.
            preexec_fn=lambda: [signal.signal(each, signal.SIG_DFL) for each in (1, 2, 15)] and None,
        )  # fmt: skip
        started.append(process)
        return Cancelled(repository, process, temporary, pids)

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def give_golden(repository: Path) -> None:
    """A golden without rules: nothing is checked before the pipeline has run."""
    from pytest_traincheck.config import PipelineSpec
    from pytest_traincheck.golden import store
    from pytest_traincheck.golden.model import Golden

    spec = PipelineSpec("net", "python train.py").fingerprint()
    store.write(repository / "golden_invariants" / "net.jsonl", Golden("net", spec, (), "", {}, (0, 1), 2))


SIGNALS = {"Ctrl-C": (signal.SIGINT, 130), "SIGTERM": (signal.SIGTERM, 143), "SIGHUP": (signal.SIGHUP, 129)}


def each_with_some(firsts: Iterable[str], seconds: Sequence[str]) -> list[Any]:
    """All pairs; those with the first of all are tried always, and one with each other. The rest is swept."""
    return [
        pytest.param(first, second, marks=[] if number == 0 or number % len(seconds) == place else pytest.mark.sweep)
        for number, first in enumerate(firsts)
        for place, second in enumerate(seconds)
    ]


@pytest.mark.slow
@pytest.mark.fault(
    area="Processes",
    tried="{name} during `traincheck` {command}, with a daemon in a session of its own and an empty environment",
    happens="the pipeline and the daemon end, nothing temporary is left, exit status 128 + signal",
)
@pytest.mark.parametrize(("command", "name"), each_with_some(COMMANDS, list(SIGNALS)))
def test_cancelled_commands_leave_nothing(start: Start, repository: Path, command: str, name: str) -> None:
    give_golden(repository)
    if command == "upgrade":
        venv.create(repository.parent / "environment")
    cancelled = start(COMMANDS[command])
    pipeline = cancelled.pipeline()
    number, status = SIGNALS[name]
    cancelled.process.send_signal(number)
    output = cancelled.process.communicate(timeout=PATIENCE_S)[0].decode()
    assert cancelled.process.returncode == status, output
    assert "Traceback" not in output
    assert all(is_gone(process) for process in pipeline)
    assert cancelled.left() == []


@pytest.mark.fault(
    area="Processes",
    tried="{name} during `{command}`, while two runs are under way",
    happens="both and their daemons end; no temporary directory, worktree or golden is left",
)
@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("refresh --jobs 2", "SIGTERM"),
        ("check --golden HEAD~ --jobs 2", "Ctrl-C"),
        ("pytest --traincheck-refresh --traincheck-jobs 2", "SIGTERM"),
        ("pytest --traincheck-refresh --traincheck-jobs 2", "Ctrl-C"),
    ],
)
def test_two_runs_at_a_time_end_together(
    start: Start, repository: Path, git: Callable[..., str], command: str, name: str
) -> None:
    give_golden(repository)
    golden = (repository / "golden_invariants" / "net.jsonl").read_bytes()
    cancelled = start(f"{command} -p no:cacheprovider" if "pytest" in command else command)
    pipeline = cancelled.pipeline(2)
    number, status = SIGNALS[name]
    cancelled.process.send_signal(number)
    output = cancelled.process.communicate(timeout=PATIENCE_S)[0].decode()
    assert cancelled.process.returncode == (2 if "pytest" in command and name == "Ctrl-C" else status), output
    assert all(is_gone(process) for process in pipeline)
    assert cancelled.left() == []
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert (repository / "golden_invariants" / "net.jsonl").read_bytes() == golden


@pytest.mark.fault(
    area="Processes",
    tried="a second and a third Ctrl-C during {command}, while a pipeline that ignores SIGTERM is ended",
    happens="it is ended all the same, nothing temporary is left, exit status 130",
)
@pytest.mark.parametrize("command", ["check", "check of a commit"])
def test_a_second_interrupt_does_not_leave_the_pipeline_running(
    start: Start, repository: Path, git: Callable[..., str], command: str
) -> None:
    """A pipeline that ignores SIGTERM takes seconds to end: time for a second and a third Ctrl-C."""
    give_golden(repository)
    cancelled = start(COMMANDS[command], stubborn=True)
    pipeline = cancelled.pipeline()
    for _ in range(3):
        cancelled.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    output = cancelled.process.communicate(timeout=PATIENCE_S)[0].decode()
    assert cancelled.process.returncode == 130, output
    assert output.splitlines()[-1] == "traincheck: interrupted"
    assert all(is_gone(process) for process in pipeline)
    assert cancelled.left() == []
    assert len(git(repository, "worktree", "list").splitlines()) == 1


@pytest.mark.fault(
    area="Processes",
    tried="SIGKILL to {command}",
    happens="the pipeline and its daemon end; the next command removes the temporary directories, and no others",
)
@pytest.mark.parametrize(
    "command",
    [
        "check",
        "check of a commit",
        *(pytest.param(c, marks=[pytest.mark.slow, pytest.mark.sweep]) for c in ("selftest", "pytest --traincheck")),
    ],
)
def test_a_killed_command_takes_its_pipeline_with_it_and_the_next_one_cleans_up(
    start: Start, repository: Path, git: Callable[..., str], command: str
) -> None:
    give_golden(repository)
    killed = start(COMMANDS.get(command, command))
    pipeline = killed.pipeline()
    killed.process.kill()
    wait_until("the pipeline goes on without the command", lambda: all(map(is_gone, pipeline)))
    left = killed.left()
    assert left
    # What is not ours, and what is still in use, stays.
    (killed.temporary / "traincheck-mine").mkdir()
    (killed.temporary / "traincheck-mine" / ".lock").write_text("a lock of my own")
    following = start(COMMANDS["check"])
    following.pipeline()
    assert not set(killed.left()) & set(left)
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    another = start(COMMANDS["check"])
    another.pipeline()
    assert len(killed.left()) == 3
    for each in (following, another):
        each.process.terminate()
        each.process.communicate(timeout=PATIENCE_S)
    assert killed.left() == ["traincheck-mine"]


@pytest.mark.slow
@pytest.mark.fault(area="Processes", tried="{name} during `{command}`", happens="the pipeline and its daemon end")
@pytest.mark.parametrize(
    ("name", "command"),
    each_with_some(
        ["SIGTERM", "Ctrl-C twice", "SIGHUP"],
        ["pytest --traincheck-refresh", "pytest --traincheck", "pytest --traincheck -n 1"],
    ),
)
def test_a_cancelled_pytest_leaves_no_pipeline(start: Start, repository: Path, command: str, name: str) -> None:
    if "-n" in command:
        pytest.importorskip("xdist")
    give_golden(repository)
    cancelled = start(f"{command} -p no:cacheprovider", stubborn="twice" in name)
    pipeline = cancelled.pipeline()
    number = SIGNALS.get(name, SIGNALS["Ctrl-C"])[0]
    for _ in range(2 if "twice" in name else 1):
        cancelled.process.send_signal(number)
        time.sleep(0.3)
    cancelled.process.communicate(timeout=PATIENCE_S)
    wait_until("the pipeline goes on", lambda: all(map(is_gone, pipeline)))


@pytest.mark.fault(
    area="Processes",
    tried="the process between the tool and the pipeline is killed",
    happens="the pipeline ends too; exit status 3",
)
def test_the_pipeline_ends_when_its_supervisor_is_killed(start: Start, repository: Path) -> None:
    give_golden(repository)
    command = start(COMMANDS["check"])
    pipeline = command.pipeline()
    supervisor = pipeline[0].parent()
    assert supervisor is not None
    assert "supervisor.py" in " ".join(supervisor.cmdline())
    supervisor.kill()
    output = command.process.communicate(timeout=PATIENCE_S)[0].decode()
    assert command.process.returncode == 3
    assert "was killed by SIGKILL" in output
    assert is_gone(pipeline[0])
    # Nobody is left who could tell whose child this was.
    pipeline[1].kill()
