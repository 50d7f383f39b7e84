"""Whether the order of a loader's data is random, by the samplers that people, accelerate and Lightning give it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from measuring import Watch, only  # noqa: E402
from probe_runs import read_run  # noqa: E402
from torch.utils.data import (  # noqa: E402
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
)

from pytest_traincheck.probe import observe  # noqa: E402
from pytest_traincheck.probe.context import ThreadState  # noqa: E402
from pytest_traincheck.probe.families.samplers import hash_of  # noqa: E402

pytestmark = pytest.mark.usefixtures("seeded")

SHUFFLED = "batch.shuffled"


def orders(directory: Path, *loaders: Any) -> list[set[float]]:
    """What is measured of each loader by itself."""
    found = []
    for number, loader in enumerate(loaders):
        with observe(directory / str(number)):
            list(loader)
        found.append(set(only(directory / str(number)).values(SHUFFLED)))
    return found


@pytest.mark.parametrize(
    ("options", "shuffled"),
    [
        ({"shuffle": True}, [1.0, 1.0]),
        ({}, [0.0, 0.0]),
        ({"sampler": torch.utils.data.SubsetRandomSampler(range(8))}, [1.0, 1.0]),
        ({"sampler": [3, 1, 2, 0, 4, 5, 6, 7]}, []),
    ],
)
def test_whether_data_is_shuffled(watched: Watch, options: dict[str, Any], shuffled: list[float]) -> None:
    trace = watched(lambda: list(DataLoader(torch.arange(8.0), batch_size=4, **options)))
    assert trace.values(SHUFFLED) == shuffled


@pytest.mark.parametrize("shuffle", [True, False])
def test_whether_a_shard_is_shuffled(tmp_path: Path, shuffle: bool) -> None:
    class Looping(DistributedSampler[Any]):
        """Gives the last process as many examples as the others, as Trainers do."""

        def __iter__(self) -> Iterator[Any]:
            return iter([*super().__iter__(), 0])

    class Named(DistributedSampler[Any]):
        """Leaves the order to torch."""

    class Grouped(DistributedSampler[Any]):
        """Has an order of its own, and no flag for it."""

        def __init__(self, data: Any, *_: Any, **__: Any) -> None:
            self.data = data

        def __iter__(self) -> Iterator[Any]:
            return iter(torch.randperm(4).tolist())

        def __len__(self) -> int:
            return 4

    data: Any = torch.arange(8.0)
    loaders = [
        DataLoader(data, batch_size=4, sampler=kind(data, num_replicas=2, rank=0, shuffle=shuffle))
        for kind in (DistributedSampler, Named, Looping, Grouped)
    ]
    judged = {float(shuffle)}
    assert orders(tmp_path, *loaders) == [judged, judged, judged if shuffle else set(), set()]


class Seedable(RandomSampler):
    """Random by another generator, as accelerate's."""

    def __iter__(self) -> Iterator[int]:
        self.generator = torch.Generator().manual_seed(3)
        return super().__iter__()


class Backwards(SequentialSampler):
    """An order of its own."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(7, -1, -1))


class Sorted(BatchSampler):
    """Batches in an order of its own."""

    def __iter__(self) -> Iterator[list[int]]:
        return iter(sorted(super().__iter__(), key=lambda batch: -batch[0]))


class Renamed(BatchSampler):
    """Torch's batches under another name."""


