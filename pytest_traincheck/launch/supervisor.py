"""Starts one command, collects whatever it leaves behind, and ends all of it when its owner says so or has gone.

A program of its own (standard library only), between the tool and the command, for two reasons. On Linux it adopts
every process below it that loses its parent (`PR_SET_CHILD_SUBREAPER`), so a daemon cannot get away by a double fork,
a session of its own or an empty environment; the tool may be somebody's pytest, which must not find foreign children.
And it outlives a tool that is killed: the connection ends then, and so does everything below.

It is told what to run in one line of JSON on a socket, and answers with a line when the command was started and one
when it has ended. The end of the connection, from either cause, is the order to clean up.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from typing import Any

GRACE_S = 5.0
"""Seconds between SIGTERM and SIGKILL."""

_POLL_S = 1.0
_ROUND_S = 0.02
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_ORDERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Supervisor:
    """One command and everything below it. `owner` is the process that asked for it."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._woken, wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _note)
        self._dismissed = False
        for number in _ORDERS:
            # What the owner ignores (nohup), the command ignores too: an ignored signal is inherited, a handler not.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._dismiss)
        self._prctl = _prctl()
        self._adopts = self._prctl is not None and self._prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        self._command = 0
        self._owner = 0
        self._ended = False

    def run(self) -> None:
        """From the request to the last process of the command."""
        request = json.loads(_line(self._control))
        self._owner = request["owner"]
        try:
            # stdin, stdout and stderr are those that this program was given.
            process = subprocess.Popen(
                [_bytes(word) for word in request["argv"]],
                cwd=_bytes(request["cwd"]),
                env={_bytes(name): _bytes(value) for name, value in request["env"].items()},
                start_new_session=True,
                pass_fds=request["descriptors"],
                preexec_fn=self._follow,
            )
        except OSError as error:
            self._say(errno=error.errno, reason=error.strerror, filename=os.fsdecode(error.filename or b""))
            return
        except subprocess.SubprocessError as error:
            self._say(errno=0, reason=str(error), filename=None)
            return
        self._command = process.pid
        self._say(pid=process.pid, adopts=self._adopts)
        while self._wait():
            self._reap()
        self._end()
        # Reaped here and not by `Popen`, which would complain about it.
        process.returncode = 0

    def _follow(self) -> None:
        """In the child: should this program be killed, nobody else would end the command."""
        if self._prctl is not None:
            self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    def _dismiss(self, *_: object) -> None:
        self._dismissed = True

    def _wait(self) -> bool:
        """Until something happened; False when it is time to clean up."""
        connection = self._control.fileno()
        ready, _, _ = select.select([connection, self._woken], [], [], _POLL_S)
        if self._woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, 4096)
        # A copy of the connection may survive in a fork of the owner, so its death shows in the parent alone.
        return not self._dismissed and connection not in ready and os.getppid() == self._owner

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._command and not self._ended:
                self._ended = True
                self._say(status=os.waitstatus_to_exitcode(status))

    def _end(self) -> None:
        """SIGTERM to all that is left, SIGKILL after a grace. Rounds, since a process may fork between two looks."""
        asked: set[int] = set()
        deadline = time.monotonic() + GRACE_S
        while True:
            self._reap()
            below = self._below()
            if not below:
                return
            patient = time.monotonic() < deadline
            for pid in below:
                with contextlib.suppress(OSError):
                    if not patient:
                        os.kill(pid, signal.SIGKILL)
                    elif pid not in asked:
                        os.kill(pid, signal.SIGTERM)
                        # One that is stopped gets the other signal only when it goes on.
                        os.kill(pid, signal.SIGCONT)
            asked |= below
            time.sleep(_ROUND_S)

    def _below(self) -> set[int]:
        """All descendants that have not ended; without /proc, the command alone: its owner looks for the rest."""
        parents = _parents()
        if parents is None:
            return set() if self._ended else {self._command}
        below: set[int] = set()
        new = {os.getpid()}
        while new:
            new = {pid for pid, parent in parents.items() if parent in new} - below
            below |= new
        return below

    def _say(self, **content: Any) -> None:
        with contextlib.suppress(OSError):
            self._control.sendall(json.dumps(content).encode() + b"\n")


def _bytes(text: str) -> bytes:
    """Names as the system knows them: the owner need not share this program's idea of an encoding."""
    return text.encode("latin-1")


def _note(*_: object) -> None:
    """A signal without a handler would not wake the loop."""


def _prctl() -> Any:
    if sys.platform != "linux":
        return None
    try:
        return ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        return None


def _parents() -> dict[int, int] | None:
    """Process -> parent, of all that have not ended; None where the system has no /proc."""
    found: dict[int, int] = {}
    # Without `pathlib`, whose import would take longer than all the rest.
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - see above
    except OSError:
        return None
    for name in names:
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stream:  # noqa: PTH123 - see above
                # The name of the program, in brackets, may hold anything.
                state, parent = stream.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state not in (b"Z", b"X"):
            found[int(name)] = int(parent)
    return found if os.getpid() in found else None


def _line(control: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        part = control.recv(1 << 16)
        if not part:
            # The owner has gone before it said what to run.
            sys.exit(0)
        data += part
    return data


if __name__ == "__main__":
    Supervisor(socket.socket(fileno=int(sys.argv[1]))).run()
