"""What is measured where models are loaded and saved, and that models keep their order."""

from __future__ import annotations

import io
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from measuring import Watch, steps  # noqa: E402
from torch import nn  # noqa: E402

pytestmark = pytest.mark.usefixtures("seeded")

MISSING, GIVEN, ITS_OWN = range(3)


def net() -> Any:
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))


def trained(model: Any) -> Any:
    steps(model, lambda: model(torch.randn(5, 4)).square().sum())
    return model


def given(trace: Any) -> dict[str, float]:
    return {item.name: item.value for item in trace.measured("load.given")}


def test_what_a_state_has_for_each_tensor(watched: Watch) -> None:
    def load() -> None:
        model = trained(net())
        model.load_state_dict({key: value.clone() for key, value in model.named_parameters()}, strict=False)

    found = given(watched(load))
    assert found["0.weight"] == found["1.bias"] == GIVEN
    assert found["1.running_mean"] == found["1.running_var"] == MISSING


def test_a_state_that_is_the_model_itself(watched: Watch) -> None:
    """`state_dict()` returns no copies: the best weights kept like this are the last ones."""

    def load() -> None:
        model = trained(net())
        kept = model.state_dict()
        model.load_state_dict(kept)

    assert set(given(watched(load)).values()) == {ITS_OWN}


def test_tied_weights_are_given_once(watched: Watch) -> None:
    def load() -> None:
        model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
        model[1].weight = model[0].weight
        steps(model, lambda: model(torch.randn(5, 3)).sum())
        model.load_state_dict({"0.weight": torch.ones(3, 3)}, strict=False)

    assert given(watched(load)) == {"0.weight": GIVEN}


def test_a_model_that_is_loaded_again_and_again(watched: Watch) -> None:
    """A target network may be loaded in every step: after a while that is no longer looked at."""

    def load() -> None:
        model = trained(nn.Linear(4, 3, bias=False))
        for _ in range(50):
            model.load_state_dict({"weight": torch.ones(3, 4)})

    assert watched(load).values("load.given") == [GIVEN] * 32


def test_a_state_that_was_asked_for_again_and_again(watched: Watch) -> None:
    """What is asked for in every step is not followed for ever, and then nothing is said of it."""

    def load() -> None:
        model, other = nn.Linear(4, 3, bias=False), trained(nn.Linear(4, 3, bias=False))
        for _ in range(50):
            trained(model)
            state = model.state_dict()
        other.load_state_dict(state)

    assert watched(load).values("load.given") == [GIVEN]


def test_a_part_and_a_wrapper_are_loaded_by_the_models_own_names(watched: Watch) -> None:
    def load() -> None:
        model = trained(net())
        wrapped = nn.DataParallel(model)
        model[0].load_state_dict({"weight": torch.ones(3, 4)}, strict=False)
        wrapped.load_state_dict({"module.1.weight": torch.ones(3)}, strict=False)

    trace = watched(load)
    first, second = trace.called("torch.nn.Module.load_state_dict")
    found = [(item.parent, item.name) for item in trace.measured("load.given") if item.value == GIVEN]
    assert [name for parent, name in found if parent == first.seq] == ["0.weight"]
    assert "1.weight" in [name for parent, name in found if parent == second.seq]


def test_parameters_are_described_as_they_are_when_they_are_first_looked_at(watched: Watch) -> None:
    """Loading comes before freezing: what is said of loading waits, and describes nothing."""

    def load() -> None:
        model = net()
        model.load_state_dict(net().state_dict())
        model[0].requires_grad_(False)
        trained(model)

    trace = watched(load)
    assert set(given(trace).values()) == {GIVEN}
    flags = {item["name"]: item["requires_grad"] for item in trace.all("var") if item["kind"] == "parameter"}
    assert flags["0.weight"] is False
    assert flags["1.weight"] is True


def test_the_content_of_what_is_saved(watched: Watch) -> None:
    """As it is, as a copy, within a container; what belongs to no model is left out."""

    def save() -> None:
        model = trained(net())
        state = {"model": model[0].state_dict(), "copies": {"1.weight": model[1].weight.detach().clone()}}
        torch.save({**state, "noise": torch.randn(3), "step": 3}, io.BytesIO())

    trace = watched(save)
    assert [item.name for item in trace.measured("save.content")] == ["0.weight", "0.bias", "1.weight"]
    assert all(item.digest for item in trace.measured("save.content"))
    left_out = [item.name for item in trace.measured("save.without")]
    assert left_out == ["1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"]


def test_what_is_saved_beside_a_module_that_knows_its_parent(watched: Watch) -> None:
    def save() -> None:
        model, knowing = trained(net()), net()
        knowing[0].add_module("parent", knowing)
        torch.save([knowing, model[0]], io.BytesIO())

    assert [item.name for item in watched(save).measured("save.content")] == ["0.weight", "0.bias"]


def test_models_are_numbered_in_the_order_in_which_they_were_made(watched: Watch) -> None:
    """Also where one lies at an address that a model which is gone has had."""
    made: list[str] = []

    def remake() -> None:
        for _ in range(8):
            first, second = trained(nn.Linear(2, 2)), trained(nn.Linear(3, 3))
            addresses = {id(first), id(second)}
            del first, second
            ours = [nn.Linear(size, size) for size in range(4, 10)]
            for model in reversed(ours):
                trained(model)
            made.append("again" if addresses & {id(model) for model in ours} else "elsewhere")
            del ours, model

    def trained(model: Any) -> Any:
        steps(model, lambda: model(torch.randn(5, model.in_features)).sum())
        return model

    trace = watched(remake)
    if "again" not in made:
        pytest.skip("no address was used again")
    weights = [item for item in trace.all("var") if item["kind"] == "parameter" and item["name"] == "weight"]
    ordinals = {item["i"]: item["ordinal"] for item in trace.all("root")}
    by_ordinal = [item["shape"][0] for item in sorted(weights, key=lambda item: ordinals[item["root"]])]
    assert by_ordinal == [2, 3, *range(4, 10)] * 8


def test_a_model_that_is_looked_at_while_it_is_made(watched: Watch) -> None:
    """Freezing a layer in a constructor is such a look, and nothing made after it is a reason for another."""

    class Frozen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = nn.Linear(4, 4).requires_grad_(False)
            self.scale = nn.Parameter(torch.ones(4))

        def forward(self, inputs: Any) -> Any:
            return self.base(inputs) * self.scale

    def train() -> None:
        model = Frozen()
        steps(model, lambda: model(torch.randn(5, 4)).sum())

    trace = watched(train)
    assert {item.name for item in trace.measured("parameter.rms")} == {"base.weight", "base.bias", "scale"}
    assert [call.root for call in trace.calls if call.entry] == ["Frozen"]


def test_an_optimizer_that_a_scheduler_is_made_for(watched: Watch) -> None:
    def train() -> None:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
        optimizer.zero_grad()
        model(torch.randn(5, 4)).sum().backward()
        optimizer.step()

    trace = watched(train)
    assert len(trace.measured("scheduler.made")) == 1
