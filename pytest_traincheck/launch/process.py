"""One process tree: start it, wait for it, and leave nothing of it behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import psutil

from pytest_traincheck.launch import supervisor
from pytest_traincheck.launch.environment import RUN_ID

Progress = Callable[[float], None]

OUTPUT_LIMIT = 2**30
"""Bytes a run may write to stdout or stderr before it is ended, so that it cannot fill the disk."""

_POLL = 0.1
_REPORT_EVERY = 0.5
# Helpers such as the resource tracker of multiprocessing end by themselves once their parent is gone, and tidy up
# shared memory while they do.
_LINGER = 2.0
_GRACE = supervisor.GRACE_S
_ROUNDS = 5
# Seconds beyond the grace that ending everything may take.
_PATIENCE = 10.0


@dataclass(frozen=True)
class Ended:
    """How a process tree ended. `exit_code` is negative for a signal, as in `subprocess`."""

    exit_code: int | None
    seconds: float
    timed_out: bool = False
    too_much_output: bool = False
    left_over: tuple[str, ...] = ()
    """Names of processes that were still there afterwards and had to be ended."""
    stopped: bool = False
    """With `timed_out`: it was not running any more but stopped, as by SIGSTOP."""


def run_tree(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdout: BinaryIO,
    stderr: BinaryIO,
    timeout: float,
    progress: Progress | None = None,
    started: Callable[[int], None] | None = None,
    limits_output: bool = True,
    attached: bool = False,
) -> Ended:
    """Run `argv` until it ends or `timeout` seconds have passed; afterwards none of its processes is left.

    They are ended too when this process is killed; see `supervisor`. `env` must carry `TRAINCHECK_RUN_ID`: where the
    system does not let a process adopt others, by it processes are found that have left the session of the command.
    `started` is told the process id of the command, which leads a process group of its own. With `limits_output` one
    that writes more than `OUTPUT_LIMIT` to a file is ended. One that is `attached` has the standard input of this
    process, and the descriptors that this one was handed.
    Raises `OSError` when the command cannot be started. Whatever `progress` raises ends the tree and goes on.
    """
    born = time.time()
    supervised = _Supervised(stdout, stderr, attached=attached)
    tree = None
    try:
        pid, adopts = supervised.start(argv, cwd, env)
        begun = time.monotonic()
        tree = _Tree(supervised.pid, pid, env[RUN_ID], born, adopts=adopts)
        if started is not None:
            started(pid)
        outputs = (stdout, stderr) if limits_output else ()
        timed_out, too_much = _wait(supervised, begun, timeout, outputs, progress)
        seconds = time.monotonic() - begun
        if timed_out or too_much:
            stopped = timed_out and tree.is_stopped()
            supervised.end()
            return Ended(supervised.exit_code, seconds, timed_out, too_much, stopped=stopped)
        left_over = tree.names_after(_LINGER)
        return Ended(supervised.exit_code, seconds, left_over=left_over)
    finally:
        # Whatever is raised meanwhile, a second interrupt for instance: the end of the connection is enough.
        supervised.end()
        if tree is not None:
            tree.end(_GRACE)


def _wait(
    supervised: _Supervised,
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
            return not supervised.has_ended(0.0), False
        if progress is not None and elapsed >= next_report:
            progress(elapsed)
            next_report = elapsed + _REPORT_EVERY
        if supervised.has_ended(min(_POLL, timeout - elapsed)):
            return False, False
        if any(os.fstat(output.fileno()).st_size > OUTPUT_LIMIT for output in outputs):
            return False, True


def _inheritable() -> list[int]:
    """The descriptors beyond the first three that this process was handed to hand on: none that Python opened is."""
    try:
        numbers = [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
    except OSError:
        return []  # no Linux
    found = []
    for number in sorted(numbers):
        with contextlib.suppress(OSError):  # the one that the folder was read through
            if number > 2 and os.get_inheritable(number):
                found.append(number)
    return found


class _Supervised:
    """A command below a `supervisor`, and the connection on which that says what becomes of it."""

    def __init__(self, stdout: BinaryIO, stderr: BinaryIO, *, attached: bool) -> None:
        self._handed_on = _inheritable() if attached else []
        self._control, theirs = socket.socketpair()
        self._unread = b""
        self._started: dict[str, Any] = {}
        self._closed = False
        self._exit_code: int | None = None
        with theirs:
            try:
                # Isolated and without `site`: no variable and no file of the user's has a say in it.
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", supervisor.__file__, str(theirs.fileno())],
                    cwd="/",
                    stdin=None if attached else subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=(theirs.fileno(), *self._handed_on),
                    # What a terminal sends to the tool is not for it: the tool ends it when that is due.
                    start_new_session=True,
                )
            except BaseException:
                self._control.close()
                raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Of the command; that of its supervisor where somebody killed this."""
        if self._exit_code is None and self._closed:
            return self._process.wait()
        return self._exit_code

    def start(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> tuple[int, bool]:
        """Start the command: its process id, and whether what loses its parent is adopted. Raises `OSError`."""
        request = {
            "argv": [_bytes_as_text(word) for word in argv],
            "cwd": _bytes_as_text(str(cwd)),
            "env": {_bytes_as_text(name): _bytes_as_text(value) for name, value in env.items()},
            "owner": os.getpid(),
            "descriptors": self._handed_on,
        }
        try:
            self._control.sendall(json.dumps(request).encode() + b"\n")
            while not self._closed and not self._started:
                self._read(None)
        except BrokenPipeError:
            self._closed = True
        answer = self._started
        if not answer:
            raise OSError(0, "the process that should start it ended before it did")
        if "pid" not in answer:
            raise OSError(answer["errno"], answer["reason"], answer["filename"])
        return int(answer["pid"]), bool(answer["adopts"])

    def has_ended(self, wait_s: float) -> bool:
        """Whether the command has ended, waiting so many seconds for it."""
        if self._exit_code is None and not self._closed:
            self._read(wait_s)
        return self._exit_code is not None or self._closed

    def end(self) -> None:
        """End everything, if it has not ended yet, and wait for that. May be called again."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + _GRACE + _PATIENCE
        try:
            while not self._closed and (left := deadline - time.monotonic()) > 0:
                self._read(left)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(max(0.0, deadline - time.monotonic()))
                return
            # Somebody stopped it, or something below it cannot even be killed.
            self._process.kill()
            self._process.wait()
        finally:
            self._control.close()

    def _read(self, wait_s: float | None) -> None:
        self._control.settimeout(wait_s)
        try:
            part = self._control.recv(1 << 16)
        except (TimeoutError, BlockingIOError):
            return
        except OSError:
            part = b""
        self._closed = not part
        *lines, self._unread = (self._unread + part).split(b"\n")
        for answer in map(json.loads, lines):
            # A command may have ended before anybody read that it was started.
            if "status" in answer:
                self._exit_code = answer["status"]
            else:
                self._started = answer


def _bytes_as_text(text: str) -> str:
    """The bytes that the system knows by a name, for JSON: names need not be valid in any encoding."""
    return os.fsencode(text).decode("latin-1")


class _Tree:
    """The processes of one run: below its supervisor, in the session of the command, or carrying the run's id."""

    def __init__(self, top: int, leader: int, run_id: str, born: float, *, adopts: bool) -> None:
        self._top = top
        self._leader = leader
        self._run_id = run_id
        self._adopts = adopts
        # The clock of process start times ticks coarsely.
        self._born = born - 2.0

    def alive(self) -> list[psutil.Process]:
        found: dict[int, psutil.Process] = {}
        try:
            below = {child.pid for child in psutil.Process(self._top).children(recursive=True)}
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
        for pid in (os.getpid(), self._top):
            found.pop(pid, None)
        return list(found.values())

    def is_stopped(self) -> bool:
        """Whether any of them is stopped, as by SIGSTOP or for a debugger."""
        for process in self.alive():
            with contextlib.suppress(psutil.Error):
                if process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP):
                    return True
        return False

    def _is_ours(self, process: psutil.Process) -> bool:
        if os.getsid(process.pid) == self._leader:
            return True
        return process.environ().get(RUN_ID) == self._run_id

    def names_after(self, linger: float) -> tuple[str, ...]:
        """Names of what is still alive after giving it `linger` seconds to end by itself."""
        deadline = time.monotonic() + linger
        alive = self.alive()
        if not alive and not self._adopts:
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
