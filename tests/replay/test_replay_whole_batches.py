"""Batches of which no part is golden's: whether they hold golden's examples is told by single rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from replays import Record, replayed  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

from pytest_traincheck.check.evaluate import check_run  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402

IMAGES, SIZE = 64, 12
Change = Callable[[Any, int], Any]


def as_they_are(image: Any, _place: int) -> Any:
    return image


def some_empty(image: Any, place: int) -> Any:
    return image * (place % 4 > 0)


def all_empty(image: Any, _place: int) -> Any:
    return image * 0


def too_dark(image: Any, _place: int) -> Any:
    return image / 255


def noisy(image: Any, place: int) -> Any:
    return image + 0.1 * torch.sin(7 * (place + 1) * torch.arange(SIZE))


def scaled(image: Any, _place: int) -> Any:
    return 2 * image - 1


def one_more_column(image: Any, _place: int) -> Any:
    return torch.cat([image, image.new_zeros(1)])


class Images(Dataset[Any]):
    """Images between 0 and 1, without labels, changed as they are taken."""

    def __init__(self, change: Change, order: str, alike: bool) -> None:
        numbers = torch.Generator().manual_seed(1)
        self.images = torch.rand(IMAGES, SIZE, generator=numbers)
        if alike:  # two kinds of images
            self.images = self.images[torch.randint(0, 2, (IMAGES,), generator=numbers)]
        if order == "backwards":
            self.images = self.images.flip(0)
        elif order == "sorted":
            self.images = self.images[self.images.mean(1).argsort()]
        self.change = change

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: int) -> Any:
        return self.change(self.images[index], index)


class Coder(torch.nn.Module):
    """An autoencoder that can prepare its inputs itself."""

    def __init__(self, prepare: bool) -> None:
        super().__init__()
        self.code, self.decode, self.prepare = torch.nn.Linear(SIZE, 3), torch.nn.Linear(3, SIZE), prepare

    def forward(self, x: Any) -> Any:
        x = x[:, :SIZE]
        if self.prepare:
            x = 2 * x - 1
        return ((self.decode(self.code(x).tanh()) - x) ** 2).mean()


def train(
    change: Change = as_they_are, *, order: str = "", workers: int = 0, prepare: bool = False, alike: bool = False
) -> Callable[[], None]:  # fmt: skip
    """Some steps of an autoencoder."""

    def run() -> None:
        torch.manual_seed(0)
        data = Images(change, order, alike)
        net = Coder(prepare)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for images in DataLoader(data, batch_size=16, shuffle=True, num_workers=workers):
            optimizer.zero_grad()
            net(images).backward()
            optimizer.step()

    return run


def golden_of(record: Record, story: Callable[..., Callable[[], None]]) -> Golden:
    return learn([record(story())], pipeline="images", seeds=(0,), repeated=[record(story())])


def of_batches(golden: Golden, record: Record, story: Callable[[], None]) -> list[str]:
    return [item.title for item in replayed(golden, record(story)) if item.invariant.claim.of == "batch"]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("change", [some_empty, all_empty, too_dark, noisy])
def test_other_images_of_the_same_examples(record: Record, change: Change, workers: int) -> None:
    golden = golden_of(record, partial(train, workers=workers))
    assert not replayed(golden, record(train(workers=workers)))
    (title,) = of_batches(golden, record, train(change, workers=workers))
    assert "a different batch than in the golden run, though it is made of the same examples" in title


def test_it_is_one_incident(record: Record) -> None:
    golden = golden_of(record, train)
    outcome = check_run(golden, record(train(too_dark)), same_spec=True)
    (incident,) = outcome.incidents
    assert "a different batch" in incident.cause.title
    assert outcome.coverage is not None
    assert outcome.coverage.parted is not None
    assert outcome.coverage.parted.what == "batch: it differs from the golden run's"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({}, {"order": "backwards"}, id="backwards"),
        pytest.param({}, {"order": "sorted"}, id="sorted"),
        pytest.param({"alike": True}, {"alike": True, "order": "backwards"}, id="images that are there often"),
        pytest.param({}, {"change": one_more_column}, id="padded"),
    ],
)
def test_other_examples_that_are_as_good(record: Record, before: dict[str, Any], after: dict[str, Any]) -> None:
    golden = golden_of(record, partial(train, **before))
    assert not of_batches(golden, record, train(**after))


def test_images_that_the_model_prepares_now(record: Record) -> None:
    """Another batch, and the same training: its layers are given what golden's loader returned."""
    golden = golden_of(record, partial(train, scaled))
    assert not of_batches(golden, record, train(prepare=True))
    assert of_batches(golden, record, train())


