"""A loss that is a difference of large terms is off by their rounding, however small it is itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from replays import Judge  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.check.evaluate import check_run  # noqa: E402

Training = Callable[[int], None]
LOSS = "`backward` starts from a different loss"


def training(written: str = "", factor: float = 1.0, added: float = 0.0, *, nothing: bool = False) -> Training:
    """A policy that is its old one: the mean of ratios that are 1, with advantages that add up to nothing."""

    def train(seed: int) -> None:
        torch.manual_seed(seed)
        policy = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))
        optimizer = torch.optim.SGD(policy.parameters(), lr=0.05)
        for _ in range(4):
            states, actions = torch.randn(64, 6), torch.randint(0, 4, (64, 1))
            gains = torch.randn(64)
            gains = factor * (gains - gains.mean()) / gains.std()
            logits = policy(states)
            if written == "by logsumexp":
                chosen = logits.gather(1, actions)[:, 0] - logits.logsumexp(-1)
            else:
                chosen = torch.log_softmax(logits, -1).gather(1, actions)[:, 0]
            parts = -gains * (chosen - chosen.detach()).exp()
            loss = sum(part.sum() for part in parts.split(3)) / 64 if written == "in small parts" else parts.mean()
            optimizer.zero_grad()
            (loss - loss.detach() if nothing else loss + added).backward()
            optimizer.step()

    return train


def titles(judge: Judge, candidate: Training, known: Training | None = None) -> list[str]:
    golden = judge.golden(known or training())
    found = check_run(golden, judge.run(candidate), same_spec=True).incidents
    return [incident.violations[0].title for incident in found]


@pytest.mark.parametrize("written", ["by logsumexp", "in small parts"])
def test_the_same_in_other_words_is_silent(judge: Judge, written: str) -> None:
    assert titles(judge, training(written)) == []


def test_other_gradients_of_it_are_reported(judge: Judge) -> None:
    assert "gradients" in titles(judge, training(factor=2.0))[0]


def test_what_is_no_rounding_is_reported(judge: Judge) -> None:
    assert titles(judge, training(added=0.01))[0].startswith(LOSS)


def test_rounding_is_silent_where_golden_has_none(judge: Judge) -> None:
    assert titles(judge, training(), training(nothing=True)) == []


def test_a_loss_where_golden_has_none_is_reported(judge: Judge) -> None:
    assert titles(judge, training(added=0.01), training(nothing=True))[0].startswith(LOSS)
