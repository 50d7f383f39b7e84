"""Pipelines and interpreters that misbehave: one clear error, the right exit status, nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from pytest_traincheck.cli import main
from pytest_traincheck.launch.environment import RUN_ID
from pytest_traincheck.launch.run import RunRequest, RunStatus, execute

Make = Callable[..., RunRequest]

DAEMON = """
import os, sys, time

# Everything by which a child is usually known: its parent, its session, its variables.
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        code = "import os, time; open(%r, 'w').write(str(os.getpid())); time.sleep(600)" % os.path.abspath("pid")
        os.execve(sys.executable, [sys.executable, "-I", "-c", code], {})
    os._exit(0)
os.wait()
while not (os.path.exists("pid") and open("pid").read()):
    time.sleep(0.02)
"""
# It costs seconds to wait for one that ignores SIGTERM; once is enough.
STUBBORN_DAEMON = DAEMON.replace("import os, time;", "import os, signal, time; signal.signal(15, signal.SIG_IGN);")


@dataclass(frozen=True)
class Fault:
    """A pipeline, and what is said of it."""

    program: str
    status: RunStatus = RunStatus.OK
    message: str = ""
    remedy: str = ""
    output: str = ""
    timeout: float = 60.0
    notes: int = 0


FAULTS = {
    "deletes its working directory": Fault("import os, shutil\nshutil.rmtree(os.getcwd())"),
    "deletes its working directory and fails": Fault(
        "import os, shutil, sys\nshutil.rmtree(os.getcwd())\nsys.exit('no such place')",
        RunStatus.FAILED, "ended with exit status 1", "last lines of output", "no such place",
    ),
    "closes all descriptors": Fault("import os\nos.closerange(0, 4096)"),
    "writes 100 MB": Fault("import sys\nfor _ in range(100): sys.stdout.write('x' * 1023 * 1024 + '\\n')\nsys.exit(3)",
        RunStatus.FAILED, "ended with exit status 3", "", "x ..."),
    "writes bytes that are no text": Fault(
        "import os, sys\nos.write(1, os.urandom(2**20) + b'\\nlast words')\nsys.exit(3)",
        RunStatus.FAILED, "ended with exit status 3", "", "last words",
    ),
    "reads from stdin": Fault("import sys\nassert sys.stdin.read() == ''"),
    "stops itself": Fault(
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        RunStatus.TIMEOUT, "stopped itself, or was stopped, and did not go on within 2 s", "SIGSTOP", timeout=2.0,
    ),
    "stops a child that it waits for": Fault(
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import os, signal; os.kill(os.getpid(), signal.SIGSTOP)'])",
        RunStatus.TIMEOUT, "stopped itself, or was stopped", "SIGSTOP", timeout=2.0,
    ),
    "forks a daemon": Fault(DAEMON, notes=1),
    "forks a daemon and hangs": Fault(
        STUBBORN_DAEMON + "\ntime.sleep(600)",
        RunStatus.TIMEOUT, "did not end within 3 s", "raise `timeout`", timeout=3.0,
    ),
    "forks a daemon and dies": Fault(
        DAEMON + "\nos.kill(os.getpid(), 9)", RunStatus.KILLED, "was killed by SIGKILL", "memory", notes=1
    ),
    "changes the terminal": Fault(
        "try:\n    open('/dev/tty')\nexcept OSError:\n    raise SystemExit(0)\nraise SystemExit('it has a terminal')"
    ),
    "ends its own process group": Fault(
        "import os, signal\nos.killpg(0, signal.SIGKILL)", RunStatus.KILLED, "was killed by SIGKILL", "memory"
    ),
    "kills whoever started it": Fault(
        "import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(600)",
        RunStatus.KILLED, "was killed by SIGKILL", "memory",
    ),
    "has children that ignore SIGTERM": Fault(
        "import os, signal, time\nos.fork(); os.fork()\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)",
        RunStatus.TIMEOUT, "did not end within 2 s", "raise `timeout`", timeout=2.0,
    ),
    "lacks a module": Fault(
        "import no_such_framework", RunStatus.FAILED, "has no module `no_such_framework`", "--candidate-python",
        "ModuleNotFoundError",
    ),
}  # fmt: skip


def processes_in(directory: Path) -> list[psutil.Process]:
    """Everything that works in a directory: what a pipeline has left, whatever it calls itself."""
    found = []
    for process in psutil.process_iter():
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            if alive and Path(process.cwd().removesuffix(" (deleted)")).is_relative_to(directory):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def happens(fault: Fault) -> str:
    """For a reader of the page of faults."""
    if fault.status is RunStatus.OK:
        return "the run goes through; " + (
            "what it left is ended and named in a note" if fault.notes else "nothing is left"
        )
    return f"exit status 3: *{fault.message}*; nothing is left"


@pytest.mark.fault(area="Runs", tried="a pipeline that {what}", happens="{expected}")
@pytest.mark.parametrize(("what", "expected"), [(what, happens(fault)) for what, fault in FAULTS.items()])
def test_a_pipeline_that(project: Path, request_for: Make, what: str, expected: str) -> None:
    assert expected
    fault = FAULTS[what]
    (project / "train.py").write_text(fault.program)
    outcome = execute(request_for("python train.py", timeout=fault.timeout))
    assert outcome.status is fault.status, outcome
    assert fault.message in outcome.message
    assert fault.remedy in outcome.remedy
    assert fault.output in outcome.output
    assert all(len(line) < 500 for line in outcome.output.splitlines())
    assert len(outcome.notes) == fault.notes
    assert json.loads((outcome.run_dir / "run.json").read_text())["status"] == fault.status.value
    assert processes_in(project) == []
    if "daemon" in what:
        assert not psutil.pid_exists(int((project / "pid").read_text()))


@pytest.mark.fault(
    area="Processes",
    tried="a daemon of a pipeline, started from a test session",
    happens="the session gets no child that it did not start",
)
def test_the_pipelines_are_no_children_of_the_caller(project: Path, request_for: Make) -> None:
    """The caller may be somebody's pytest, which waits for children of its own and for no others."""
    (project / "train.py").write_text(DAEMON)
    before = {child.pid for child in psutil.Process().children()}  # other tests of this session may have left some
    execute(request_for("python train.py"))
    assert {child.pid for child in psutil.Process().children()} <= before


