"""Models and processes that are not as usual: lazy parameters, ranks that only a process group knows."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.slow

LAZY = """
import torch
model = torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.LazyBatchNorm1d(), torch.nn.ReLU(), torch.nn.Linear(4, 2))
model(torch.randn(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 3)).square().mean().backward()
    optimizer.step()
"""

SPAWNED = """
import os, socket
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def work(rank, port):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).sum().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    mp.spawn(work, args=(port,), nprocs=2)
"""


def test_lazy_parameters_are_looked_at_when_they_exist(run: Any) -> None:
    (trace,) = run(LAZY).traces
    assert trace.meta["probe_error_count"] == 0
    changed = {change.name for change in trace.changes if change.kind == "parameter"}
    assert {"0.weight", "1.weight", "3.bias"} <= changed


def test_a_destroyed_process_group_leaves_its_ranks(run: Any) -> None:
    training = [trace for trace in run(SPAWNED).traces if trace.calls]
    ranks = {(trace.meta["rank"], trace.meta["world_size"]) for trace in training if trace.meta["world_size"] > 1}
    assert ranks == {(0, 2), (1, 2)}
