"""Stamps the clock at every optimizer step of a process, for the benchmarks alone; the same in plain and observed runs.

Reads `BENCHMARK_STAMPS` (a directory) and writes `PID.json` there when the process ends: for every optimizer, in order
of its first step, a list of `[wall seconds, CPU seconds of the process]`.

With `BENCHMARK_TURNS` (a socket), the process trains by turns, as `side_by_side.py` says.
"""

import atexit
import json
import os
import socket
import sys
import time
from importlib.machinery import PathFinder
from pathlib import Path

TARGET = "torch.optim.optimizer"


class _Stamps:
    """What one process has stamped so far."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.of_optimizer = {}
        self.pid = None

    def install(self, module):
        self.pid = os.getpid()
        module.register_optimizer_step_post_hook(self.stamp)
        atexit.register(self.write)

    def stamp(self, optimizer, args, kwargs):  # noqa: ARG002 - the signature is PyTorch's
        self.of_optimizer.setdefault(id(optimizer), []).append((time.perf_counter(), time.process_time()))

    def write(self):
        if self.of_optimizer and os.getpid() == self.pid:
            text = json.dumps(list(self.of_optimizer.values()))
            (self.folder / f"{self.pid}.json").write_text(text)


class _Turns:
    """From some step of its first optimizer on, a process trains for as long as a turn lasts, says how many steps it
    took and in how many seconds, and waits until it is its turn again.
    """

    def __init__(self, place, first, seconds):
        self.place, self.first, self.seconds = place, int(first), float(seconds)
        self.optimizer = self.peer = None
        self.steps = self.taken = 0
        self.begun = 0.0

    def install(self, module):
        module.register_optimizer_step_post_hook(self.step)

    def step(self, optimizer, args, kwargs):  # noqa: ARG002 - the signature is PyTorch's
        if self.optimizer is None:
            self.optimizer = id(optimizer)
        if id(optimizer) != self.optimizer:
            return
        self.steps += 1
        self.taken += 1
        took = time.perf_counter() - self.begun
        if self.steps >= self.first and took >= self.seconds:
            self.wait(took)

    def wait(self, took):
        if self.peer is None:
            self.peer = socket.socket(socket.AF_UNIX)
            self.peer.connect(self.place)
        self.peer.sendall(f"{self.taken} {took!r}\n".encode())
        self.peer.recv(1)
        self.taken, self.begun = 0, time.perf_counter()


class _AfterImport:
    """A finder that lets the module load as always and then installs the stamps on it."""

    def __init__(self, stamps):
        self.stamps = stamps

    def find_spec(self, name, path=None, target=None):
        if name != TARGET:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            self.stamps.install(module)

        spec.loader.exec_module = exec_module
        return spec


if os.environ.get("BENCHMARK_STAMPS"):
    sys.meta_path.insert(0, _AfterImport(_Stamps(os.environ["BENCHMARK_STAMPS"])))
if os.environ.get("BENCHMARK_TURNS"):
    sys.meta_path.insert(0, _AfterImport(_Turns(*os.environ["BENCHMARK_TURNS"].split())))
