"""Drawn: how many random numbers are drawn, and from which generator."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from judgements import describe, sentences, titles, violations

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from drawing import ROWS, SIZE, Loop, Recorded, noisy  # noqa: E402
from real_training import Real  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from pytest_traincheck.rules.model import Scope  # noqa: E402


@pytest.fixture
def record(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)


def test_the_numbers_of_a_step_are_a_rule_of_this_pipeline(record: Recorded) -> None:
    golden = record.golden(lambda seed: Loop(seed))
    assert sentences(golden, "Drawn") == [
        "`torch.nn.GRU` draws random numbers in training.",
        "Each of the first training steps draws as many numbers from torch's generator as in the golden runs.",
    ]
    assert {item.scope for item in golden.invariants if item.relation == "Drawn"} == {Scope.PINNED}
    assert not record.judged(golden, Loop(9)).incidents


def test_one_noise_for_the_batch(record: Recorded) -> None:
    golden = record.golden(lambda seed: Loop(seed))
    for seed in (0, 9):
        outcome = record.judged(golden, Loop(seed, augment=lambda batch: batch + 0.1 * torch.randn(1, 3, SIZE)))
        assert len(outcome.incidents) == 1, describe(outcome.incidents)
        assert titles(outcome, "Drawn") == [
            "In the golden run the training loop drew random numbers in step 1, 16 with `randint` and 288 with "
            "`randn_like`; in the candidate 16 with `randint` and 18 with `randn`."
        ]


class TwoPhases:
    """Some steps of one optimizer, and then LBFGS, whose first steps are looked at as closely as those of the first.
    What the steps in between have drawn is no part of its first one.
    """

    def __init__(self, seed: int, *, once: bool) -> None:
        self.seed, self.once = seed, once

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        model = nn.Linear(2, 1)
        first = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(5):
            first.zero_grad()
            model(torch.rand(16, 2)).mean().backward()
            first.step()
        second = torch.optim.LBFGS(model.parameters(), max_iter=3)
        kept = torch.rand(32, 2) if self.once else None

        def closure() -> Any:
            second.zero_grad()
            loss = model(torch.rand(32, 2) if kept is None else kept).pow(2).mean()
            loss.backward()
            return loss

        for _ in range(3):
            second.step(closure)


def test_points_that_are_drawn_in_each_closure(record: Recorded) -> None:
    golden = record.golden(lambda seed: TwoPhases(seed, once=True))
    assert not record.judged(golden, TwoPhases(9, once=True)).incidents
    outcome = record.judged(golden, TwoPhases(9, once=False))
    told = [found.title for found in violations(outcome, "Drawn") if "as many" in found.invariant.sentence]
    assert told == [
        "In the golden run step 5 drew 64 random numbers from torch's generator before its optimizer step began; in "
        "the candidate none."
    ], describe(outcome.incidents)


def test_dropout_of_a_layer_that_draws_by_itself(record: Recorded) -> None:
    golden = record.golden(lambda seed: Loop(seed))
    outcome = record.judged(golden, Loop(drop=0.0))
    assert len(outcome.incidents) == 1, describe(outcome.incidents)
    assert {found.title: found.step for found in violations(outcome, "Drawn")} == {
        "In the golden run `torch.nn.GRU` drew random numbers in each training step; in the candidate it draws none in "
        "`Regressor.rnn`.": 0,
        "In the golden run `Regressor.rnn` drew random numbers in step 0, 768; in the candidate none.": 0,
    }


@pytest.mark.parametrize(
    "other",
    [
        Loop(augment=lambda batch: batch + 0.1 * torch.empty_like(batch).normal_()),
        Loop(augment=lambda batch: torch.normal(batch, 0.1)),
        Loop(ahead=True),
        Loop(unused=5000),
    ],
    ids=["filled in place", "drawn around the batch", "batches made ahead", "draws of set-up"],
)
def test_the_same_numbers_drawn_by_others(other: Loop, record: Recorded) -> None:
    golden = record.golden(lambda seed: Loop(seed))
    assert not violations(record.judged(golden, other), "Drawn")


def some(batch: Any) -> Any:
    """As many numbers as it takes."""
    while float(torch.rand(())) < 0.7:
        batch = batch * 1.01
    return batch


def test_where_chance_decides_how_many_only_none_is_too_few(record: Recorded) -> None:
    golden = record.golden(lambda seed: Loop(seed, augment=some))
    assert sentences(golden, "Drawn") == [
        "`torch.nn.GRU` draws random numbers in training.",
        "Training steps draw random numbers from torch's generator.",
    ]
    for seed in (0, 3, 4):
        assert not violations(record.judged(golden, Loop(seed, augment=noisy)), "Drawn")


@pytest.mark.parametrize(
    ("augment", "generator"),
    [
        (lambda batch: batch * float(np.random.uniform(0.9, 1.1)), "numpy's generator"),
        (lambda batch: batch * random.uniform(0.9, 1.1), "the generator of `random`"),
    ],
)
def test_generators_of_others(augment: Callable[[Any], Any], generator: str, record: Recorded) -> None:
    golden = record.golden(lambda seed: Loop(seed, augment=augment))
    outcome = record.judged(golden, Loop(augment=lambda batch: batch))
    assert titles(outcome, "Drawn") == [
        f"In the golden run step 1 drew 2 random numbers from {generator}; in the candidate none."
    ]


def test_a_generator_that_functions_are_handed(record: Recorded) -> None:
    def with_own(seed: int, shape: tuple[int, ...]) -> Loop:
        own = torch.Generator().manual_seed(seed)
        return Loop(seed, augment=lambda batch: batch + 0.1 * torch.randn(shape, generator=own))

    golden = record.golden(lambda seed: with_own(seed, (ROWS, 3, SIZE)))
    assert not violations(record.judged(golden, with_own(9, (ROWS, 3, SIZE))), "Drawn")
    assert titles(record.judged(golden, with_own(0, (1, 3, SIZE))), "Drawn") == [
        "In the golden run step 1 drew 288 random numbers from generators that functions are given; in the candidate "
        "18."
    ]


def test_one_seed_does_not_tell(record: Recorded) -> None:
    assert not sentences(record.golden(lambda seed: Loop(seed), (0,)), "Drawn")
    assert not sentences(record.golden(lambda _: Loop(7), (0, 1)), "Drawn"), "the program seeds itself"


def mixed(seed: int, order: Callable[[int], Any]) -> Callable[[Any], Any]:
    """Noise, and an order of as many places as the data of a seed have."""

    def augment(batch: Any) -> Any:
        return noisy(batch) + 0.01 * order(40 + 7 * seed)[:ROWS, None, None].float()

    return augment


def as_sorted(places: int) -> Any:
    return torch.rand(places).argsort()


def test_what_is_drawn_in_every_step_however_many(record: Recorded) -> None:
    """Its number is another one in every golden run, and beside it the noise is drawn."""
    golden = record.golden(lambda seed: Loop(seed, mixed(seed, torch.randperm), drop=0.0))
    assert sentences(golden, "Drawn")[0] == (
        "Training steps draw more numbers from torch's generator than those that are as many in all golden runs."
    )
    once = torch.arange(40)
    (found, *_) = violations(record.judged(golden, Loop(0, mixed(0, lambda _: once), drop=0.0)), "Drawn")
    assert found.title == (
        "In the golden run every training step drew random numbers with `randperm`, beside 304 others; in the "
        "candidate no step draws more than those 304 others, so they are drawn before the loop or not at all."
    )
    assert not violations(record.judged(golden, Loop(0, mixed(0, as_sorted), drop=0.0)), "Drawn")
    assert not violations(record.judged(golden, Loop(3, mixed(3, torch.randperm), drop=0.0)), "Drawn")


def gaussian(rows: int, channels: int = 3, chosen: int = 0) -> Callable[[Any], Any]:
    """Noise by numpy, which rejects some of the numbers that it draws for it; beside other numbers."""

    def augment(batch: Any) -> Any:
        np.random.randint(300, size=chosen)
        noise = np.resize(np.random.normal(size=(channels, rows, SIZE)), (3, rows, SIZE))
        return batch + 0.1 * torch.from_numpy(noise).transpose(0, 1).float()

    return augment


def test_about_as_many_where_some_are_rejected(record: Recorded) -> None:
    golden = record.golden(lambda seed: Loop(seed, gaussian(ROWS), drop=0.0))
    assert "Training steps draw about as many numbers from numpy's generator as in the golden runs." in sentences(
        golden, "Drawn"
    )
    (found,) = violations(record.judged(golden, Loop(3, gaussian(1), drop=0.0)), "Drawn")
    assert found.title.startswith("In the golden run each training step drew ")
    assert found.title.endswith(": one is drawn for what had several, or for a whole batch.")
    assert not violations(record.judged(golden, Loop(4, gaussian(ROWS), drop=0.0)), "Drawn")


def test_one_for_three_beside_others(record: Recorded) -> None:
    """No step draws half of golden's least, but all do so on average; most of the same numbers is no half."""
    words = 2.55 * ROWS * SIZE
    chosen = int(words / 3)
    golden = record.golden(lambda seed: Loop(seed, gaussian(ROWS, chosen=chosen), drop=0.0))
    (found,) = violations(record.judged(golden, Loop(3, gaussian(ROWS, 1, chosen), drop=0.0)), "Drawn")
    assert found.title.endswith(": one is drawn for what had several, or for a whole batch.")
    assert not violations(record.judged(golden, Loop(3, gaussian(ROWS, 2, chosen), drop=0.0)), "Drawn")


