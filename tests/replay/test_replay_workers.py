"""Batches that worker processes make: what the training process is handed is compared, whoever made it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from replays import Record, replayed  # noqa: E402
from torch.utils.data import DataLoader, Dataset, IterableDataset  # noqa: E402

from pytest_traincheck.check.evaluate import check_run  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402

ROWS, CLASSES = 64, 10
Change = Callable[[Any, Any], tuple[Any, Any]]


def as_they_are(x: Any, y: Any) -> tuple[Any, Any]:
    return x, y


def other_labels(x: Any, y: Any) -> tuple[Any, Any]:
    return x, (y + 3) % CLASSES


def zeroed(x: Any, y: Any) -> tuple[Any, Any]:
    return x * (x[0] > 0), y


def augmented(x: Any, y: Any) -> tuple[Any, Any]:
    return x + 0.1 * torch.randn(6), y


def augmented_too_much(x: Any, y: Any) -> tuple[Any, Any]:
    return x + torch.randn(6), y


def augmented_with_fewer_draws(x: Any, y: Any) -> tuple[Any, Any]:
    return x + 0.1 * torch.randn(1), y


def another_class_now_and_then(x: Any, y: Any) -> tuple[Any, Any]:
    return x, y if torch.rand(()) < 0.7 else torch.randint(0, CLASSES, ())


def the_same_with_other_draws(x: Any, y: Any) -> tuple[Any, Any]:
    return x, y if torch.rand(2)[1] < 0.7 else torch.randint(0, CLASSES, ())


def noisy_labels(x: Any, _y: Any) -> tuple[Any, Any]:
    """From a generator that nobody seeds, where nobody looks for one."""
    return x, int(np.random.default_rng().integers(CLASSES))


def noisy_inputs(x: Any, y: Any) -> tuple[Any, Any]:
    """The same, as libraries of augmentations do."""
    return x + float(np.random.default_rng().normal()), y


class Rows(Dataset[Any]):
    """Rows of numbers with a class each, changed as they are taken."""

    def __init__(self, change: Change, seed: int = 0, backwards: bool = False) -> None:
        numbers = torch.Generator().manual_seed(seed)
        self.x = torch.randn(ROWS, 6, generator=numbers)
        self.y = torch.randint(0, CLASSES, (ROWS,), generator=numbers)
        if backwards:
            self.x, self.y = self.x.flip(0), self.y.flip(0)
        self.change = change

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> Any:
        return self.change(self.x[index], self.y[index])


class Stream(IterableDataset[Any]):
    """The same rows, one after the other."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __iter__(self) -> Any:
        info = torch.utils.data.get_worker_info()
        return iter([self.rows[index] for index in range(info.id, ROWS, info.num_workers)])


def train(
    change: Change = as_they_are, *, seed: int = 0, workers: int = 2, backwards: bool = False, stream: bool = False,
    **loader: Any,
) -> Callable[[], None]:  # fmt: skip
    """Four steps on batches of such rows."""

    def run() -> None:
        torch.manual_seed(seed)
        net = torch.nn.Linear(6, CLASSES)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        rows = Rows(change, seed, backwards)
        data: Any = Stream(rows) if stream else rows
        batches = DataLoader(data, batch_size=16, shuffle=not stream or None, num_workers=workers, **loader)
        for x, y in batches:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()

    return run


def golden_of(record: Record, story: Callable[..., Callable[[], None]] = train, again: bool = True) -> Golden:
    """What is learned from two seeds, the first of them run twice unless told otherwise."""
    repeated = [record(story())] if again else []
    return learn(
        [record(story(seed=seed)) for seed in (0, 1)], pipeline="workers", seeds=(0, 1), repeated=repeated
    )  # fmt: skip


def of_batches(golden: Golden, record: Record, story: Callable[[], None]) -> list[str]:
    return [item.title for item in replayed(golden, record(story)) if item.invariant.claim.of == "batch"]


@pytest.mark.parametrize(
    ("before", "after", "wrong"),
    [
        pytest.param(
            as_they_are,
            other_labels,
            ("the inputs (`batch[0]`) are as in the golden run, but the targets (`batch[1]`) are different"),
            id="labels",
        ),
        pytest.param(
            as_they_are,
            zeroed,
            ("the targets (`batch[1]`) are as in the golden run, but the inputs (`batch[0]`) are different"),
            id="inputs",
        ),
        pytest.param(
            augmented,
            augmented_too_much,
            ("the targets (`batch[1]`) are as in the golden run, but the inputs (`batch[0]`) are different"),
            id="augmentation",
        ),
    ],
)
@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_that_is_made_otherwise(
    record: Record, before: Change, after: Change, wrong: str, workers: int
) -> None:  # fmt: skip
    golden = golden_of(record, partial(train, before, workers=workers))
    assert not of_batches(golden, record, train(before, workers=workers))
    (title,) = of_batches(golden, record, train(after, workers=workers))
    assert wrong in title


def test_workers_that_stay(record: Record) -> None:
    stays = partial(train, persistent_workers=True)
    golden = golden_of(record, stays)
    assert of_batches(golden, record, stays(other_labels))
    assert not of_batches(golden, record, stays())


def test_a_stream(record: Record) -> None:
    golden = golden_of(record, partial(train, stream=True))
    assert of_batches(golden, record, train(other_labels, stream=True))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({}, {"backwards": True}, id="examples in another order"),
        pytest.param({}, {"seed": 5}, id="another seed"),
        pytest.param({}, {"workers": 1}, id="another number of workers"),
        pytest.param({}, {"workers": 0}, id="no workers any more"),
        pytest.param({"workers": 0}, {}, id="workers where there were none"),
        pytest.param({"change": augmented}, {"change": augmented_with_fewer_draws}, id="other draws for inputs"),
        pytest.param(
            {"change": another_class_now_and_then}, {"change": the_same_with_other_draws}, id="other draws for labels"
        ),
    ],
)
def test_other_batches_that_are_as_good(record: Record, before: dict[str, Any], after: dict[str, Any]) -> None:
    golden = golden_of(record, partial(train, **before))
    assert not replayed(golden, record(train(**{**before, **after})))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("noisy", [noisy_labels, noisy_inputs])
def test_batches_that_do_not_come_again(record: Record, noisy: Change, workers: int) -> None:
    """Golden's second run with the same seed shows that it draws anew each time."""
    golden = golden_of(record, partial(train, noisy, workers=workers))
    assert not of_batches(golden, record, train(noisy, workers=workers))
    assert not of_batches(golden, record, train(other_labels, workers=workers))


def test_without_a_second_run_nobody_knows_what_comes_again(record: Record) -> None:
    golden = golden_of(record, partial(train, noisy_labels), again=False)
    assert not replayed(golden, record(train(noisy_labels)))
    golden = golden_of(record, partial(train, noisy_inputs, workers=0), again=False)
    assert not replayed(golden, record(train(noisy_inputs, workers=0)))


@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0)])
def test_that_workers_make_the_batches_of_one_run_only_is_why_they_are_not_compared(
    record: Record, before: int, after: int
) -> None:
    """Nothing differs, so that nothing comes behind what differs."""
    golden = golden_of(record, partial(train, workers=before))
    found = check_run(golden, record(train(workers=after)), same_spec=True).coverage
    assert found is not None
    assert found.reasons == (("are batches that workers make in one of the runs only", 2),)
