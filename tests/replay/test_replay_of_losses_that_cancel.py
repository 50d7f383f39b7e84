"""A loss that is a difference of large terms is off by their rounding, however small it is itself."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from replays import Judge  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.check.evaluate import check_run  # noqa: E402


def training(written: str = "difference", factor: float = 1.0):  # type: ignore[no-untyped-def]
    """A policy that is its old one: the mean of ratios that are 1, with advantages that add up to nothing."""

    def train(seed: int) -> None:
        torch.manual_seed(seed)
        policy = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))
        optimizer = torch.optim.SGD(policy.parameters(), lr=0.05)
        for _ in range(4):
            states, actions = torch.randn(64, 6), torch.randint(0, 4, (64,))
            gains = torch.randn(64)
            gains = factor * (gains - gains.mean()) / gains.std()
            logits = policy(states)
            if written == "difference":
                chosen = torch.log_softmax(logits, -1).gather(1, actions[:, None])[:, 0]
            else:
                chosen = logits.gather(1, actions[:, None])[:, 0] - logits.logsumexp(-1)
            loss = -(gains * (chosen - chosen.detach()).exp()).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return train


def titles(judge: Judge, candidate) -> list[str]:  # type: ignore[no-untyped-def]
    golden = judge.golden(training())
    found = check_run(golden, judge.run(candidate), same_spec=True).incidents
    return [incident.violations[0].title for incident in found]


def test_the_same_in_other_words_is_silent(judge: Judge) -> None:
    assert titles(judge, training("by logsumexp")) == []


def test_other_gradients_of_it_are_reported(judge: Judge) -> None:
    assert "gradients" in titles(judge, training(factor=2.0))[0]
