"""A small golden as `traincheck refresh` would learn it."""

from __future__ import annotations

import pytest

from pytest_traincheck.golden.model import Golden
from pytest_traincheck.rules.claims import Foreign
from pytest_traincheck.rules.conditions import Clause
from pytest_traincheck.rules.model import Invariant, Kind, Scope

TRAIN = Clause("stage", ("train",))


@pytest.fixture
def rules() -> tuple[Invariant, ...]:
    return (
        Invariant(
            "EventContain",
            "torch.optim.AdamW.step",
            Foreign({"call": "torch.optim.AdamW.step", "change": "parameter"}),
            (TRAIN,),
            Scope.TRANSFERABLE,
            Kind.BEHAVIOUR,
            "Every `torch.optim.AdamW.step` changes the parameters.",
            24,
            3,
        ),
        Invariant(
            "APIArg",
            "torch.optim.AdamW",
            Foreign({"parameter": "lr", "value": 0.001}),
            (),
            Scope.PINNED,
            Kind.CONFIG,
            "`AdamW(lr)` is 0.001.",
            3,
            3,
        ),
        Invariant(
            "Count",
            "torch.nn.Dropout",
            Foreign({"per": "step", "count": "never"}),
            (Clause("stage", ("train", "init"), negated=True),),
            Scope.TRANSFERABLE,
            Kind.BEHAVIOUR,
            "Dropout „ruht“ in eval.",
            12,
            3,
        ),
    )


@pytest.fixture
def golden(rules: tuple[Invariant, ...]) -> Golden:
    return Golden(
        pipeline="tiny_gpt",
        spec="9f8e7d",
        invariants=rules,
        commit="4f1c2ab90d",
        environment={"torch": "2.13.0", "python": "3.11.7"},
        seeds=(0, 1, 2),
        runs=3,
        reason="first golden",
        models={"GPT": {"head.weight": [64, 16], "head.bias": [64]}},
        optimizers={"AdamW": {"groups": 2}},
    )
