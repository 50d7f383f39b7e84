"""A Python that has imported torch, and forks a process of its own for every script that it is given.

Importing torch and what its optimizers need takes two seconds, ten times as long as a small training. It is for tests
of which the start of Python is no part: those of the launcher, and of what the probe does at a start, start anew. And
whatever it runs begins with the same state of numpy's generator and the same hashes of texts: whether a program repeats
itself shows only in comparison with one that was started anew.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, TracebackType
from typing import NoReturn

IMPORTED = ("torch", "torch._dynamo")
"""The second one by the first optimizer that a program makes."""


class WarmPython:
    """The client's side: `run` is `subprocess.run` of `python SCRIPT ARGUMENT...`, without the imports."""

    def __init__(self) -> None:
        # Both are settled when Python starts, and when torch does.
        environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        words = [sys.executable, str(Path(__file__))]
        self._server = subprocess.Popen(
            words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> WarmPython:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._server:
            pass  # the end of its requests is its end

    def run(
        self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run a script in `cwd` with this environment and no other, and wait for it.

        Raises:
            RuntimeError: it was still running after `timeout` seconds, and was ended.
        """
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with TemporaryDirectory() as place:
            out, err = Path(place, "out"), Path(place, "err")
            job = _Job(list(words), str(cwd), dict(env), str(out), str(err), timeout)
            print(json.dumps(vars(job)), file=self._server.stdin, flush=True)
            answer = self._server.stdout.readline()
            if not answer:
                raise RuntimeError("the warm Python has ended; what it said last stands in the output of the tests")
            status = json.loads(answer)
            if status is None:
                raise RuntimeError(f"{words} took longer than {timeout} s")
            return subprocess.CompletedProcess(list(words), status, out.read_text(), err.read_text())


@dataclass(frozen=True)
class _Job:
    words: list[str]
    cwd: str
    env: dict[str, str]
    out: str
    err: str
    timeout: float


def _next_job() -> _Job | None:
    """In the server: serves until no more is asked for, and None then. In a child: what it has to do."""
    while line := sys.stdin.readline():
        job = _Job(**json.loads(line))
        child = os.fork()
        if child == 0:
            return job
        print(json.dumps(_status_of(child, job.timeout)), flush=True)
    return None


def _status_of(child: int, timeout: float) -> int | None:
    """The exit status of a child, or the negative number of the signal that ended it; None where it had to be ended."""
    deadline = time.monotonic() + timeout
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return None
        time.sleep(0.002)


def _status(job: _Job) -> int:
    """Do it, and say with what exit status a Python would end that does."""
    try:
        _become(job)
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            return left.code or 0
        print(left.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001 - whatever it is, Python tells of it and ends
        traceback.print_exc()
        return 1
    return 0


def _leave(status: int) -> NoReturn:
    """End as Python does, but leave everything in memory: to take torch apart takes ten times as long as to train."""
    threading._shutdown()  # type: ignore[attr-defined]  # as a child of `multiprocessing` does
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _become(job: _Job) -> None:
    """Do in this process what Python would do that is started with these words."""
    for number, (path, flags) in enumerate(
        [(os.devnull, os.O_RDONLY), *((path, os.O_WRONLY | os.O_CREAT) for path in (job.out, job.err))]
    ):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(job.cwd)
    os.environ.clear()
    os.environ.update(job.env)
    script = Path(job.words[0])
    main = ModuleType("__main__")
    main.__file__ = str(script)
    sys.modules["__main__"] = main
    sys.argv = job.words
    sys.path[:1] = [entry for entry in job.env.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.modules.pop("sitecustomize", None)
    if importlib.util.find_spec("sitecustomize"):
        importlib.import_module("sitecustomize")
    sys.path.insert(0, str(script.parent.absolute()))
    exec(compile(script.read_bytes(), str(script), "exec"), vars(main))


if __name__ == "__main__":
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    asked = _next_job()
    if asked is not None:
        _leave(_status(asked))
