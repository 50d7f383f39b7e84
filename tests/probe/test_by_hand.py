"""Parameters that a program changes itself after a `backward`: a training step, where there is no optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

pytestmark = pytest.mark.usefixtures("seeded")

Watch = Callable[[Callable[[], Any]], Any]
STEPS = 5


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))


def loss_of(model: Any) -> Any:
    return F.mse_loss(model(torch.randn(8, 4)), torch.randn(8, 1))


def in_place() -> None:
    model = net()
    for _ in range(STEPS):
        loss_of(model).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad.zero_()


def through_data() -> None:
    model = net()
    for _ in range(STEPS):
        model.zero_grad()
        loss_of(model).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad.data, alpha=-0.1)


def with_new_data() -> None:
    model = net()
    for _ in range(STEPS):
        model.zero_grad()
        loss_of(model).backward()
        for parameter in model.parameters():
            parameter.data = parameter.data - 0.1 * parameter.grad


def by_grad() -> None:
    model = net()
    for _ in range(STEPS):
        gradients = torch.autograd.grad(loss_of(model), list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.sub_(gradient, alpha=0.1)


def accumulated() -> None:
    model = net()
    for _ in range(STEPS):
        for _ in range(3):
            loss_of(model).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
        model.zero_grad()


@pytest.mark.parametrize("train", [in_place, through_data, with_new_data, by_grad, accumulated])
def test_a_step_is_what_changes_parameters_after_a_backward(watched: Watch, train: Callable[[], None]) -> None:
    """The last one, too, though nothing comes behind it and the model is gone by the end."""
    trace = watched(train)
    assert len(trace.called("ByHand.step")) == STEPS
    assert [symbol["class"] for symbol in trace.all("opt")] == ["ByHand"]
    assert not trace.meta["probe_errors"]


def test_a_step_lies_between_its_backward_and_the_next_forward_pass(watched: Watch) -> None:
    trace = watched(in_place)
    kinds = ("torch.autograd.backward", "ByHand.step", "torch.nn.Sequential")
    names = [call.name for call in trace.calls if call.name in kinds]
    assert names == ["torch.nn.Sequential", "torch.autograd.backward", "ByHand.step"] * STEPS
    backward, step = trace.called("torch.autograd.backward")[1], trace.called("ByHand.step")[1]
    assert step.src["line"] == backward.src["line"]
    changed = {change.name for change in trace.changes if change.parent == step.seq and change.kind == "parameter"}
    assert changed == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_a_parameter_that_is_left_out_is_not_held(watched: Watch) -> None:
    def train() -> None:
        model = net()
        for _ in range(STEPS):
            model.zero_grad()
            loss_of(model).backward()
            with torch.no_grad():
                for parameter in list(model.parameters())[:3]:
                    parameter -= 0.1 * parameter.grad

    trace = watched(train)
    names = {symbol["i"]: symbol["name"] for symbol in trace.all("var")}
    assert {names[number] for group in trace.all("group") for number in group["params"]} == {
        "0.weight", "0.bias", "2.weight",
    }  # fmt: skip


def test_tensors_that_no_module_holds_have_the_names_of_the_program(watched: Watch) -> None:
    def train() -> None:
        weights = {name: torch.randn(4, 3).requires_grad_() for name in ("up", "down")}
        for _ in range(STEPS):
            loss = F.mse_loss(torch.randn(8, 4) @ weights["up"] @ weights["down"].T, torch.randn(8, 4))
            loss.backward()
            with torch.no_grad():
                for tensor in weights.values():
                    tensor -= 0.1 * tensor.grad
                    tensor.grad = None

    trace = watched(train)
    assert len(trace.called("ByHand.step")) == STEPS
    assert {(change.root, change.name) for change in trace.changed("parameter")} == {
        ("parameters", "up"), ("parameters", "down"),
    }  # fmt: skip


def test_new_tensors_in_the_place_of_the_old_ones(watched: Watch) -> None:
    """As long as they lie where the gradients point to; the last step shows in no graph, and is like those before."""

    def train() -> None:
        w, b = torch.randn(6, 1).requires_grad_(), torch.zeros(1, requires_grad=True)
        for _ in range(STEPS):
            loss = F.mse_loss(torch.randn(16, 6) @ w + b, torch.randn(16, 1))
            loss.backward()
            w = (w - 0.1 * w.grad).detach().requires_grad_()
            b = (b - 0.1 * b.grad).detach().requires_grad_()

    trace = watched(train)
    assert len(trace.called("ByHand.step")) == STEPS
    assert len(trace.all("root")) == 1
    steps = trace.called("ByHand.step")
    assert [len([c for c in trace.changed("parameter") if step.seq < c.seq < step.end]) for step in steps[:-1]] == [
        2, 2, 2, 2,
    ]  # fmt: skip


def test_a_copy_of_such_tensors_is_followed(watched: Watch) -> None:
    def train() -> None:
        w = torch.randn(6, 2).requires_grad_()
        average = [w.detach().clone()]
        for _ in range(STEPS):
            F.mse_loss(torch.randn(16, 6) @ w, torch.randn(16, 2)).backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
                average[0].lerp_(w, 0.1)
                w.grad.zero_()

    assert any(symbol["name"] == "copy of parameters" for symbol in watched(train).all("root"))


def saliency() -> None:
    model = net().eval()
    for _ in range(STEPS):
        x = torch.randn(8, 4, requires_grad=True)
        model(x).sum().backward()


def evolution() -> None:
    model = net()
    with torch.no_grad():
        for _ in range(STEPS):
            loss_of(model)
            for parameter in model.parameters():
                parameter += 0.1 * torch.randn_like(parameter)


def loaded_behind_a_backward() -> None:
    model, other = net(), net()
    loss_of(model).backward()
    model.load_state_dict(other.state_dict())
    loss_of(model)


def with_an_optimizer() -> None:
    """That clips its weights, and has a frozen part with gradients that somebody writes to."""
    model, extra = net(), nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        extra(loss_of(model).view(1, 1)).sum().backward()
        optimizer.step()
        with torch.no_grad():
            for parameter in (*model.parameters(), *extra.parameters()):
                parameter.clamp_(-0.05, 0.05)


@pytest.mark.parametrize("program", [saliency, evolution, loaded_behind_a_backward, with_an_optimizer])
def test_no_step(watched: Watch, program: Callable[[], None]) -> None:
    trace = watched(program)
    assert not trace.called("ByHand.step")
    assert all(symbol["name"] != "parameters" for symbol in trace.all("root"))


def test_an_optimizer_that_was_there_before_anybody_looked(watched: Watch) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()

    trace = watched(train)
    assert len(trace.called("torch.optim.SGD.step")) == STEPS
    assert not trace.called("ByHand.step")


def test_nothing_is_kept_alive_and_nothing_is_other_than_without(watched: Watch) -> None:
    import gc
    import weakref

    kept: list[Any] = []
    results: list[Any] = []

    def train() -> None:
        torch.manual_seed(3)
        w = torch.randn(6, 2).requires_grad_()
        kept.append(weakref.ref(w))
        for _ in range(STEPS):
            F.mse_loss(torch.randn(16, 6) @ w, torch.randn(16, 2)).backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
                w.grad.zero_()
        results.append(w.detach().clone())
        del w
        gc.collect()
        assert kept[-1]() is None

    train()
    watched(train)
    assert torch.equal(*results)