@pytest.mark.fault(
    area="Processes", tried="a child of the test session's own, beside a pipeline", happens="it is left alone"
)
def test_a_child_of_the_caller_is_left_alone(project: Path, request_for: Make) -> None:
    (project / "train.py").write_text("print('done')")
    mine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        assert execute(request_for("python train.py")).notes == ()
        assert mine.poll() is None
    finally:
        mine.kill()
        mine.wait()


@pytest.mark.fault(
    area="Signals",
    tried="a signal that the caller ignores, as under nohup",
    happens="the pipeline ignores it too, and no other",
)
def test_signals_that_the_caller_ignores_are_ignored_by_the_pipeline_and_no_others(project: Path) -> None:
    (project / "train.py").write_text(
        "import signal\nprint([n for n in (1, 2, 15, 17) if signal.getsignal(n) is signal.SIG_IGN])"
    )
    program = (
        "import signal, sys\nfrom pathlib import Path\nfrom pytest_traincheck.launch.run import RunRequest, execute\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "run_dir = Path('run').absolute()\n"
        "execute(RunRequest('python train.py', cwd=Path.cwd(), run_dir=run_dir))\n"
        "print((run_dir / 'stdout.txt').read_text())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=project, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[1]"


@pytest.mark.fault(
    area="Names and paths",
    tried="a working directory and a variable that are no text in any encoding",
    happens="the pipeline gets them byte for byte",
)
def test_names_that_are_no_text_reach_the_pipeline(project: Path, request_for: Make) -> None:
    name = os.fsdecode(b"caf\xe9 \xff")
    (project / name).mkdir()
    (project / "train.py").write_text("import os\nprint(os.fsencode(os.environ['NAME']) == os.fsencode(os.getcwd()))")
    (project / "train.py").rename(project / name / "train.py")
    outcome = execute(request_for("python train.py", cwd=project / name, env={"NAME": str(project / name)}))
    assert outcome.status is RunStatus.OK, outcome
    assert (outcome.run_dir / "stdout.txt").read_text() == "True\n"


def other_python(tmp_path: Path, which: str) -> Path:
    """An interpreter that cannot be used."""
    path = tmp_path / "interpreter"
    if which == "is a directory":
        path.mkdir()
    elif which == "is not executable":
        path.write_text("#!/bin/sh\n")
    elif which == "is no program":
        path.write_bytes(b"\x7fELF nonsense")
        path.chmod(0o755)
    elif which == "is no Python":
        path.write_text("#!/bin/sh\necho a shell with $# words\n")
        path.chmod(0o755)
    elif which == "is Python 2.7":
        path.write_text("#!/bin/sh\necho traincheck-python 2.7\n")
        path.chmod(0o755)
    return path


@pytest.mark.fault(area="Runs", tried="an interpreter that {which}", happens="exit status 3: *{message}*")
@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("does not exist", "does not exist or is not executable"),
        ("is a directory", "is a directory"),
        ("is not executable", "does not exist or is not executable"),
        ("is no program", "cannot be executed: Exec format error"),
        ("is no Python", "is no Python: it says `a shell with 4 words`"),
        ("is Python 2.7", "is Python 2.7, and runs are observed in Python 3.8 and later"),
    ],
)
def test_an_interpreter_that(tmp_path: Path, request_for: Make, which: str, message: str) -> None:
    python = other_python(tmp_path, which)
    outcome = execute(request_for("python -c pass", python=str(python)))
    assert outcome.status is RunStatus.NOT_STARTED
    assert str(python) in outcome.message
    assert message in outcome.message
    assert "give the path of " in outcome.remedy.lower()


