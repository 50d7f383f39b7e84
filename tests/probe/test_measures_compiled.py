"""Which constants functions are given in compiled graphs: as they are bound, and only where they are constants."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from measuring import Trace, named, only  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.probe import observe  # noqa: E402

pytestmark = pytest.mark.usefixtures("seeded")

PREFIX = "constant:torch.nn.functional."


def constants(path: Path, model: Callable[..., Any], *inputs: Any) -> dict[str, Any]:
    """Argument -> value, of what `model` is compiled to."""
    torch._dynamo.reset()
    with observe(path):
        torch.compile(model, backend="eager")(*inputs)
    return told(only(path))


def told(trace: Trace) -> dict[str, Any]:
    parts = [name.partition("=") for name in named(trace, PREFIX)]
    return {place: json.loads(value) for place, _, value in parts}


def given(path: Path, model: Callable[..., Any], *inputs: Any) -> dict[str, Any]:
    """The same of what is called without compilation."""
    with observe(path):
        model(*inputs)
    found: dict[str, Any] = {}
    for call in only(path).calls:
        for name, value in (call.args if call.type == "function" else {}).items():
            if not isinstance(value, dict):
                found[f"{call.name.removeprefix('torch.nn.functional.')}({name})"] = value
    return found


def batch() -> Any:
    return torch.randn(4, 6, requires_grad=True)


class Everything(nn.Module):
    """Layers and functions, their constants given by position, by name and not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(6, eps=1e-3)
        self.batch_norm = nn.BatchNorm1d(6)
        self.groups = nn.GroupNorm(2, 6)
        self.rms = nn.RMSNorm(6, eps=1e-4)
        self.attention = nn.MultiheadAttention(6, 2, dropout=0.1)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

    def forward(self, x: Any) -> Any:
        x = self.groups(self.batch_norm(F.dropout(self.norm(x), 0.3)))
        x = self.rms(x)[None]
        x = self.attention(x, x, x, need_weights=False)[0]
        x = F.normalize(F.scaled_dot_product_attention(x, x, x, is_causal=True))[0]
        return self.criterion(x, torch.zeros(len(x), dtype=torch.long)) + F.huber_loss(x, x.detach(), delta=0.5)


def test_constants_are_those_of_the_same_calls_outside(tmp_path: Path) -> None:
    model = Everything()
    inside, outside = constants(tmp_path / "a", model, batch()), given(tmp_path / "b", model, batch())
    functions = ("layer_norm", "batch_norm", "group_norm", "rms_norm", "multi_head_attention_forward", "dropout",
                 "scaled_dot_product_attention", "normalize", "cross_entropy", "huber_loss")  # fmt: skip
    assert {name.partition("(")[0] for name in inside} == set(functions)
    # Attention calls functions of its own, whose arguments are not those of the graph.
    known = {name: value for name, value in outside.items() if name in inside and "scaled" not in name}
    assert {name: inside[name] for name in known} == known
    assert len(known) > 30
    assert inside["scaled_dot_product_attention(is_causal)"] is True
    assert inside["layer_norm(eps)"] == 1e-3
    assert inside["cross_entropy(ignore_index)"] == -100


@pytest.mark.parametrize("scale", [None, 1 / 6**0.5, 0.5])
def test_the_scale_that_attention_has_anyway(tmp_path: Path, scale: float | None) -> None:
    def attend(x: Any) -> Any:
        return F.scaled_dot_product_attention(x, x, x, scale=scale)

    found = constants(tmp_path, attend, batch())["scaled_dot_product_attention(scale)"]
    assert found == (0.5 if scale == 0.5 else None)


def test_numbers_that_vary_are_no_constants(tmp_path: Path) -> None:
    """Dynamo compiles again when a number has changed, and takes it for an input of the graph from then on."""
    model = nn.LayerNorm(6)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager")
    found = []
    for number, eps in enumerate((1e-5, 1e-3, 1e-2)):
        model.eps = eps
        with observe(tmp_path / str(number)):
            compiled(batch())
        found.append(told(only(tmp_path / str(number))))
    assert found == [{"layer_norm(eps)": 1e-5}, {}, {}]


def test_what_no_gradient_goes_through(tmp_path: Path) -> None:
    model = nn.LayerNorm(6)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    assert constants(tmp_path / "a", model, torch.randn(4, 6)) == {}
    with torch.no_grad():
        assert constants(tmp_path / "b", nn.LayerNorm(6), batch()) == {}


def test_functions_of_the_same_name_and_those_of_shapes(tmp_path: Path) -> None:
    def others(x: Any) -> Any:
        hidden = torch.layer_norm(x, (6,), None, None, 1e-3)
        hidden = torch.dropout(hidden, 0.5, True).softmax(-1)
        return F.conv1d(hidden[None], torch.ones(2, 4, 1)), F.linear(hidden, torch.ones(3, 6)), hidden @ hidden.t()

    assert constants(tmp_path, others, batch()) == {}


def test_every_function_has_known_parameters() -> None:
    """Otherwise nothing would be told, and nobody would notice."""
    from pytest_traincheck.probe.families import functions, graphs

    for name in functions.FUNCTIONAL:
        if hasattr(F, name) and not name.startswith(graphs._BY_SHAPE):
            source = functions._SIGNATURES.get(name, getattr(F, name))
            assert inspect.signature(source).parameters
