"""Whether the order of a loader's data is random, by the samplers that people, accelerate and Lightning give it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from measuring import Watch, only  # noqa: E402
from torch.utils.data import (  # noqa: E402
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
)

from pytest_traincheck.probe import observe  # noqa: E402

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
