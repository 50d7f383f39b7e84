"""Data that is new, and in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from law_verdict import Verdict, verdict
from training_story import Loop, Story, Training

if TYPE_CHECKING:
    from training_story import Recorder


def loaded(*, shuffled: float = 1.0, orders: str = "abcd", evaluation: float = 0.0, content: str = "") -> Story:
    """Two passes over two batches each, in an order that letters tell, and an evaluation."""

    def story(t: Training) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        for epoch in range(2):
            for number in range(2):
                letter = orders[2 * epoch + number]
                with t.call("torch.utils.data.DataLoader.__next__", type="data", digest=ord(content or letter), line=7):
                    t.measure("batch.shuffled", shuffled)
                    t.measure("batch.chosen", digest=ord(letter))
                t.zero_grad(optimizer)
                t.forward(model)
                t.backward(model)
                t.step(optimizer)
            with t.call("torch.utils.data.DataLoader.__next__", type="data", raised=True, line=7):
                pass
            with t.call("torch.utils.data.DataLoader.__next__", type="data", digest=1, line=9):
                t.measure("batch.shuffled", evaluation)
            t.mode(model, False)
            with t.no_grad():
                t.forward(model, line="evaluate")
            t.mode(model, True)

    return story


def in_one_batch(t: Training) -> None:
    """All data of an epoch are one batch."""
    model = t.model()
    optimizer = t.adamw(list(model.parameters.values()))
    for _ in range(3):
        with t.call("torch.utils.data.DataLoader.__next__", type="data", digest=1, line=7):
            t.measure("batch.shuffled", 0.0)
        t.zero_grad(optimizer)
        t.forward(model)
        t.backward(model)
        t.step(optimizer)
        with t.call("torch.utils.data.DataLoader.__next__", type="data", raised=True, line=7):
            pass


def worked(
    t: Training, *, states: tuple[int, int], iterators: tuple[int, int], numbers: tuple[int, int],
    stream: str = "torch", moved: float = 4.0, chosen: bool = True, trains: bool = True,
) -> None:  # fmt: skip
    """A training process and two workers of it that begin with these random states.

    Each makes one batch: of examples that were asked for by number or not, which a model is trained with or not.
    """
    model = t.model()
    optimizer = t.adamw(list(model.parameters.values()))
    for number in range(2):
        with t.call("torch.utils.data.DataLoader.__next__", type="data", digest=50 + number, line=7):
            t.measure("batch.maker", digest=10 + number)
        if not trains:
            with t.no_grad():
                t.forward(model, line="evaluate")
    t.zero_grad(optimizer)
    t.forward(model)
    t.backward(model)
    t.step(optimizer)
    for number in range(2):
        worker = Training(t.path.parent, rank=0, started=2.0 + number)
        with worker.call("torch.utils.data.DataLoader.worker", type="worker"):
            worker.measure("worker", float(numbers[number]), digest=iterators[number])
            worker.measure(f"rng.{stream}", digest=states[number])
        with worker.call("torch.utils.data.DataLoader.fetch", type="worker"):
            worker.measure("fetch", digest=10 + number)
            worker.measure("fetch.drawn", digest=5)
            if chosen:
                worker.measure("fetch.chosen", digest=20 + number)
                worker.measure(f"fetch.{stream}", moved)
        worker.write(ppid=100)


def siblings(first: int, second: int, **details: Any) -> Story:
    """Two workers of one iterator."""
    return lambda t: worked(t, states=(first, second), iterators=(7, 7), numbers=(0, 1), **details)


def successors(first: int, second: int, **details: Any) -> Story:
    """The same worker in two epochs."""
    return lambda t: worked(t, states=(first, second), iterators=(7, 8), numbers=(0, 0), **details)


SILENT = ("WorkersDiffer", "EpochsDiffer", "OrderDiffers", "Shuffles", "EvaluationInOrder")
LOOPS = [*((name, Loop(), "silent") for name in SILENT), ("NewBatches", Loop(), "holds")]
STORIES = [
    ("WorkersDiffer", siblings(1, 2), "holds"),
    ("WorkersDiffer", siblings(1, 1), "broken"),
    ("EpochsDiffer", successors(1, 2), "holds"),
    ("EpochsDiffer", successors(1, 1), "broken"),
    ("WorkersDiffer", siblings(1, 1, stream="dataset"), "broken"),
    ("WorkersDiffer", siblings(1, 1, stream="dataset", moved=0.0), "silent"),
    ("WorkersDiffer", siblings(1, 1, stream="numpy", moved=0.0), "silent"),
    ("WorkersDiffer", siblings(1, 1, chosen=False), "silent"),
    ("WorkersDiffer", siblings(1, 1, trains=False), "silent"),
    ("EpochsDiffer", successors(1, 1, trains=False), "silent"),
    ("OrderDiffers", loaded(), "holds"),
    ("OrderDiffers", loaded(orders="abab"), "broken"),
    ("OrderDiffers", loaded(orders="abab", shuffled=0.0), "silent"),
    ("Shuffles", loaded(), "holds"),
    ("Shuffles", loaded(shuffled=0.0), "broken"),
    ("Shuffles", in_one_batch, "silent"),
    ("EvaluationInOrder", loaded(), "holds"),
    ("EvaluationInOrder", loaded(evaluation=1.0), "broken"),
    ("NewBatches", loaded(), "holds"),
    ("NewBatches", loaded(content="x"), "broken"),
]


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_stories(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story)) == said