def test_larger_batches_draw_more(record: Recorded) -> None:
    """What goes through the model is named, and not only what is drawn for it."""

    def grown(batch: Any) -> Any:
        return noisy(torch.cat([batch, batch]))

    golden = record.golden(lambda seed: Loop(seed, drop=0.0))
    (found,) = violations(record.judged(golden, Loop(0, grown, drop=0.0)), "Drawn")
    assert found.title == (
        "In the golden run models were given 16 examples at a time in step 1; in the candidate 32, so that more "
        "numbers were drawn from torch's generator: 592 instead of 304."
    )


def test_seeds_of_loaders_and_initial_values_are_no_draws(record: Recorded) -> None:
    """A loader in order draws a seed for workers that it does not have."""
    golden = record.golden(lambda seed: Real(seed, shuffle=False))
    more = Real(shuffle=False, between=lambda _: next(iter(torch.utils.data.DataLoader(torch.arange(4)))))
    assert not violations(record.judged(golden, more), "Drawn")
    assert not violations(record.judged(golden, Real(shuffle=False, between=lambda _: nn.Linear(3, 3))), "Drawn")


class Sampler(nn.Module):
    """Its code is a sample, in training and in evaluation."""

    def __init__(self, when: tuple[bool, ...] = (True, False)) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(SIZE, 4), nn.Linear(4, SIZE)
        self.when = when

    def forward(self, rows: Any) -> Any:
        code = self.encode(rows)
        return self.decode(code + torch.randn_like(code) if self.training in self.when else code)


