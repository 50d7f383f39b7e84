"""A module that returns several tensors: which of them is another, and who is given it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judgements import describe

torch = pytest.importorskip("torch")

from real_training import check, recorded  # noqa: E402

from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402


class Speech(torch.nn.Module):
    """Scores of each frame, and how many frames each row has."""

    def __init__(self, longest: bool, doubled: bool) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(5, 4)
        self._longest, self._doubled = longest, doubled

    def forward(self, x: Any, lengths: Any) -> Any:
        scores = self.layer(x).log_softmax(-1) * (2 if self._doubled else 1)
        return scores, torch.full_like(lengths, x.shape[0]) if self._longest else lengths.clone()


def loop(seed: int = 0, longest: bool = False, doubled: bool = False) -> Callable[[], None]:
    def train() -> None:
        torch.manual_seed(seed)
        model, loss = Speech(longest, doubled), torch.nn.CTCLoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(4):
            lengths, labels = torch.randint(6, 9, (3,)), torch.randint(1, 4, (3, 2))
            scores, frames = model(torch.randn(9, 3, 5), lengths)
            optimizer.zero_grad()
            loss(scores, labels, frames, torch.full((3,), 2)).backward()
            optimizer.step()

    return train


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    folder = tmp_path_factory.mktemp("golden")
    return learn([recorded(loop(seed), folder / str(seed)) for seed in (0, 1)], pipeline="story")


def test_the_part_that_is_another_and_who_is_given_it(golden: Golden, tmp_path: Path) -> None:
    incidents = check(golden, loop(longest=True), tmp_path).incidents
    assert [item.cause.title for item in incidents] == [
        "`Speech` returns a different `result[1]` than in the golden run, though inputs, parameters and random state "
        "are the same; the first call with a different input is `CTCLoss` (`input_lengths`)."
    ], describe(incidents)


def test_a_result_that_is_another_as_a_whole(golden: Golden, tmp_path: Path) -> None:
    incidents = check(golden, loop(longest=True, doubled=True), tmp_path).incidents
    assert incidents[0].cause.title.startswith("`Speech` returns a different result than"), describe(incidents)
