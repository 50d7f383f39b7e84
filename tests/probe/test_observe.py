"""The probe in this process: what it sees, and that it leaves nothing behind."""

from __future__ import annotations

import gc
import importlib
import inspect
import pickle
import resource
import sys
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from probe_runs import Trace, read_run  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import clip_grad_norm_  # noqa: E402

from pytest_traincheck.probe import install, observe  # noqa: E402


class Net(nn.Module):
    """Two layers with tied weights and a statistic."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.norm = nn.BatchNorm1d(4)
        self.out = nn.Linear(4, 7, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens: Any) -> Any:
        return self.out(F.dropout(self.norm(self.embed(tokens)), 0.5, self.training))


def train(net: nn.Module, steps: int = 2) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        tokens = torch.arange(6)
        F.cross_entropy(net(tokens), tokens).backward()
        clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()


def only(run_dir: Path) -> Trace:
    (trace,) = read_run(run_dir)
    assert trace.meta["probe_errors"] == []
    return trace


def test_a_training_loop_in_calls_and_changes(tmp_path: Path) -> None:
    net = Net()
    with observe(tmp_path, seed=5):
        train(net)
    trace = only(tmp_path)
    assert trace.meta["seed"] == "5"
    assert trace.meta["finished"]
    loop = [call.name for call in trace.calls if call.parent == 0 and call.type != "construct"]
    assert (
        loop
        == [
            "torch.optim.SGD.zero_grad",
            f"{__name__}.Net",
            "torch.nn.functional.cross_entropy",
            "torch.autograd.backward",
            "torch.nn.utils.clip_grad_norm_",
            "torch.optim.SGD.step",
        ]
        * 2
    )
    step = trace.called("torch.optim.SGD.step")[0]
    moved = {item.name for item in trace.changed("parameter") if item.parent == step.seq}
    assert moved == {"embed.weight", "norm.weight", "norm.bias", "out.weight"}
    tied = [symbol for symbol in trace.all("var") if symbol["kind"] == "parameter" and symbol["same"]]
    assert [symbol["name"] for symbol in tied] == ["out.weight"]
    forward = trace.called(f"{__name__}.Net")[0]
    statistics = {item.name for item in trace.changed("buffer") if item.parent == forward.seq}
    assert statistics == {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}
    backward = trace.called("torch.autograd.backward")[0]
    gradients = [item for item in trace.changed("gradient") if item.parent == backward.seq]
    assert {(item.old, item.new) for item in gradients} == {(0, 2)}
    assert all(item.value > 0 for item in gradients)
    assert trace.called("torch.nn.functional.dropout")[0].args["training"] is True
    assert [item.value for item in trace.changed("lr")] == [0.1]
    (construct,) = trace.called("torch.optim.SGD")
    assert construct.args["momentum"] == 0.9
    assert trace.all("group")[0]["hyper"]["momentum"] == 0.9
    loss = trace.called("torch.nn.functional.cross_entropy")[0]
    assert loss.value > 0
    assert Path(loss.src["file"]).name == Path(__file__).name


def test_frozen_parameters_do_not_move_and_steps_do_not_record_their_arithmetic(tmp_path: Path) -> None:
    with observe(tmp_path):
        net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
        net[0].requires_grad_(False)
        optimizer = torch.optim.Adam(net.parameters())
        net(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    trace = only(tmp_path)
    step = trace.called("torch.optim.Adam.step")[0]
    assert {item.name for item in trace.changed("parameter") if item.parent == step.seq} == {"1.weight", "1.bias"}
    assert [call for call in trace.calls if call.parent == step.seq] == []
    flags = {item.name: item.new for item in trace.changed("requires_grad")}
    assert flags == {"0.weight": 4, "0.bias": 4, "1.weight": 5, "1.bias": 5}


def test_no_attribute_is_replaced_and_none_is_left_changed(tmp_path: Path) -> None:
    # torch imports its compiler at the first optimizer, and the compiler changes torch: not our doing.
    importlib.import_module("torch._dynamo")
    train(Net())
    schedulers = torch.optim.lr_scheduler
    owners = [torch, torch.Tensor, F, nn.Module, torch.optim.Optimizer, torch.autograd, nn.utils, nn.init]
    owners += [torch.amp.GradScaler, schedulers.LRScheduler, schedulers.StepLR, torch.distributed, torch.jit]
    owners += [torch.fx.Tracer, sys.modules[__name__]]
    before = [dict(vars(owner)) for owner in owners]
    finders = list(sys.meta_path)
    optimizer = sys.modules["torch.optim.optimizer"]
    hooks = optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks
    codes = [function.__code__ for function in (nn.Module.__call__, F.dropout, clip_grad_norm_)]

    def changed() -> set[str]:
        incidental = {"__annotations__", "__pytest_asserts__", "__abstractmethods__"}
        both = [(dict(vars(owner)), attributes) for owner, attributes in zip(owners, before, strict=True)]
        names = ((name, now, then) for now, then in both for name in now.keys() | then.keys())
        return {name for name, now, then in names if now.get(name) is not then.get(name)} - incidental

    with observe(tmp_path):
        assert not changed()
        assert nn.Module.__call__.__code__ is not codes[0]
        assert pickle.loads(pickle.dumps(F.dropout)) is F.dropout
        assert inspect.getsource(F.dropout).startswith("def dropout(")
        train(Net())
        assert not changed()
    assert not changed()
    assert [function.__code__ for function in (nn.Module.__call__, F.dropout, clip_grad_norm_)] == codes
    assert sys.meta_path == finders
    assert not any(hooks)


def test_a_probe_that_cannot_start_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise TypeError("a torch that is too new")

    monkeypatch.setattr(install, "Recorder", broken)
    with pytest.raises(TypeError, match="too new"), observe(tmp_path / "run"):
        pass
    assert not list((tmp_path / "run").iterdir())
    monkeypatch.undo()
    with observe(tmp_path / "run"):
        train(Net())


def test_observing_twice_at_once_is_refused(tmp_path: Path) -> None:
    with observe(tmp_path / "one"), pytest.raises(RuntimeError, match="observed already"), observe(tmp_path / "two"):
        pass
    with observe(tmp_path / "three"):
        pass


def test_no_tensor_and_no_module_is_kept_alive(tmp_path: Path) -> None:
    with observe(tmp_path):
        net = Net()
        train(net)
        output = net(torch.arange(6))
        dead = [weakref.ref(item) for item in (net, net.embed.weight, net.embed.weight.grad, output)]
        del net, output
        gc.collect()
        assert [ref() for ref in dead] == [None] * len(dead)


def test_a_step_that_raises_does_not_swallow_what_follows(tmp_path: Path) -> None:
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def closure() -> Any:
        raise KeyError("no data")

    with observe(tmp_path):
        with pytest.raises(KeyError):
            optimizer.step(closure)
        net(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    trace = only(tmp_path)
    failed, good = trace.called("torch.optim.SGD.step")
    assert failed.flags & 1
    assert not good.flags & 1
    assert {call.parent for call in trace.called("torch.nn.Linear")} == {0}


def test_calls_in_a_closure_are_recorded_inside_the_step(tmp_path: Path) -> None:
    net = nn.Linear(2, 1)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(net(torch.ones(3, 2)), torch.zeros(3, 1))
        loss.backward()
        return loss

    with observe(tmp_path):
        optimizer.step(closure)
    trace = only(tmp_path)
    (step,) = trace.called("torch.optim.LBFGS.step")
    inside = {call.name for call in trace.calls if call.parent == step.seq}
    assert inside == {
        "torch.optim.LBFGS.zero_grad",
        "torch.nn.Linear",
        "torch.nn.functional.mse_loss",
        "torch.autograd.backward",
    }


def test_spellings_of_one_function_have_one_name(tmp_path: Path) -> None:
    x = torch.ones(2, 2)
    with observe(tmp_path):
        results = [x.softmax(-1), torch.softmax(x, -1), F.softmax(x, dim=-1), x @ x, torch.matmul(x, x), x.matmul(x)]
        for result in results:
            assert result.shape == (2, 2)
    trace = only(tmp_path)
    assert [call.name for call in trace.calls] == ["torch.nn.functional.softmax"] * 3 + ["torch.matmul"] * 3
    assert {str(call.args) for call in trace.calls[:3]} == {str(trace.calls[0].args)}


def test_writes_through_data_are_seen(tmp_path: Path) -> None:
    net = nn.Linear(2, 2)
    with observe(tmp_path):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.ones(1, 2)).sum().backward()
        net.weight.grad.data.mul_(0.5)
        optimizer.step()
    trace = only(tmp_path)
    (backward,), (step,) = trace.called("torch.autograd.backward"), trace.called("torch.optim.SGD.step")
    scaled = [item for item in trace.changed("gradient", "weight") if backward.end < item.seq < step.seq]
    assert len(scaled) == 1


def test_numbers_that_are_not_finite_are_marked(tmp_path: Path) -> None:
    net = nn.Linear(2, 1)
    with observe(tmp_path):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        loss = net(torch.tensor([[1.0, float("inf")]])).sum()
        loss.backward()
        optimizer.step()
    trace = only(tmp_path)
    assert trace.called("torch.nn.Linear")[0].flags & 8
    assert [item.new for item in trace.changed("gradient", "weight")][-1] == 3
    assert [item.new for item in trace.changed("parameter", "weight")][-1] == 3


def test_varying_numbers_do_not_fill_the_tables(tmp_path: Path) -> None:
    with observe(tmp_path):
        for index in range(2000):
            F.dropout(torch.ones(1), 0.5 + index * 1e-5)
    trace = only(tmp_path)
    assert len(trace.calls) == 2000
    assert len(trace.all("args")) < 400


def test_wrappers_are_transparent_for_names(tmp_path: Path) -> None:
    with observe(tmp_path):
        net = Net()
        average = torch.optim.swa_utils.AveragedModel(net)
        parallel = nn.DataParallel(net)
        optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
        F.cross_entropy(parallel(torch.arange(6)), torch.arange(6)).backward()
        optimizer.step()
        average.update_parameters(net)
    trace = only(tmp_path)
    assert [root["name"] for root in trace.all("root")] == ["Net", "Net"]
    assert not any("module." in symbol.get("name", "") for symbol in trace.all("var"))
    entries = [call for call in trace.calls if call.entry]
    assert [call.name for call in entries] == [f"{__name__}.Net"]
    (update,) = trace.called("torch.optim.swa_utils.AveragedModel.update_parameters")
    assert {item.name for item in trace.changed("parameter") if item.parent == update.seq} >= {"embed.weight"}


def test_an_estimate_of_running_statistics_is_a_call_around_those_of_the_model(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    with observe(tmp_path):
        torch.optim.swa_utils.update_bn([torch.ones(4, 3), torch.zeros(4, 3)], net)
    trace = only(tmp_path)
    (estimate,) = trace.called("torch.optim.swa_utils.update_bn")
    entries = [call for call in trace.calls if call.entry]
    assert [call.parent for call in entries] == [estimate.seq] * 2


def test_only_modules_that_hold_tensors_are_numbered_roots(tmp_path: Path) -> None:
    with observe(tmp_path):
        criterion, net = nn.BCEWithLogitsLoss(), nn.Linear(2, 1)
        criterion(net(torch.ones(3, 2)), torch.ones(3, 1)).backward()
    trace = only(tmp_path)
    assert {root["name"]: root["ordinal"] for root in trace.all("root")} == {"Linear": 0, "BCEWithLogitsLoss": -1}


def test_a_full_disk_loses_events_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_traincheck.probe import writer

    chunk = 64 * writer.ROW.size
    monkeypatch.setattr(writer, "_CHUNK", chunk)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with observe(tmp_path):
        F.softmax(torch.ones(2), 0)
        # No file may become larger than this, as if the disk was full.
        resource.setrlimit(resource.RLIMIT_FSIZE, (chunk, hard))
        try:
            for _ in range(99):
                F.softmax(torch.ones(2), 0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    (trace,) = read_run(tmp_path)
    assert len(trace.rows) == 64
    assert trace.meta["lost_events"] == 36
    assert [error["where"] for error in trace.meta["probe_errors"]] == ["writing events.bin"]


def test_a_model_that_is_made_where_another_one_died_is_another_one(tmp_path: Path) -> None:
    with observe(tmp_path):
        for _ in range(6):
            net = Net()
            train(net, steps=1)
            del net
            gc.collect()
    trace = only(tmp_path)
    roots = [symbol for (kind, _), symbol in trace.symbols.items() if kind == "root"]
    assert [root["name"] for root in roots].count("Net") == 6


@dataclass
class Batch:
    tokens: Any
    weight: Any
    number: int


class OfBatches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, batch: Batch) -> Any:
        return self.net(batch.tokens)


def test_the_tensors_of_a_batch_of_a_class_are_seen(tmp_path: Path) -> None:
    with observe(tmp_path):
        OfBatches()(Batch(torch.arange(6), None, 3))
    given = [symbol["values"] for (kind, _), symbol in only(tmp_path).symbols.items() if kind == "args"]
    arguments = [values["batch"] for values in given if "batch" in values]
    assert [list(value["dict"]) for value in arguments] == [["tokens"]]
    assert arguments[0]["dict"]["tokens"]["tensor"]["shape"] == [6]
