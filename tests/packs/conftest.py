"""A small pack as `traincheck infer --transferable` would make it."""

from __future__ import annotations

import pytest

from pytest_traincheck.packs.model import Evidence, Level, Pack, PackRule
from pytest_traincheck.rules.claims import Foreign
from pytest_traincheck.rules.conditions import Clause
from pytest_traincheck.rules.model import Invariant, Kind, Scope


def invariant(relation: str, sentence: str, *when: Clause) -> Invariant:
    return Invariant(
        relation,
        "torch.optim.Optimizer",
        Foreign({"law": "always"}),
        when,
        Scope.TRANSFERABLE,
        Kind.BEHAVIOUR,
        sentence,
    )


@pytest.fixture
def pack() -> Pack:
    return Pack(
        "torch",
        rules=(
            PackRule(
                "gradients-left-over",
                Level.LAW,
                invariant("LeftOver", "No gradient is left over."),
                "`backward` adds to the gradients that are there.",
                "https://docs.pytorch.org/docs/stable/optim.html",
                "Call `zero_grad()`.",
                evidence=Evidence(("gan", "gpt", "mnist"), (), 240, 3, 0, 0.6316),
            ),
            PackRule(
                "eval-mode-in-training",
                Level.HABIT,
                invariant("TrainMode", "Training is in „train“ mode.", Clause("stage", ("train",))),
                meant="Statistics are frozen on purpose.",
                since="2.6",
                evidence=Evidence(("gan", "gpt"), ("gpt",), 20, 2, 1, 0.9747),
            ),
        ),
        programs=("gan", "gpt", "mnist"),
        versions={"torch": ("2.13.0",)},
        runs=4,
        reason="the reference pipelines",
    )
