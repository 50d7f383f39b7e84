"""What is measured of parameters, activations and copies outside modules."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from measuring import Tiny, Watch, steps, words  # noqa: E402
from torch import nn  # noqa: E402

pytestmark = pytest.mark.usefixtures("seeded")


# Parameters


def test_parameters_as_they_begin(watched: Watch) -> None:
    begun: list[Any] = []

    def train() -> None:
        net = nn.Linear(4, 3)
        nn.init.constant_(net.bias, 0.5)
        begun.append(net.weight.detach().clone())
        steps(net, lambda: net(torch.ones(2, 4)).sum())

    trace, (weight,) = watched(train), begun
    rms = {item.name: item.value for item in trace.measured("parameter.rms")}
    mean = {item.name: item.value for item in trace.measured("parameter.mean")}
    assert rms == pytest.approx({"weight": float(weight.square().mean().sqrt()), "bias": 0.5})
    assert mean == pytest.approx({"weight": float(weight.mean()), "bias": 0.5})


def test_how_far_parameters_move(watched: Watch) -> None:
    net = nn.Linear(4, 3, bias=False)
    before = net.weight.detach().clone()
    trace = watched(lambda: steps(net, lambda: net(torch.ones(2, 4)).sum(), lr=0.01))
    moved = float((net.weight.detach() - before).norm() / before.norm())
    (update,) = trace.measured("parameter.update")
    assert update.value == pytest.approx(moved, rel=1e-5)
    (step,) = trace.called("torch.optim.SGD.step")
    assert (update.name, update.parent) == ("weight", step.seq)


def test_large_parameters_are_sampled(watched: Watch) -> None:
    net = nn.Linear(300, 300, bias=False)
    with torch.no_grad():
        net.weight.fill_(2.0)
    trace = watched(lambda: steps(net, lambda: net(torch.ones(1, 300)).sum(), lr=0.1))
    assert trace.values("parameter.update") == pytest.approx([0.05])


@pytest.mark.parametrize("active", [0, 128], ids=["the first half", "the second half"])
def test_a_sample_of_a_parameter_is_of_all_its_columns(watched: Watch, active: int) -> None:
    """Some inputs of a layer are of units that are never active: what belongs to them does not move."""
    net = nn.Linear(256, 256, bias=False)
    inputs = torch.zeros(1, 256)
    inputs[:, active : active + 128] = 1
    with torch.no_grad():
        net.weight.fill_(2.0)
    trace = watched(lambda: steps(net, lambda: net(inputs).sum(), lr=0.1))
    assert trace.values("parameter.update") == pytest.approx([0.05 * 0.5**0.5], rel=0.05)


def test_averages_move_too(watched: Watch) -> None:
    """What no optimizer holds has updates as well, once somebody changes it."""
    net = nn.Linear(4, 3)

    def train() -> None:
        average = torch.optim.swa_utils.AveragedModel(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            net(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            average.update_parameters(net)

    # Two parameters in three steps, and what the averages did between them.
    assert len(watched(train).measured("parameter.update")) == 2 * 3 + 2 * 2


def test_how_often_a_parameter_is_initialised(watched: Watch) -> None:
    def train() -> None:
        net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
        nn.init.xavier_uniform_(net[0].weight)
        nn.init.zeros_(net[0].bias)
        nn.init.zeros_(net[0].bias)
        steps(net, lambda: net(torch.ones(2, 4)).sum())

    counts = {item.name: item.value for item in watched(train).measured("parameter.initialised")}
    assert counts == {"0.weight": 2.0, "0.bias": 3.0, "1.weight": 1.0, "1.bias": 1.0}


def test_drawing_into_a_parameter_initialises_it(watched: Watch) -> None:
    """Through `.data`, as libraries do, and by a method of the parameter itself; a part of it is no initialisation."""

    def train() -> None:
        net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
        net[0].weight.data.normal_(std=0.02)
        with torch.no_grad():
            net[0].bias.uniform_()
            net[1].weight[:1].normal_()
        torch.empty(2, 3).normal_()
        steps(net, lambda: net(torch.ones(2, 4)).sum())

    counts = {item.name: item.value for item in watched(train).measured("parameter.initialised")}
    assert counts == {"0.weight": 2.0, "0.bias": 2.0, "1.weight": 1.0, "1.bias": 1.0}


def test_memory_that_was_drawn_into_and_given_back_counts_no_more(watched: Watch) -> None:
    def train() -> None:
        for _ in range(20):
            torch.empty(4, 3).normal_()
        net = nn.Linear(3, 4)
        steps(net, lambda: net(torch.ones(2, 3)).sum())

    counts = {item.name: item.value for item in watched(train).measured("parameter.initialised")}
    assert counts == {"weight": 1.0, "bias": 1.0}


def test_parameters_that_lie_where_others_lie(watched: Watch) -> None:
    def train() -> None:
        online, target = nn.Linear(4, 3), nn.Linear(4, 3)
        target.weight.data = online.weight.data
        target.bias.data.copy_(online.bias.data)
        steps(nn.ModuleDict({"online": online, "target": target}), lambda: online(torch.ones(2, 4)).sum())

    trace = watched(train)
    (shared,) = trace.measured("parameter.shares")
    assert shared.name == "target.weight"
    assert trace.symbols["var", int(shared.value)]["name"] == "online.weight"


def test_tied_names_and_memory_that_is_used_again_are_not_shared(watched: Watch) -> None:
    """One tensor of two names is one parameter; and the next model often gets the memory of one that is gone."""

    def train() -> None:
        for _ in range(4):
            net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
            net[1].weight = net[0].weight
            steps(net, lambda net=net: net(torch.ones(2, 4)).sum())
            del net
            gc.collect()

    trace = watched(train)
    assert len(trace.measured("parameter.rms")) == 4 * 3
    assert trace.values("parameter.shares") == []


def test_a_parameter_that_moves_into_a_model_does_not_share_memory_with_itself(watched: Watch) -> None:
    def train() -> None:
        scale = nn.Parameter(torch.ones(4))
        optimizer = torch.optim.SGD([scale], lr=0.1)
        scale.sum().backward()
        optimizer.step()
        net = nn.ParameterList([scale])
        steps(net, lambda: net[0].square().sum())

    trace = watched(train)
    assert [item.root for item in trace.measured("parameter.rms")] == [None, "ParameterList"]
    assert trace.values("parameter.shares") == []


def test_parameters_that_are_swapped_for_a_functional_call(watched: Watch) -> None:
    """What a function puts in the place of parameters for a while is none of them, first look or later one."""
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    begun = float(net[0].weight.detach().square().mean().sqrt())
    x = torch.randn(5, 4)

    def train() -> None:
        for step in range(3):
            swapped = {name: 7.0 * parameter for name, parameter in net.named_parameters()}
            torch.func.functional_call(net, swapped, (x,)).square().sum().backward()
            if not step:
                optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
            optimizer.step()

    trace = watched(train)
    first = {item.name: item.value for item in trace.measured("parameter.rms")}
    assert first["0.weight"] == pytest.approx(begun)
    for name in first:
        assert len(trace.changed("parameter", name)) == 1 + 3, "the first look and three steps"
        assert {change.parent for change in trace.changed("parameter", name)[1:]} == {
            call.seq for call in trace.called("torch.optim.SGD.step")
        }
        assert len(trace.changed("requires_grad", name)) == 1


def test_activations_in_training(watched: Watch) -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    x = torch.randn(6, 4)
    with torch.no_grad():
        inner = net[0](x)
    expected = {"0": inner, "1": inner.tanh(), "": inner.tanh()}

    def train() -> None:
        steps(net, lambda: net(x).sum(), lr=0.0)
        net.eval()
        net(x)

    rms = {item.path: item.value for item in watched(train).measured("activation.rms")}
    assert rms == pytest.approx({path: float(value.square().mean().sqrt()) for path, value in expected.items()})


def test_inputs_of_a_model_that_are_data(watched: Watch) -> None:
    """Numbers, wherever they lie in the arguments, tokens and masks for other measures, not what another model made. A
    part that is given the same numbers is told of too.
    """

    class Takes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 3)

        def forward(self, batch: Any, tokens: Any, made: Any) -> Any:
            return self.inner(batch["x"]).sum() + self.inner(2 * batch["x"] + made.sum()).sum() + tokens.sum()

    net, x, tokens = Takes(), 3 * torch.randn(6, 4), torch.ones(2, dtype=torch.long)
    made = torch.ones(3, requires_grad=True)

    def train() -> None:
        steps(net, lambda: net({"x": x, "mask": x > 0}, tokens, made), lr=0.0, count=3)
        with torch.no_grad():
            net({"x": 100 * x}, tokens, made)

    trace = watched(train)
    found = {(item.path, item.measure) for item in trace.measures if item.measure.startswith("input.rms")}
    assert found == {("", "input.rms.batch.x"), ("inner", "input.rms.input")}
    others = {(item.path, item.measure.split(".", 2)[2]) for item in trace.measures if item.measure[:6] == "input."}
    assert others == {("", "batch.x"), ("", "batch.mask"), ("", "tokens"), ("inner", "input")}
    for name in ("input.rms.batch.x", "input.rms.input"):
        assert trace.values(name) == pytest.approx([float(x.square().mean().sqrt())] * 2), "two steps"


# Copies


@pytest.mark.parametrize(
    "duplicate",
    [
        lambda p: p.detach().clone(),
        lambda p: torch.clone(p.detach()),
        lambda p: p.data.clone(),
        lambda p: copy.deepcopy(p.detach()),
    ],
    ids=["detach.clone", "torch.clone", "data.clone", "deepcopy"],
)
def test_copies_in_a_plain_dictionary_are_tracked(watched: Watch, duplicate: Callable[[Any], Any]) -> None:
    net = nn.Linear(4, 3)

    def train() -> None:
        shadow = {name: duplicate(parameter) for name, parameter in net.named_parameters()}
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            net(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            with torch.no_grad():
                for name, parameter in net.named_parameters():
                    shadow[name].lerp_(parameter, 0.1)

    trace = watched(train)
    changes = [item for item in trace.changed("parameter") if item.root == "copy of Linear"]
    for name in ("weight", "bias"):
        assert len([item for item in changes if item.name == name]) == 4
    assert [root["name"] for root in trace.all("root")] == ["Linear", "copy of Linear"]


def test_copies_that_are_thrown_away_or_live_in_a_module_are_not_tracked(watched: Watch) -> None:
    net = Tiny()

    def train() -> None:
        [parameter.detach().clone() for parameter in net.parameters()]
        teacher = copy.deepcopy(net)
        kept = torch.randn(8, 8).clone()
        net.register_buffer("start", net.out.weight.detach().clone())
        steps(net, lambda: net(words()).sum(), count=2)
        assert kept is not None
        assert teacher is not None

    assert [root["name"] for root in watched(train).all("root")] == ["Tiny", "Tiny"]


def test_how_initial_values_are_distributed(watched: Watch) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.even = nn.Parameter(torch.linspace(-1, 1, 300))
            self.tails = nn.Parameter(torch.cat([torch.linspace(-1, 1, 299), torch.tensor([9.0])]))
            self.turned = nn.Parameter(nn.init.orthogonal_(torch.empty(6, 4)))
            self.padded = nn.Parameter(torch.cat([torch.ones(2, 3), torch.zeros(1, 3)]))
            self.constant = nn.Parameter(torch.ones(20, 20))

        def forward(self, x: Any) -> Any:
            return x * sum(parameter.sum() for parameter in self.parameters())

    net = Net()
    trace = watched(lambda: steps(net, lambda: net(torch.ones(2)).sum()))

    def found(name: str) -> dict[str, float]:
        measured = trace.measured(f"parameter.{name}")
        return {item.name: item.value for item in measured if not item.name.startswith("group")}

    assert found("farthest") == {"even": pytest.approx(1.73, abs=0.01), "tails": pytest.approx(11.6, abs=0.5)}
    assert found("orthogonal") == {"turned": 1.0, "padded": 0.0}
    assert found("zero row") == {"turned": -1.0, "padded": 2.0}
    assert found("equal") == {"constant": 1.0}


def test_elements_are_equal_to_the_last_bit_or_not_at_all(watched: Watch) -> None:
    """Two that were drawn are close to each other now and then, and in few bits the same."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.close = nn.Parameter(torch.tensor([-0.041464023, -0.041466221]))
            self.same = nn.Parameter(torch.full((2,), 0.1))
            self.coarse = nn.Parameter(torch.full((3,), 0.1, dtype=torch.bfloat16))
            self.many = nn.Parameter(torch.full((4,), 0.1, dtype=torch.bfloat16))
            self.single = nn.Parameter(torch.ones(1))

        def forward(self, x: Any) -> Any:
            return x * sum(parameter.float().sum() for parameter in self.parameters())

    net = Net()
    trace = watched(lambda: steps(net, lambda: net(torch.ones(2)).sum()))
    measured = trace.measured("parameter.equal")
    assert {item.name: item.value for item in measured if not item.name.startswith("group")} == {
        "close": 0.0,
        "same": 1.0,
        "many": 1.0,
    }