def test_a_python_2_of_this_machine(request_for: Make) -> None:
    found = sorted(Path.home().glob(".pyenv/versions/2.7.*/bin/python"))
    if not found:
        pytest.skip("there is no Python 2.7")
    outcome = execute(request_for("python -c pass", python=str(found[0])))
    assert outcome.status is RunStatus.NOT_STARTED
    assert "is Python 2.7" in outcome.message


@pytest.mark.fault(
    area="Runs", tried="an interpreter without torch", happens="exit status 3: *has no module `torch`*, and which"
)
def test_a_python_without_torch(tmp_path: Path, project: Path, request_for: Make) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    python = tmp_path / "bare" / "bin" / "python"
    (project / "train.py").write_text("import torch\n")
    outcome = execute(request_for("python train.py", python=str(python)))
    assert outcome.status is RunStatus.FAILED
    assert f"{python} has no module `torch`" in outcome.message
    assert "--golden-python" in outcome.remedy


def test_a_module_of_the_projects_own_is_not_to_be_installed(project: Path, request_for: Make) -> None:
    (project / "model.py").write_text("import model.layers\n")
    (project / "train.py").write_text("import model.layers\n")
    outcome = execute(request_for("python train.py"))
    assert outcome.status is RunStatus.FAILED
    assert "has no module" not in outcome.message


@pytest.mark.fault(area="Runs", tried="`{arguments}`", happens="*{message}*")
@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (
            "compare --golden . --candidate . --run 'python -c pass' --golden-python /no/such/python",
            3,
            "/no/such/python",
        ),
        ("compare --golden . --candidate . --run 'python -c pass' --golden-python .", 3, "is a directory"),
        ("compare --golden . --candidate . --run 'python -c 1/0'", 3, "ended with exit status 1"),
        ("compare --golden . --candidate . --run 'sleep 60' --timeout 0.5", 3, "did not end within 0.5 s"),
        ("collect --run 'python -c pass' --cwd absent --output trace", 2, "there is no such directory"),
        ("collect --run 'sleep 60' --timeout 0.5 --output trace", 3, "did not end within 0.5 s"),
    ],
)
def test_exit_statuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: str, status: int,
    message: str,
) -> None:  # fmt: skip
    from shlex import split

    monkeypatch.chdir(tmp_path)
    assert main(split(arguments)) == status
    captured = capsys.readouterr()
    assert message in " ".join((captured.out + captured.err).split())
    assert "Traceback" not in captured.err
    assert RUN_ID not in os.environ


@pytest.mark.parametrize("attempt", range(5))
def test_a_command_that_ends_at_once(request_for: Make, attempt: int) -> None:
    """Its end is told together with its start."""
    outcome = execute(request_for("/bin/true", timeout=60.0, seed=attempt))
    assert outcome.status is RunStatus.OK, outcome
