"""Runs of real commands: what becomes of them, and that nothing of them is left."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pytest_traincheck.launch import process
from pytest_traincheck.launch.environment import BOOTSTRAP
from pytest_traincheck.launch.metadata import read_environment
from pytest_traincheck.launch.run import RunRequest, RunStatus, execute

Make = Callable[..., RunRequest]


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_run_gets_its_seed_its_variables_and_the_probe(project: Path, request_for: Make) -> None:
    (project / "train.py").write_text(
        "import json, os, sys\n"
        "names = ['TRAINCHECK_TRACE_DIR', 'TRAINCHECK_SEED', 'SEED', 'MODE', 'FRONT', 'PYTHONPATH']\n"
        "print(json.dumps({'argv': sys.argv, 'env': {n: os.environ.get(n) for n in names}, 'cwd': os.getcwd()}))\n"
    )
    (project / "src").mkdir()
    request = request_for(
        "FRONT='a b' python train.py --steps 8",
        seed=3,
        seed_arg="--seed {seed}",
        seed_env="SEED",
        extra_args="--name 'two words'",
        env={"MODE": "fast", "PYTHONPATH": "/somewhere"},
        source_root=project,
    )
    outcome = execute(request)
    assert outcome.status is RunStatus.OK, outcome
    assert (outcome.exit_code, outcome.message, outcome.notes) == (0, "", ())
    said = json.loads((request.run_dir / "stdout.txt").read_text())
    assert said["argv"] == ["train.py", "--steps", "8", "--seed", "3", "--name", "two words"]
    env = said["env"]
    assert env["TRAINCHECK_TRACE_DIR"] == str(request.run_dir)
    assert (env["TRAINCHECK_SEED"], env["SEED"], env["MODE"], env["FRONT"]) == ("3", "3", "fast", "a b")
    assert env["PYTHONPATH"].split(os.pathsep) == [str(BOOTSTRAP), str(project), str(project / "src"), "/somewhere"]
    record = json.loads((request.run_dir / "run.json").read_text())
    assert record["status"] == "ok"
    assert record["argv"][0] == sys.executable
    assert (record["seed"], record["exit_code"], record["command"]) == (3, 0, request.command)


def test_a_failing_run_shows_the_last_lines_of_both_outputs(request_for: Make) -> None:
    code = "import sys; print('epoch 1'); print('\\x1b[31mbad loss\\x1b[0m', file=sys.stderr); sys.exit(1)"
    outcome = execute(request_for(f'python -c "{code}"', seed=2))
    assert (outcome.status, outcome.exit_code) == (RunStatus.FAILED, 1)
    assert "candidate run of" in outcome.message
    assert "(seed 2) ended with exit status 1" in outcome.message
    assert str(outcome.run_dir) in outcome.remedy
    assert "--- stdout, last lines ---\nepoch 1" in outcome.output
    assert "--- stderr, last lines ---\nbad loss" in outcome.output


def test_a_run_that_is_killed_half_way(project: Path, request_for: Make) -> None:
    (project / "train.py").write_text(
        "import os, signal\nprint('step 4', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    outcome = execute(request_for("python train.py"))
    assert (outcome.status, outcome.exit_code) == (RunStatus.KILLED, -signal.SIGKILL)
    assert "was killed by SIGKILL" in outcome.message
    assert "memory" in outcome.remedy
    assert "step 4" in outcome.output


def test_a_kill_below_a_shell_script_is_told_as_a_kill(project: Path, request_for: Make) -> None:
    (project / "train.sh").write_text("python -c 'import os; os.kill(os.getpid(), 9)'\n")
    outcome = execute(request_for("sh train.sh"))
    assert outcome.status is RunStatus.KILLED
    assert "SIGKILL" in outcome.message


@pytest.mark.slow
@pytest.mark.sweep
def test_a_hanging_run_is_stopped_with_grandchildren_in_other_sessions(project: Path, request_for: Make) -> None:
    (project / "worker.py").write_text(
        "import os, pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    (project / "train.py").write_text(
        "import subprocess, sys, time\n"
        "# The first stays a child; the second becomes a daemon whose parent has gone.\n"
        "subprocess.Popen([sys.executable, 'worker.py', 'child.pid'], start_new_session=True)\n"
        "subprocess.run(['sh', '-c', f'setsid {sys.executable} worker.py daemon.pid & exit 0'])\n"
        "time.sleep(600)\n"
    )
    beats: list[float] = []
    started = time.monotonic()
    outcome = execute(request_for("python train.py", timeout=6.0), beats.append)
    assert outcome.status is RunStatus.TIMEOUT
    assert "did not end within 6 s" in outcome.message
    assert "raise `timeout`" in outcome.remedy
    assert beats
    assert time.monotonic() - started < 60
    for name in ("child.pid", "daemon.pid"):
        assert gone(int((project / name).read_text())), name


def test_a_process_left_behind_by_a_good_run_is_ended_and_told(project: Path, request_for: Make) -> None:
    (project / "train.sh").write_text("setsid sleep 600 &\necho $! > pid\nexit 0\n")
    outcome = execute(request_for("sh train.sh"))
    assert outcome.status is RunStatus.OK
    assert len(outcome.notes) == 1
    assert "`sleep 600`" in outcome.notes[0]
    assert gone(int((project / "pid").read_text()))


def test_an_interrupt_ends_the_run_and_goes_on(project: Path, request_for: Make) -> None:
    (project / "train.py").write_text(
        "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(600)\n"
    )

    def interrupt(_seconds: float) -> None:
        if (project / "pid").exists() and (project / "pid").read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(request_for("python train.py"), interrupt)
    assert gone(int((project / "pid").read_text()))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-program --steps 8", "no program `no-such-program`"),
        ("./no_such_script.sh", "`./no_such_script.sh` does not exist"),
        ("./plain.sh", "is not executable"),
        ("./broken.sh", "cannot be executed"),
        ("python 'train.py", "cannot be split"),
        ("  ", "is empty"),
        ("SEED=1", "is empty"),
        ("python a\0b", "NUL"),
    ],
)
def test_what_cannot_be_started(project: Path, request_for: Make, command: str, said: str) -> None:
    (project / "plain.sh").write_text("exit 0\n")
    broken = project / "broken.sh"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    outcome = execute(request_for(command))
    assert outcome.status is RunStatus.NOT_STARTED
    assert outcome.exit_code is None
    assert said in outcome.message
    assert outcome.remedy.endswith(".")


def test_a_missing_directory_or_interpreter_is_named(project: Path, request_for: Make) -> None:
    outcome = execute(request_for("python train.py", cwd=project / "absent"))
    assert outcome.status is RunStatus.NOT_STARTED
    assert str(project / "absent") in outcome.message
    outcome = execute(request_for("python train.py", python="/no/such/python"))
    assert outcome.status is RunStatus.NOT_STARTED
    assert "/no/such/python" in outcome.message


def test_a_run_directory_that_cannot_be_made(tmp_path: Path, request_for: Make) -> None:
    (tmp_path / "file").write_text("in the way")
    outcome = execute(request_for("python -c pass", run_dir=tmp_path / "file" / "run"))
    assert outcome.status is RunStatus.NOT_STARTED
    assert str(tmp_path / "file" / "run") in outcome.message
    assert "make room" in outcome.remedy.lower()


def test_a_pipeline_that_deletes_its_directory_and_its_run(project: Path, request_for: Make) -> None:
    code = (
        "import os, shutil; print('gone'); "
        "shutil.rmtree(os.getcwd()); shutil.rmtree(os.environ['TRAINCHECK_TRACE_DIR'])"
    )
    outcome = execute(request_for(f'python -c "{code}"'))
    assert outcome.status is RunStatus.FAILED
    assert "deleted" in outcome.message
    assert "gone" in outcome.output
    assert not project.exists()


def test_a_record_that_cannot_be_written_is_told(request_for: Make) -> None:
    code = "import os; f = os.environ['TRAINCHECK_TRACE_DIR'] + '/run.json'; os.remove(f); os.mkdir(f)"
    outcome = execute(request_for(f'python -c "{code}"'))
    assert outcome.status is RunStatus.FAILED
    assert "run.json cannot be written" in outcome.message
    assert "Make room" in outcome.remedy
    assert sorted(path.name for path in outcome.run_dir.iterdir()) == ["run.json", "stderr.txt", "stdout.txt"]


def test_garbage_on_stdout_is_kept_and_shown_harmlessly(request_for: Make) -> None:
    code = (
        "import os, sys; os.write(1, bytes(range(256)) + b'\\n'); "
        "os.write(2, b'0%\\r50%\\r100%\\n\\x1b]0;title\\x07ok\\n'); sys.exit(4)"
    )
    request = request_for(f'python -c "{code}"'.replace("\\", "\\\\"))
    outcome = execute(request)
    assert outcome.exit_code == 4, outcome
    assert (request.run_dir / "stdout.txt").read_bytes() == bytes(range(256)) + b"\n"
    assert not any(ord(character) < 32 and character not in "\n\t" for character in outcome.output)
    assert "100%\nok" in outcome.output
    assert "50%" not in outcome.output


def test_endless_output_cannot_fill_the_disk(request_for: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "OUTPUT_LIMIT", 4 * 2**20)
    outcome = execute(request_for("python -c 'while True: print(\"x\" * 10000)'"))
    assert outcome.status is RunStatus.KILLED
    assert "of output and was stopped" in outcome.message
    assert len(outcome.output) < 40 * 500


def test_a_shell_line_runs_as_typed(project: Path, request_for: Make) -> None:
    (project / "deep").mkdir()
    (project / "deep" / "train.py").write_text("import os, sys\nprint(sys.argv[1:], os.environ['KEY'])\n")
    request = request_for("cd deep && KEY=$((1 + 1)) python train.py", seed=7, seed_arg="--seed {seed}")
    outcome = execute(request)
    assert outcome.status is RunStatus.OK, outcome
    assert (request.run_dir / "stdout.txt").read_text() == "['--seed', '7'] 2\n"


def test_a_run_directory_is_fresh_but_other_files_stay(tmp_path: Path, request_for: Make) -> None:
    assert execute(request_for("python -c pass")).status is RunStatus.OK
    old = tmp_path / "run" / "proc-1-1"
    old.mkdir(parents=True)
    (old / "meta.json").write_text("{}")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    assert execute(request_for("python -c pass")).status is RunStatus.OK
    assert not old.exists()
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


ABORT = "terminate called without an active exception"


def write_aborting(project: Path, times: int, ending: str) -> None:
    (project / "train.py").write_text(
        "import os, pathlib, signal, sys\n"
        "count = pathlib.Path('count')\n"
        "n = int(count.read_text()) + 1 if count.exists() else 1\n"
        "count.write_text(str(n))\n"
        "print('attempt', n)\n"
        "sys.stdout.flush()\n"
        f"if n <= {times}:\n"
        f"    print('{ABORT}', file=sys.stderr, flush=True)\n"
        f"    {ending}\n"
    )


@pytest.mark.parametrize(
    "ending",
    [
        "os.abort()",
        "sys.exit(134)",
        "print('Root Cause (first observed failure):\\n  exitcode  : -6 (pid: 12)', file=sys.stderr); sys.exit(1)",
        "print('process 0 terminated with signal SIGABRT', file=sys.stderr); sys.exit(1)",
    ],
)
def test_an_abort_in_teardown_is_retried_once_and_told(project: Path, request_for: Make, ending: str) -> None:
    write_aborting(project, 1, ending)
    outcome = execute(request_for("python train.py"))
    assert outcome.status is RunStatus.OK
    assert "was run once more" in outcome.notes[0]
    assert (outcome.run_dir / "stdout.txt").read_text() == "attempt 2\n"


def test_a_second_abort_is_a_failure(project: Path, request_for: Make) -> None:
    write_aborting(project, 9, "os.abort()")
    outcome = execute(request_for("python train.py"))
    assert outcome.status is RunStatus.KILLED
    assert "was run once more" in outcome.notes[0]
    assert (project / "count").read_text() == "2"


def test_an_ordinary_failure_is_not_retried(project: Path, request_for: Make) -> None:
    write_aborting(project, 9, "sys.exit(1)")
    outcome = execute(request_for("python train.py"))
    assert outcome.status is RunStatus.FAILED
    assert not outcome.notes
    assert (project / "count").read_text() == "1"


def write_meta(run_dir: str, **content: object) -> str:
    """Code that leaves the record of a process, as the probe does."""
    return (
        f"import json, os, pathlib; d = pathlib.Path({run_dir}) / 'proc-9-9'; d.mkdir(); "
        f"(d / 'meta.json').write_text(json.dumps({content!r}))"
    )


def test_a_run_that_imports_the_other_sides_code_fails(tmp_path: Path, project: Path, request_for: Make) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "model.py").write_text("")
    meta = write_meta(
        "os.environ['TRAINCHECK_TRACE_DIR']", modules=[str(other / "model.py"), str(project / "train.py")]
    )
    (project / "train.py").write_text(meta)
    request = request_for("python train.py", source_root=project, forbidden_roots=(other,), side="golden")
    outcome = execute(request)
    assert outcome.status is RunStatus.FAILED
    assert f"golden run imported {other / 'model.py'}" in outcome.message
    assert "editable install" in outcome.remedy
    assert execute(request_for("python train.py", source_root=project)).status is RunStatus.OK


def test_the_environment_is_read_from_what_the_processes_recorded(project: Path, request_for: Make) -> None:
    versions = {"python": "3.11.7", "torch": "2.13.0"}
    (project / "train.py").write_text(
        write_meta("os.environ['TRAINCHECK_TRACE_DIR']", rank=0, versions=versions, platform="linux-x86_64-cpu")
    )
    outcome = execute(request_for("python train.py"))
    assert read_environment(outcome.run_dir) == {"platform": "linux-x86_64-cpu", **versions}
    assert read_environment(project) == {}


DDP = """
import os, pathlib, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
pathlib.Path(f"pid{rank}").write_text(str(os.getpid()))
dist.barrier()
if rank == 1:
    if sys.argv[1] == "kill":
        os.kill(os.getpid(), 9)
    raise RuntimeError("the loss exploded")
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "what"), [("kill", "a worker was killed by SIGKILL"), ("raise", "a worker ended with exit status 1")]
)
def test_a_failing_rank_of_torchrun_is_the_cause_told(project: Path, request_for: Make, mode: str, what: str) -> None:
    pytest.importorskip("torch")
    (project / "train.py").write_text(DDP)
    command = f"torchrun --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint localhost:0 train.py {mode}"
    outcome = execute(request_for(command, env={"OMP_NUM_THREADS": "1"}, timeout=120.0))
    assert (outcome.status, outcome.exit_code) == (RunStatus.FAILED, 1)
    assert what in outcome.message
    assert ("RuntimeError: the loss exploded" in outcome.output) == (mode == "raise")
    assert all(gone(int((project / name).read_text())) for name in ("pid0", "pid1"))


@pytest.mark.slow
def test_a_hanging_torchrun_is_stopped_with_its_workers(project: Path, request_for: Make) -> None:
    """The workers of torchrun start sessions of their own."""
    pytest.importorskip("torch")
    # They hang before they import torch, so that the time limit need not leave room for that.
    (project / "train.py").write_text(
        "import os, pathlib, time\npathlib.Path('pid' + os.environ['RANK']).write_text(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    command = "torchrun --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint localhost:0 train.py"
    outcome = execute(request_for(command, env={"OMP_NUM_THREADS": "1"}, timeout=12.0))
    assert outcome.status is RunStatus.TIMEOUT
    assert all(gone(int((project / name).read_text())) for name in ("pid0", "pid1"))
