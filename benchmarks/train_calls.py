"""Microseconds of one `model.train()`, which calls the method of every module below, without the probe and with it.

    python benchmarks/train_calls.py
    TRAINCHECK_CORE=python python benchmarks/train_calls.py

Some loops say `train()` before every step. The model has 100 modules and is in train mode already; each number is the
median of 2,000 calls: without the probe, while every step is recorded, as in check mode (`run --golden`), and while a
probe sleeps that observes one step in so many (`run --every`).
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import torch
from measure import REPOSITORY, machine, markdown_table, print_facts
from torch import nn

sys.path.insert(0, str(REPOSITORY))

from pytest_traincheck.probe import observe
from pytest_traincheck.probe.core import native
from pytest_traincheck.probe.sampling import VARIABLE

CALLS, HEAD = 2000, 10
MODES = {"every step": None, "check mode": 1, "between two observed steps": 1000}
"""One step in so many that is observed; None where the probe is not asked to leave any out."""


def model() -> nn.Module:
    """Ten rows of ten modules, of which the first of each row holds the others."""
    rows = [nn.Sequential(*[nn.ReLU() for _ in range(9)]) for _ in range(9)]
    return nn.Sequential(*rows, *[nn.ReLU() for _ in range(9)])


def seconds(module: nn.Module) -> float:
    found = []
    for _ in range(CALLS):
        begun = perf_counter()
        module.train()
        found.append(perf_counter() - begun)
    return statistics.median(found)


def observed(every: int | None) -> float:
    """Seconds of a call behind the first steps of a training that is observed."""
    os.environ.pop(VARIABLE, None)
    if every is not None:
        os.environ[VARIABLE] = json.dumps({"every": every, "head": HEAD})
    with tempfile.TemporaryDirectory() as directory, observe(Path(directory) / "trace"):
        module, trained = model(), nn.Linear(2, 2)
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
        for _ in range(3 * HEAD):
            optimizer.zero_grad()
            trained(torch.ones(2, 2)).sum().backward()
            optimizer.step()
        return seconds(module)


def main() -> None:
    plain = seconds(model())
    cells = [["without the probe", f"{1e6 * plain:.0f}", ""]]
    for name, every in MODES.items():
        found = observed(every)
        cells.append([name, f"{1e6 * found:.0f}", f"{1e6 * (found - plain):.0f}"])
    print(markdown_table(["`model.train()`", "microseconds", "of the probe"], cells))
    print_facts({**machine(), "core": "python" if native is None else "c"})


if __name__ == "__main__":
    main()