class Marked(Dataset[Any]):
    """Images with a mark each, which says that the image counts."""

    def __init__(self, scaled: bool, mark: Any) -> None:
        self.images, self.scaled, self.mark = Images(as_they_are, "", alike=False).images, scaled, mark

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: int) -> Any:
        return 2 * self.images[index] - 1 if self.scaled else self.images[index], self.mark


def train_marked(*, scaled: bool = True, mark: Any = 1) -> Callable[[], None]:
    """Some steps of an autoencoder whose errors are weighed by marks, beside a layer that is given ones."""

    def run() -> None:
        torch.manual_seed(0)
        net = Coder(prepare=not scaled)
        weigh = torch.nn.Linear(16, 1)
        optimizer = torch.optim.SGD([*net.parameters(), *weigh.parameters()], lr=0.1)
        for images, marks in DataLoader(Marked(scaled, mark), batch_size=16, shuffle=True):
            optimizer.zero_grad()
            (net(images) * marks.double().mean() + weigh(torch.ones(16)).sum()).backward()
            optimizer.step()

    return run


def test_a_part_of_another_dtype_is_made_of_the_same(record: Record) -> None:
    """Only the images were prepared elsewhere: nothing says that the marks, numbers now, are wrong."""
    golden = golden_of(record, train_marked)
    assert not of_batches(golden, record, train_marked(scaled=False, mark=1.0))


def test_what_is_found_everywhere_excuses_no_part(record: Record) -> None:
    """A layer is given ones in every step; that does not make up for marks that were lost."""
    golden = golden_of(record, partial(train_marked, mark=1.0))
    (title,) = of_batches(golden, record, train_marked(mark=0.0))
    assert "batch[1]" in title


class Sequences(Dataset[Any]):
    """What was seen, what comes then and a clock, in one of two orders."""

    def __init__(self, clock_first: bool) -> None:
        self.parts = [torch.randn(IMAGES, SIZE), torch.randn(IMAGES, 3), torch.randn(IMAGES, 3)]
        self.order = (0, 2, 1) if clock_first else (0, 1, 2)

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: int) -> Any:
        return [self.parts[place][index] for place in self.order]


def train_on_sequences(*, clock_first: bool = False, knows: bool = True, scale: float = 1.0) -> Callable[[], None]:
    """Some steps of a model that is given the clock within something else; `knows`: the loop knows the order."""

    def run() -> None:
        torch.manual_seed(0)
        data, net = Sequences(clock_first), torch.nn.Linear(SIZE + 3, 3)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for seen, *rest in DataLoader(data, batch_size=16, shuffle=True):
            clock, target = rest if clock_first and knows else reversed(rest)
            optimizer.zero_grad()
            (scale * (net(torch.cat([seen, clock], 1)) - 0.9 * target) ** 2).mean().backward()
            optimizer.step()

    return run


def test_parts_in_another_order(record: Record) -> None:
    golden = golden_of(record, train_on_sequences)
    run = record(train_on_sequences(clock_first=True))
    assert not replayed(golden, run)
    coverage = check_run(golden, run, same_spec=True).coverage
    assert coverage is not None
    assert coverage.parted is None
    assert of_batches(golden, record, train_on_sequences(clock_first=True, knows=False))
    assert replayed(golden, record(train_on_sequences(clock_first=True, scale=1.01)))
