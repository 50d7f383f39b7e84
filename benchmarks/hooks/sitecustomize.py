"""Stamps the clock at every optimizer step of a process, for the benchmarks alone; the same in plain and observed runs.

Reads `BENCHMARK_STAMPS` (a directory) and writes `PID.json` there when the process ends: for every optimizer, in order
of its first step, a list of `[wall seconds, CPU seconds of the process]`.
"""

import atexit
import json
import os
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