@dataclass(frozen=True)
class Late:
    """A training that is evaluated behind its tenth step, when nothing else is measured any more."""

    seed: int = 0
    model: Callable[[], Any] = Sampler
    apart: bool = False
    """Whether evaluation calls the parts of the model, and draws itself."""

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        model = self.model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(10):
            rows = torch.randn(ROWS, SIZE)
            optimizer.zero_grad()
            F.mse_loss(model(rows), rows).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for _ in range(3):
                rows = torch.ones(ROWS, SIZE)
                if self.apart:
                    code = model.encode(rows)
                    model.decode(code + torch.randn_like(code))
                else:
                    model(rows)


def test_a_mean_in_place_of_a_sample_in_a_late_evaluation(record: Recorded) -> None:
    golden = record.golden(lambda seed: Late(seed))
    assert any("without gradients" in sentence for sentence in sentences(golden, "Drawn"))
    outcome = record.judged(golden, Late(model=lambda: Sampler((True,))))
    assert titles(outcome, "Drawn") == [
        "In the golden run models that were called without gradients after 10 steps drew 192 random numbers from "
        "torch's generator; in the candidate none."
    ]
    assert len(outcome.incidents) == 1
    for clean in (Late(9), Late(apart=True)):
        assert not violations(record.judged(golden, clean), "Drawn")


def test_workers_that_draw_less_for_each_example(record: Recorded) -> None:
    golden = record.golden(lambda seed: Loaded(seed))
    rules = "Workers draw as many numbers from torch's generator for each example as in the golden runs."
    assert rules in sentences(golden, "Drawn")
    assert not violations(record.judged(golden, Loaded(9)), "Drawn")
    assert titles(record.judged(golden, Loaded(each=1)), "Drawn") == [
        "In the golden run workers drew 6 random numbers from torch's generator for each example; in the candidate 1."
    ]


class Disturbed(torch.utils.data.Dataset[Any]):
    """Rows with noise of their own."""

    def __init__(self, each: int) -> None:
        self.rows = torch.linspace(0, 1, 48 * SIZE).view(48, SIZE)
        self.each = each

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Any:
        return self.rows[number] + 0.1 * torch.rand(self.each)


@dataclass(frozen=True)
class Loaded:
    """Two workers make the batches; those of an evaluation are made without noise."""

    seed: int = 0
    each: int = SIZE

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        model = nn.Linear(SIZE, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for rows in torch.utils.data.DataLoader(Disturbed(self.each), batch_size=10, shuffle=True, num_workers=2):
            optimizer.zero_grad()
            model(rows).square().mean().backward()
            optimizer.step()
        with torch.no_grad():
            for rows in torch.utils.data.DataLoader(torch.ones(6, SIZE), batch_size=3, num_workers=1):
                model(rows)
