"""Batches in random order that come again, in later steps, in the order of an earlier epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from judgements import sentences
from late_story import GOLDEN_STEPS, follow
from trace_builder import digest_of
from training_story import Recorder, Training

EPOCH = 20
CALLED = 1


@dataclass(frozen=True)
class Epochs:
    """The order of each epoch is a number; `orders` says which one an epoch has that does not have its own."""

    steps: int = GOLDEN_STEPS
    epoch: int = EPOCH
    orders: Callable[[int], int] = int
    examples: Callable[[int, int], object] = lambda order, place: (order, place)
    """Which examples are in a batch, by the number of the order and the place in it."""
    shuffled: bool | None = True
    """None: the sampler has an order of its own."""
    evaluates: bool = False
    """Whether the same batches are evaluated after each epoch."""
    augmented: bool = False
    """Whether what batches are made of is drawn anew, so that only the examples say what their order is."""
    numbered: Callable[[int], int] | None = None
    """Which number `set_epoch` gives an epoch; None: the sampler draws by no number."""

    def __call__(self, t: Training) -> None:
        model = t.model("Net", {"fc.weight": (4, 3)})
        optimizer = t.adamw([*model.parameters.values()])
        for step in range(self.steps):
            number, place = divmod(step, self.epoch)
            if step and not place:
                with t.call("torch.utils.data.DataLoader.__next__", type="data", raised=True):
                    pass
                if self.evaluates:
                    self._evaluate(t, model)
            t.zero_grad(optimizer)
            examples = (t.seed, self.examples(self.orders(number), place))
            t.batch(
                self._measure(t, examples, None if place else number),
                content=(t.seed, step) if self.augmented else examples,
            )
            t.forward(model)
            t.loss()
            t.backward(model)
            t.step(optimizer)

    def _measure(self, t: Training, examples: object, begins: int | None) -> Callable[[], None]:
        def measure() -> None:
            if self.shuffled is not None:
                t.measure("batch.shuffled", float(self.shuffled))
            if self.augmented:
                t.measure("batch.examples", float(self.shuffled is True), digest=digest_of(examples))
            if self.numbered is not None and begins is not None:
                t.measure("batch.epoch", float(self.numbered(begins)), digest=CALLED)

        return measure

    def _of_evaluation(self, t: Training) -> None:
        if self.numbered is not None:
            t.measure("batch.epoch", 0.0, digest=CALLED)

    def _evaluate(self, t: Training, model: object) -> None:
        with t.no_grad():
            for place in range(self.epoch):
                t.batch(None if place else lambda: self._of_evaluation(t), content=("held out", place))
                t.forward(model, line="evaluate")  # type: ignore[arg-type]


def told(recorder: Recorder, story: Epochs, *, piece: int = 10_000) -> list[tuple[str, int]]:
    golden = recorder.learn(replace(story, steps=GOLDEN_STEPS))
    assert any("batches of the DataLoader differ" in text for text in sentences(golden, "Distinct"))
    path = recorder.path()
    t = Training(path, seed=5)
    story(t)
    t.write()
    return [(each.cause.title, each.cause.step) for each in follow(path, golden, piece=piece)[1].incidents]


@pytest.mark.parametrize("steps", [75, 100, 200])
@pytest.mark.parametrize("piece", [67, 10_000])
@pytest.mark.parametrize("evaluates", [False, True])
def test_an_order_that_comes_again_is_told_at_its_first_step(
    recorder: Recorder, steps: int, piece: int, evaluates: bool
) -> None:
    story = Epochs(steps, orders=lambda epoch: 1 if epoch == 3 else epoch, evaluates=evaluates)
    ((title, step),) = told(recorder, story, piece=piece)
    assert step == 60
    assert "they are the same, in the same order, as from step 20 on" in title


def test_every_epoch_in_the_order_of_one_is_told(recorder: Recorder) -> None:
    ((_, step),) = told(recorder, Epochs(300, orders=lambda epoch: min(epoch, 6)))
    assert step == 140


def test_a_sampler_of_ones_own_that_keeps_its_batches_is_told(recorder: Recorder) -> None:
    ((title, step),) = told(recorder, Epochs(300, orders=lambda epoch: min(epoch, 4), shuffled=None))
    assert step == 100
    assert "they are the same, in the same order, as from step 80 on" in title


@pytest.mark.parametrize("piece", [67, 10_000])
def test_an_order_that_comes_again_is_told_by_the_examples(recorder: Recorder, piece: int) -> None:
    """What is made of them is another thing each time."""
    story = Epochs(100, orders=lambda epoch: 1 if epoch == 3 else epoch, augmented=True)
    ((title, step),) = told(recorder, story, piece=piece)
    assert step == 60
    assert "they are made of the same examples, in the same order, as from step 20 on (is a generator" in title


def test_a_sampler_of_ones_own_that_keeps_its_examples_is_told(recorder: Recorder) -> None:
    ((_, step),) = told(recorder, Epochs(300, orders=lambda epoch: min(epoch, 4), shuffled=None, augmented=True))
    assert step == 100


@pytest.mark.parametrize(
    ("numbered", "step"), [(lambda _: 0, 40), (lambda epoch: min(epoch, 2), 80), (lambda epoch: epoch // 3, 40)]
)
@pytest.mark.parametrize("piece", [67, 10_000])
def test_a_sampler_that_draws_for_one_epoch_is_told(
    recorder: Recorder, numbered: Callable[[int], int], step: int, piece: int
) -> None:
    story = Epochs(140, orders=lambda _: 0, augmented=True, numbered=numbered)
    ((title, found),) = told(recorder, story, piece=piece)
    assert found == step
    assert f"its number is still {numbered(step // EPOCH)} in the third iteration over the data" in title


@pytest.mark.parametrize("numbered", [int, lambda epoch: epoch // 2, lambda epoch: epoch % 2, lambda epoch: -epoch])
@pytest.mark.parametrize("evaluates", [False, True])
@pytest.mark.parametrize("piece", [67, 10_000])
def test_a_sampler_that_is_given_other_numbers_is_silent(
    recorder: Recorder, numbered: Callable[[int], int], evaluates: bool, piece: int
) -> None:
    """That of an evaluation has its own, which may stay."""
    story = Epochs(140, augmented=True, numbered=numbered, evaluates=evaluates)
    assert told(recorder, story, piece=piece) == []


@pytest.mark.parametrize("augmented", [False, True])
@pytest.mark.parametrize("piece", [67, 10_000])
def test_one_batch_over_and_over_is_told_at_its_second_step(recorder: Recorder, augmented: bool, piece: int) -> None:
    story = Epochs(100, augmented=augmented, examples=lambda number, place: (3, 4) if number >= 3 else (number, place))
    ((_, step),) = told(recorder, story, piece=piece)
    assert step == 61


@pytest.mark.parametrize("augmented", [False, True])
@pytest.mark.parametrize("piece", [67, 10_000])
def test_a_batch_that_ends_one_epoch_and_begins_the_next_is_silent(
    recorder: Recorder, augmented: bool, piece: int
) -> None:
    """With one example in a batch that comes by chance in one epoch out of so many."""
    story = Epochs(
        100,
        augmented=augmented,
        examples=lambda number, place: (number + 1, 0) if place == EPOCH - 1 else (number, place),
    )
    assert told(recorder, story, piece=piece) == []


@pytest.mark.parametrize(
    "story",
    [
        Epochs(200),
        Epochs(200, augmented=True),
        Epochs(200, augmented=True, orders=lambda _: 0),
        Epochs(200, augmented=True, orders=lambda epoch: min(epoch, 2), shuffled=None),
        Epochs(200, shuffled=None),
        Epochs(200, orders=lambda _: 0, shuffled=None),
        Epochs(200, orders=lambda epoch: min(epoch, 2), shuffled=None),
        Epochs(200, evaluates=True),
        Epochs(200, orders=lambda _: 0),
        Epochs(200, orders=lambda _: 0, shuffled=False),
        Epochs(200, orders=lambda epoch: min(epoch, 3), shuffled=False),
        Epochs(63, orders=lambda epoch: 1 if epoch == 3 else epoch),
        Epochs(200, epoch=3, orders=lambda epoch: epoch % 5),
    ],
    ids=[
        "another order in each", "another in each of what is drawn too", "one order of what is drawn too",
        "a sampler that draws examples twice", "by a sampler", "one order by a sampler", "a sampler that draws twice",
        "and an evaluation", "one order on purpose", "in order", "in order later",
        "too few batches", "few batches in an epoch",
    ],
)  # fmt: skip
def test_what_is_no_order_that_comes_again_is_silent(recorder: Recorder, story: Epochs) -> None:
    assert told(recorder, story) == []
