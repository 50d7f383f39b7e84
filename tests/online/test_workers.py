"""What workers of a DataLoader do in later steps of a training is judged like what they do in golden's steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from late_story import GOLDEN_STEPS, Late, follow
from trace_builder import digest_of
from training_story import Recorder, Training

from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn
from pytest_traincheck.relations.workers import BEGIN
from pytest_traincheck.trace import Run, load_run

EPOCH = 3
WORKERS = 2
SHARED, REPEATED, WRITTEN = (
    "In the golden run torch's random state differs between the workers of a DataLoader; in the candidate it is the "
    "same.",
    "In the golden run torch's random state differs between epochs of a DataLoader worker; in the candidate it is the "
    "same.",
    "In the golden run the data set kept its values; in the candidate `Images.pixels` changed while batches were made "
    "of it: something is written into the stored data in place, and every later epoch gets that.",
)

Stream = Callable[[int, int], object]
"""What a stream begins with, by its epoch and its worker."""


class Loaded(Training):
    """A process whose batches are made by workers that are started for each epoch."""

    def batch(self, within: Callable[[], None] | None = None, *, content: object = None) -> None:
        number = getattr(self, "loads", 0)
        vars(self)["loads"] = number + 1

        def told() -> None:
            if number % EPOCH == 0:
                self.measure(BEGIN, digest=_iterator(self.seed, number // EPOCH))
            if within is not None:
                within()

        super().batch(told, content=content)


def _iterator(seed: int, epoch: int) -> int:
    return digest_of("iterator", seed, epoch)


def _told(path: Path, steps: int, seed: int, stream: Stream, written: Callable[[int], bool]) -> Run:
    trainer = Loaded(path, seed=seed)
    Late(steps=steps, evaluates_every=10_000)(trainer)
    trainer.write()
    for epoch in range(-(-steps // EPOCH)):
        for number in range(WORKERS):
            worker = Training(path, seed=seed, started=2.0 + WORKERS * epoch + number)
            with worker.call("torch.utils.data.DataLoader.worker", type="worker"):
                worker.measure("worker", float(number), digest=_iterator(seed, epoch))
                worker.measure("rng.torch", digest=digest_of("state", seed, stream(epoch, number)))
                worker.measure("stored.Images.pixels", 0.0)
            with worker.call("torch.utils.data.DataLoader.fetch", type="worker"):
                worker.measure("stored.Images.pixels", float(written(epoch)))
            worker.write(pid=10_000 + WORKERS * epoch + number, ppid=100)
    return load_run(path)


def _never(_epoch: int) -> bool:
    return False


def _own(epoch: int, worker: int) -> object:
    return epoch, worker


@pytest.fixture
def golden(recorder: Recorder) -> Golden:
    runs = [_told(recorder.path(), GOLDEN_STEPS, seed, _own, _never) for seed in (0, 1)]
    return learn(runs, pipeline="loaded", seeds=(0, 1))


@pytest.mark.parametrize("epoch", [1, 4, 40])
@pytest.mark.parametrize("piece", [50, 5_000])
def test_workers_that_draw_alike_from_an_epoch_on_are_told_where_it_begins(
    recorder: Recorder, golden: Golden, epoch: int, piece: int
) -> None:
    run = _told(recorder.path(), 150, 7, lambda at, number: at if at >= epoch else (at, number), _never)
    told, found = follow(run.path, golden, piece=piece)
    assert list(told) == [SHARED]
    assert [incident.cause.step for incident in found.incidents] == [epoch * EPOCH]


@pytest.mark.parametrize("again", [39, 10, 0])
def test_workers_that_draw_the_same_again_in_a_later_epoch(recorder: Recorder, golden: Golden, again: int) -> None:
    """Whether the epoch that is repeated was judged with it, long before, or in golden's steps."""
    run = _told(recorder.path(), 150, 7, lambda at, number: (again if at == 40 else at, number), _never)
    _, found = follow(run.path, golden)
    assert [(incident.cause.title, incident.cause.step) for incident in found.incidents] == [(REPEATED, 40 * EPOCH)]


def test_workers_that_write_into_the_data_in_a_later_epoch(recorder: Recorder, golden: Golden) -> None:
    run = _told(recorder.path(), 150, 7, _own, lambda epoch: epoch >= 30)
    _, found = follow(run.path, golden)
    assert [(incident.cause.title, incident.cause.step) for incident in found.incidents] == [(WRITTEN, 30 * EPOCH)]


@pytest.mark.parametrize("steps", [GOLDEN_STEPS + 1, 150])
def test_right_workers_are_told_nothing_at_any_length(recorder: Recorder, golden: Golden, steps: int) -> None:
    told, found = follow(_told(recorder.path(), steps, 7, _own, _never).path, golden, piece=200)
    assert not told
    assert not found.incidents
