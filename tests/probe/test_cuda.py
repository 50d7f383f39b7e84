"""Training on a GPU: the trace holds what one of the CPU does, and the GPU is waited for a few times a step."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_runs import Trace, read_run
from torch import nn

from pytest_traincheck.probe import observe

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch can use no GPU here")

LAYERS, WIDTH, STEPS = 12, 160, 14


def train(
    device: str, step: Callable[[int], None] = lambda _: None, spoil: int = -1, count: int = LAYERS
) -> list[float]:
    """Losses of a training of which `step` is told the number of each step."""
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU()) for _ in range(count)]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    inputs, targets = torch.randn(32, WIDTH).to(device), torch.randint(0, 10, (32,)).to(device)
    losses = []
    for number in range(STEPS):
        step(number)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs * (math.inf if number == spoil else 1)), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [float(loss) for loss in losses]


def traced(place: Path, *args: Any, **kwargs: Any) -> tuple[list[float], Trace]:
    with observe(place):
        losses = train(*args, **kwargs)
    (trace,) = read_run(place)
    assert trace.meta["probe_errors"] == []
    assert not trace.meta["left_out"]
    return losses, trace


def test_the_trace_is_that_of_the_cpu(tmp_path: Path) -> None:
    (_, near), (_, far) = traced(tmp_path / "near", "cpu"), traced(tmp_path / "far", "cuda")
    assert [call.name for call in near.calls] == [call.name for call in far.calls]

    def story(trace: Trace) -> list[tuple[Any, ...]]:
        return [(change.kind, change.name, change.new) for change in trace.changes if change.old != 7]

    assert story(near) == story(far)
    assert {item.measure for item in near.measures} - {item.measure for item in far.measures} == set()


def test_losses_stand_in_the_rows_of_their_calls(tmp_path: Path) -> None:
    losses, trace = traced(tmp_path, "cuda")
    assert [call.value for call in trace.called("torch.nn.functional.cross_entropy")] == losses
    assert trace.values("backward.root") == losses[:8]
    assert trace.values("later.loss") == losses[8:]


def test_gradients_have_norms_and_hashes(tmp_path: Path) -> None:
    _, trace = traced(tmp_path, "cuda")
    norms = [change.value for change in trace.changed("gradient", "12.weight") if change.new == 2]
    assert len(norms) == STEPS
    assert all(0 < norm < math.inf for norm in norms)
    assert len({change.digest for change in trace.changed("parameter", "12.weight")}) == STEPS + 1


def test_what_is_not_finite_is_told(tmp_path: Path) -> None:
    losses, trace = traced(tmp_path, "cuda", spoil=10)
    whole = [call for call in trace.calls if call.entry and call.path == ""]
    flagged = [bool(call.flags & 8) for call in whole]
    assert flagged == [number >= 10 for number in range(STEPS)]
    assert [bool(call.flags & 8) for call in trace.called("torch.nn.functional.cross_entropy")] == flagged
    assert [math.isfinite(loss) for loss in losses] == [not flag for flag in flagged]
    assert any(change.new == 3 for change in trace.changed("gradient"))


def test_a_gpu_is_waited_for_a_few_times_a_step(tmp_path: Path) -> None:
    """However many parameters there are."""
    few, many = (_waits(tmp_path / str(count), count) for count in (2, LAYERS))
    assert few == many <= 16


def _waits(place: Path, count: int) -> float:
    """How often a GPU is waited for in a step, behind those that are measured."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    profile = torch.profiler.profile(activities=activities)

    def step(number: int) -> None:
        if number == STEPS - 4:
            profile.start()
        if number == STEPS - 1:
            profile.stop()

    traced(place, "cuda", step, count=count)
    waiting = ("cudaStreamSynchronize", "cudaEventSynchronize")
    return sum(event.count for event in profile.key_averages() if event.key in waiting) / 3


def test_side_streams_are_waited_for(tmp_path: Path) -> None:
    with observe(tmp_path):
        beside = torch.cuda.Stream()
        work = torch.randn(2000, 2000, device="cuda")
        with torch.cuda.stream(beside):
            for _ in range(50):
                work = work @ work / 2000
            loss = F.mse_loss(work * 0 + 3, torch.zeros_like(work))
    (trace,) = read_run(tmp_path)
    assert [call.value for call in trace.called("torch.nn.functional.mse_loss")] == [float(loss)]
