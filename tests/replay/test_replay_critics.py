"""Replay of a critic that takes several steps for one of its generator, in models that run while they are made."""

from __future__ import annotations

import linecache
from typing import Any

import pytest
import torch
from replays import Record, recorder, replayed
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from pytest_traincheck.infer import learn


class Adversaries:
    """What may be computed otherwise are the critic's loss, the generator's loss and the data."""

    def __init__(
        self,
        distance: float = 1.0,
        generator: float = 1.0,
        data: float = 0.0,
        bias: float = 0.0,
        shown: float = 1.0,
        drawn: int = 1,
        clamped: bool = True,
    ) -> None:
        self.distance, self.generator, self.data = distance, generator, data
        self.bias, self.shown, self.drawn, self.clamped = bias, shown, drawn, clamped

    def __call__(self) -> None:
        torch.manual_seed(0)
        source = torch.Generator().manual_seed(0)
        critic = nn.Sequential(spectral_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 1))
        critic(torch.full((1, 6), self.shown))  # to see that the shapes fit
        generator = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 6))
        with torch.no_grad():
            generator[0].bias += self.bias
        steps_c = torch.optim.Adam(critic.parameters(), lr=1e-3)
        steps_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
        torch.randn(self.drawn)  # pictures of noise, say
        torch.manual_seed(1)
        for _ in range(2):
            for _ in range(5):
                real = torch.randn(4, 6, generator=source) + self.data
                with torch.no_grad():
                    fake = generator(torch.randn(4, 3))
                distance = critic(real).mean() - critic(fake).mean()
                steps_c.zero_grad()
                (-self.distance * distance).backward()
                steps_c.step()
                if self.clamped:
                    with torch.no_grad():
                        for weight in critic.parameters():
                            weight.clamp_(-0.2, 0.2)
            steps_g.zero_grad()
            (-self.generator * critic(generator(torch.randn(4, 3))).mean()).backward()
            steps_g.step()


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Any:
    record = recorder(tmp_path_factory.mktemp("critics"))
    return learn([record(Adversaries()), record(Adversaries())], pipeline="critics", seeds=(0, 1))


@pytest.mark.parametrize("drawn", [1, 2])
def test_the_loss_of_a_critic_that_ran_while_it_was_made(golden: Any, record: Record, drawn: int) -> None:
    """Whatever was drawn in between: the step begins with the first forward pass that is no trial."""
    found = replayed(golden, record(Adversaries(distance=1.25, drawn=drawn)))
    assert [violation.title.partition(",")[0] for violation in found] == ["`backward` starts from a different loss"]


def test_the_loss_of_a_generator_that_waits_for_five_steps_of_its_critic(golden: Any, record: Record) -> None:
    (found,) = replayed(golden, record(Adversaries(generator=1.25)))
    assert found.title.startswith("`backward` starts from a different loss")
    assert "self.generator" in linecache.getline(__file__, int(found.source.rpartition(":")[2]))


def test_initial_numbers_of_a_model_that_is_made_after_another_one_has_run(golden: Any, record: Record) -> None:
    found = replayed(golden, record(Adversaries(bias=0.5)))
    assert "Sequential#1.0.bias" in found[0].title


@pytest.mark.parametrize("change", [{}, {"data": 1.0}, {"shown": 2.0}, {"drawn": 2}], ids=str)
def test_other_data_say_nothing(golden: Any, record: Record, change: dict[str, float]) -> None:
    """The data come from a generator of the script's own, and what the model is shown at first is no batch."""
    assert not replayed(golden, record(Adversaries(**change)))


def test_weights_that_are_not_clamped_after_each_step_of_a_critic(golden: Any, record: Record) -> None:
    found = replayed(golden, record(Adversaries(clamped=False)))
    assert "have different values than in the golden run after a training step" in found[0].title
    assert "steps_c.step()" in linecache.getline(__file__, int(found[0].source.rpartition(":")[2]))
