"""Names of parameters whose places are given to other tensors after names were first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from measuring import Watch  # noqa: E402
from probe_runs import Trace  # noqa: E402
from torch import nn  # noqa: E402


class Coder(nn.Module):
    """Two layers of one shape."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3, bias=False)
        self.last = nn.Linear(3, 3, bias=False)

    def forward(self, given: Any) -> Any:
        return self.last(self.first(given))


def tie(net: Coder) -> None:
    net.last.weight = net.first.weight


def loaded(net: Coder) -> Coder:
    """A model that has been loaded into, for which names are asked for."""
    net.load_state_dict({name: value.clone() for name, value in net.state_dict().items()})
    return net


def steps(net: nn.Module) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(torch.ones(2, 3)).sum().backward()
        optimizer.step()


def held(trace: Trace) -> list[str]:
    """Names of what the last group of an optimizer holds."""
    names = {symbol["i"]: symbol["name"] for symbol in trace.all("var")}
    return [names[number] for number in trace.all("group")[-1]["params"]]


def parameters(trace: Trace) -> list[tuple[str, bool]]:
    """Names of parameters, and whether each is tied to another one."""
    return [(symbol["name"], bool(symbol["same"])) for symbol in trace.all("var") if symbol["kind"] == "parameter"]


def test_a_parameter_that_took_the_place_of_another_has_its_name(watched: Watch) -> None:
    def train() -> None:
        net = loaded(Coder())
        net.last.weight = nn.Parameter(torch.eye(3))
        steps(net)

    trace = watched(train)
    assert held(trace) == ["first.weight", "last.weight"]
    assert parameters(trace) == [("first.weight", False), ("last.weight", False)]


def test_weights_that_are_tied_late_are_one_parameter(watched: Watch) -> None:
    def train() -> None:
        net = loaded(Coder())
        tie(net)
        steps(net)

    trace = watched(train)
    assert held(trace) == ["first.weight"]
    assert parameters(trace) == [("first.weight", False), ("last.weight", True)]


def test_weights_that_are_tied_after_they_were_trained_apart_are_one_from_then_on(watched: Watch) -> None:
    def train() -> None:
        net = Coder()
        steps(net)
        tie(net)
        steps(net)

    trace = watched(train)
    assert held(trace) == ["first.weight"]
    assert parameters(trace) == [("first.weight", False), ("last.weight", False), ("last.weight", True)]


def test_weights_that_are_cut_loose_from_each_other_are_two(watched: Watch) -> None:
    def train() -> None:
        net = Coder()
        tie(net)
        loaded(net)
        net.last.weight = nn.Parameter(net.last.weight.detach().clone())
        steps(net)

    trace = watched(train)
    assert held(trace) == ["first.weight", "last.weight"]
    assert ("last.weight", False) in parameters(trace)


def test_a_parameter_that_is_made_after_the_optimizer_is_not_what_the_optimizer_holds(watched: Watch) -> None:
    def train() -> None:
        net = Coder()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net.last.weight = nn.Parameter(torch.eye(3))
        net(torch.ones(2, 3)).sum().backward()
        optimizer.step()

    assert held(watched(train)) == ["first.weight", "group0.param1"]


def test_names_that_are_tied_and_untied_in_turns_are_told_once_each(watched: Watch) -> None:
    def train() -> None:
        net = Coder()
        own = net.last.weight
        for _ in range(4):
            steps(net)
            tie(net)
            steps(net)
            net.last.weight = own

    told = parameters(watched(train))
    assert sorted(told) == [("first.weight", False), ("last.weight", False), ("last.weight", True)]


def trained(net: nn.Module, replace: Callable[[Any], None], steps: int = 3) -> None:
    """Trains with one optimizer; `replace` is called with it before the last step but one."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(steps):
        if step == steps - 2:
            replace(optimizer)
        optimizer.zero_grad()
        net(torch.ones(2, 3)).sum().backward()
        optimizer.step()


def test_a_parameter_that_is_replaced_while_training_goes_on_is_in_no_optimizer(watched: Watch) -> None:
    def train() -> None:
        net = Coder()

        def replace(_: Any) -> None:
            net.last.weight = nn.Parameter(net.last.weight.detach().clone())

        trained(net, replace)

    assert held(watched(train)) == ["first.weight", "group0.param1"]


def test_weights_that_are_cut_loose_while_training_goes_on_are_two(watched: Watch) -> None:
    def train() -> None:
        net = Coder()
        tie(net)

        def replace(_: Any) -> None:
            net.last.weight = nn.Parameter(net.last.weight.detach().clone())

        trained(net, replace)

    trace = watched(train)
    assert held(trace) == ["first.weight"]
    assert parameters(trace) == [("first.weight", False), ("last.weight", True), ("last.weight", False)]


def test_a_replaced_parameter_that_is_put_into_the_optimizer_keeps_its_name(watched: Watch) -> None:
    def train() -> None:
        net = Coder()

        def replace(optimizer: Any) -> None:
            net.last.weight = nn.Parameter(net.last.weight.detach().clone())
            optimizer.param_groups[0]["params"][1] = net.last.weight

        trained(net, replace, steps=4)

    trace = watched(train)
    assert held(trace) == ["first.weight", "last.weight"]
    assert len(trace.all("group")) == 1


@pytest.mark.parametrize("way", ["functional_call", "by hand", "data", "to"])
def test_what_is_in_a_place_for_a_while_has_taken_nothing(watched: Watch, way: str) -> None:
    """Averaged weights are evaluated in the place of those that are trained, and values are put into what is there."""

    def train() -> None:
        net = Coder()
        others = {name: nn.Parameter(value.detach() * 2) for name, value in net.named_parameters()}

        def replace(_: Any) -> None:
            given = torch.ones(2, 3)
            if way == "functional_call":
                torch.func.functional_call(net, others, given)
            elif way == "by hand":
                own, net.last.weight = net.last.weight, others["last.weight"]
                net(given)
                net(given)
                net.last.weight = own
            elif way == "data":
                net.last.weight.data = others["last.weight"].data
            else:
                net.to(torch.float64).to(torch.float32)

        trained(net, replace)

    trace = watched(train)
    assert held(trace) == ["first.weight", "last.weight"]
    assert parameters(trace) == [("first.weight", False), ("last.weight", False)]
    assert len(trace.all("group")) == 1