@pytest.mark.parametrize(
    ("batches", "examples", "shuffled"),
    [
        (BatchSampler, RandomSampler, {1.0}),
        (BatchSampler, Seedable, {1.0}),
        (BatchSampler, SequentialSampler, {0.0}),
        (BatchSampler, Backwards, set()),
        (Renamed, SequentialSampler, {0.0}),
        (Sorted, RandomSampler, {1.0}),
        (Sorted, SequentialSampler, set()),
    ],
)
def test_samplers_that_others_have_written(
    watched: Watch, batches: type[BatchSampler], examples: Any, shuffled: set[float]
) -> None:
    data: Any = torch.arange(8.0)
    loader = DataLoader(data, batch_sampler=batches(examples(data), 4, False))
    assert set(watched(lambda: list(loader)).values(SHUFFLED)) == shuffled


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("processes", [1, 2])
def test_loaders_that_accelerate_has_prepared(tmp_path: Path, processes: int, shuffle: bool) -> None:
    prepare = pytest.importorskip("accelerate.data_loader")
    data: Any = torch.arange(16.0)
    loaders = [
        prepare.prepare_data_loader(
            DataLoader(data, batch_size=4, shuffle=shuffle),
            num_processes=processes,
            process_index=0,
            use_seedable_sampler=seedable,
        )
        for seedable in (True, False)
    ]
    resumed = [prepare.skip_first_batches(loader, 1) for loader in loaders]
    assert orders(tmp_path, *loaders, *resumed) == [{float(shuffle)}] * 4


@pytest.mark.parametrize("shuffle", [True, False])
def test_loaders_that_lightning_has_prepared(tmp_path: Path, shuffle: bool) -> None:
    """Weights make an order that its wrapper knows nothing of."""
    connector = pytest.importorskip("lightning.pytorch.trainer.connectors.data_connector")
    data: Any = torch.arange(16.0)
    weighted = torch.utils.data.WeightedRandomSampler([1.0] * 16, 16)
    plain, drawn = DataLoader(data, 4, shuffle=shuffle), DataLoader(data, 4, sampler=weighted)
    samplers = [
        connector._get_distributed_sampler(
            loader, loader is plain and shuffle, overfit_batches=0, num_replicas=2, rank=0
        )
        for loader in (plain, drawn)
    ]
    loaders = [DataLoader(data, 4, sampler=sampler) for sampler in samplers]
    assert orders(tmp_path, *loaders) == [{float(shuffle)}, set()]


EXAMPLES, EPOCH = "batch.examples", "batch.epoch"
CALLED, NOT_CALLED = 1, 2


def examples(trace: Any) -> list[tuple[float, int]]:
    return [(item.value, item.digest) for item in trace.measures if item.measure == EXAMPLES]


def training(directory: Path, happening: Callable[[], Any]) -> Any:
    """The trace of this process, without those of workers."""
    with observe(directory / "run"):
        happening()
    (trace,) = (each for each in read_run(directory / "run") if each.meta["pid"] == os.getpid())
    assert trace.meta["probe_errors"] == []
    return trace


