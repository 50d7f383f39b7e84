"""One process tree: start it, wait for it, and leave nothing of it behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import psutil

from pytest_traincheck.launch.environment import RUN_ID

Progress = Callable[[float], None]

OUTPUT_LIMIT = 2**30
"""Bytes a run may write to stdout or stderr before it is ended, so that it cannot fill the disk."""

_POLL = 0.1
_REPORT_EVERY = 0.5
# Helpers such as the resource tracker of multiprocessing end by themselves once their parent is gone, and tidy up
# shared memory while they do.
_LINGER = 2.0
_GRACE = 5.0
_ROUNDS = 5


@dataclass(frozen=True)
class Ended:
    """How a process tree ended. `exit_code` is negative for a signal, as in `subprocess`."""

    exit_code: int | None
    seconds: float
    timed_out: bool = False
    too_much_output: bool = False
    left_over: tuple[str, ...] = ()
    """Names of processes that were still there afterwards and had to be ended."""


def run_tree(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdout: BinaryIO,
    stderr: BinaryIO,
    timeout: float,
    progress: Progress | None = None,
) -> Ended:
    """Run `argv` until it ends or `timeout` seconds have passed; afterwards none of its processes is left.

    `env` must carry `TRAINCHECK_RUN_ID`: by it processes are found that have left the session of the command.
    Raises `OSError` when the command cannot be started. Whatever `progress` raises ends the tree and goes on.
    """
    started = time.monotonic()
    born = time.time()
    process = subprocess.Popen(  # the words come from the user's own configuration
        argv, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
    )
    tree = _Tree(process.pid, env[RUN_ID], born)
    try:
        timed_out, too_much = _wait(process, started, timeout, (stdout, stderr), progress)
        seconds = time.monotonic() - started
        if timed_out or too_much:
            tree.end(_GRACE)
            process.wait()
            return Ended(process.returncode, seconds, timed_out, too_much)
        left_over = tree.names_after(_LINGER)
        return Ended(process.returncode, seconds, left_over=left_over)
    finally:
        tree.end(_GRACE)
        process.wait()


def _wait(
    process: subprocess.Popen[bytes],
    started: float,
    timeout: float,
    outputs: Sequence[BinaryIO],
    progress: Progress | None,
) -> tuple[bool, bool]:
    """Wait for the command itself. Returns whether it timed out and whether it wrote too much."""
    next_report = 0.0
    while True:
        elapsed = time.monotonic() - started
        if elapsed >= timeout:
            return process.poll() is None, False
        if progress is not None and elapsed >= next_report:
            progress(elapsed)
            next_report = elapsed + _REPORT_EVERY
        try:
            process.wait(timeout=min(_POLL, timeout - elapsed))
        except subprocess.TimeoutExpired:
            if any(os.fstat(output.fileno()).st_size > OUTPUT_LIMIT for output in outputs):
                return False, True
        else:
            return False, False


class _Tree:
    """The processes of one run: below the leader, in its session, or carrying the run's id."""

    def __init__(self, leader: int, run_id: str, born: float) -> None:
        self._leader = leader
        self._run_id = run_id
        # The clock of process start times ticks coarsely.
        self._born = born - 2.0

    def alive(self) -> list[psutil.Process]:
        found: dict[int, psutil.Process] = {}
        try:
            below = {child.pid for child in psutil.Process(self._leader).children(recursive=True)}
        except psutil.Error:
            below = set()
        for process in psutil.process_iter():
            try:
                if process.create_time() < self._born or process.status() == psutil.STATUS_ZOMBIE:
                    continue
                if process.pid == self._leader or process.pid in below or self._is_ours(process):
                    found[process.pid] = process
            except (psutil.Error, OSError):
                continue
        found.pop(os.getpid(), None)
        return list(found.values())

    def _is_ours(self, process: psutil.Process) -> bool:
        if os.getsid(process.pid) == self._leader:
            return True
        return process.environ().get(RUN_ID) == self._run_id

    def names_after(self, linger: float) -> tuple[str, ...]:
        """Names of what is still alive after giving it `linger` seconds to end by itself."""
        deadline = time.monotonic() + linger
        alive = self.alive()
        if not alive:
            # A process that is just starting another program has no environment for a moment, and is not recognised.
            time.sleep(0.05)
            alive = self.alive()
        while alive and time.monotonic() < deadline:
            time.sleep(0.05)
            alive = self.alive()
        return tuple(sorted(_name(process) for process in alive))

    def end(self, grace: float) -> None:
        """SIGTERM to all, SIGKILL to what is left after `grace` seconds."""
        if not self._signal(signal.SIGTERM):
            return
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline:
            if not self.alive():
                return
            time.sleep(0.05)
        # A process may have forked between the look and the signal; a few rounds settle that.
        for _ in range(_ROUNDS):
            if not self._signal(signal.SIGKILL):
                return
            time.sleep(0.05)

    def _signal(self, number: signal.Signals) -> bool:
        alive = self.alive()
        for process in alive:
            try:
                process.send_signal(number)
            except psutil.Error:
                continue
        return bool(alive)


def _name(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()[:3]) or process.name()
    except psutil.Error:
        return f"process {process.pid}"