class Drawing(Dataset[Any]):
    """Makes another thing of an example each time."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return index + torch.rand(3)


def passes(loader: Any, count: int, batches: int = 99) -> None:
    for _ in range(count):
        for number, _batch in enumerate(loader, start=1):
            if number == batches:
                break


@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}])
@pytest.mark.parametrize("batches", [99, 3])
def test_which_examples_are_drawn(tmp_path: Path, workers: dict[str, Any], batches: int) -> None:
    """In every iteration, whoever makes batches of them, and though it is left before its end."""
    orders = [torch.randperm(8).tolist() for _ in range(3)]
    loader = DataLoader(Drawing(), batch_size=2, sampler=_Given(orders), **workers)
    found = examples(training(tmp_path, lambda: passes(loader, 3, batches)))
    drawn = [order[place : place + 2] for order in orders for place in range(0, 8, 2)[:batches]]
    assert found == [(1.0, hash_of(ThreadState(), pair)) for pair in drawn]


class _Given(RandomSampler):
    """Draws what it was given, another order in each iteration."""

    def __init__(self, orders: list[list[int]]) -> None:
        super().__init__(range(8))  # type: ignore[arg-type]
        self.orders = iter(orders)

    def __iter__(self) -> Iterator[int]:
        return iter(next(self.orders))


class Counting(torch.utils.data.IterableDataset[Any]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(8))


@pytest.mark.parametrize(
    ("data", "options", "told"),
    [
        (range(8), {"shuffle": True, "batch_size": 4}, [1.0, 1.0]),
        (range(2), {"shuffle": True, "batch_size": None}, [1.0, 1.0]),
        (range(8), {"batch_size": 4}, []),
        (range(8), {"batch_size": 4, "sampler": [3, 1, 2, 0, 4, 5, 6, 7]}, [0.0, 0.0]),
        (range(8), {"batch_size": 4, "sampler": WeightedRandomSampler([1.0] * 8, 8)}, [0.0, 0.0]),
        (range(8), {"batch_size": 4, "sampler": RandomSampler(range(8), replacement=True)}, [0.0, 0.0]),
        (Counting(), {"batch_size": 4}, []),
        (Counting(), {"batch_size": 4, "num_workers": 1}, []),
    ],
)
def test_where_examples_are_told(tmp_path: Path, data: Any, options: dict[str, Any], told: list[float]) -> None:
    trace = training(tmp_path, lambda: list(DataLoader(data, **options)))
    assert [value for value, _ in examples(trace)] == told


def test_workers_whose_batches_come_in_any_order_say_nothing(tmp_path: Path) -> None:
    pytest.importorskip("torch", minversion="2.6")
    loader = DataLoader(Drawing(), batch_size=2, shuffle=True, num_workers=2, in_order=False)
    assert not examples(training(tmp_path, lambda: list(loader)))


def test_what_was_asked_for_in_vain_is_forgotten(tmp_path: Path) -> None:
    """Iterators that are left, of which another may have the memory."""

    def leave() -> None:
        for _ in range(4):
            next(iter(DataLoader(Drawing(), batch_size=2, shuffle=True, num_workers=1)))

    assert len(examples(training(tmp_path, leave))) == 4


def numbers(trace: Any) -> list[tuple[float, int]]:
    return [(item.value, item.digest) for item in trace.measures if item.measure == EPOCH]


@pytest.mark.parametrize("workers", [0, 2])
def test_for_which_epoch_a_sampler_draws(tmp_path: Path, workers: int) -> None:
    data = Drawing()
    sampler: Any = DistributedSampler(data, num_replicas=1, rank=0, shuffle=True)
    loader = DataLoader(data, batch_size=2, sampler=sampler, num_workers=workers, persistent_workers=workers > 0)

    def train() -> None:
        passes(loader, 1)
        for epoch in (0, 4):
            sampler.set_epoch(epoch)
            passes(loader, 1)

    assert numbers(training(tmp_path, train)) == [(0.0, NOT_CALLED), (0.0, CALLED), (4.0, CALLED)]


def test_samplers_that_draw_by_no_number_say_nothing(watched: Watch) -> None:
    data = Drawing()
    in_order: Any = DistributedSampler(data, num_replicas=1, rank=0, shuffle=False)
    loaders = [DataLoader(data, batch_size=2, sampler=in_order), DataLoader(data, batch_size=2, shuffle=True)]
    assert not numbers(watched(lambda: [list(loader) for loader in loaders]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: [*range(3, 9)],
        lambda: 7,
        lambda: [(1, "crop"), (2, "-".join(["fl", "ip"]))],
        lambda: ["-".join(["a", "b"])] * 2,
        lambda: [torch.tensor(3), torch.tensor(4)],
        lambda: {"rows": torch.arange(3)},
    ],
)
def test_what_is_chosen_is_known_by_its_content(make: Callable[[], Any]) -> None:
    """Whatever a sampler gives, and whoever else holds it."""
    state = ThreadState()
    first, other = make(), make()
    assert hash_of(state, first) == hash_of(state, other) == hash_of(state, first) != hash_of(state, [first, 1])


def test_who_else_refers_to_what_is_chosen_does_not_matter() -> None:
    one, other = ("-".join(["flip", str(number)]) for number in (1, 1))
    assert one is not other
    kept = [[one, one], [one, other]]
    assert hash_of(ThreadState(), kept[0]) == hash_of(ThreadState(), kept[1])
