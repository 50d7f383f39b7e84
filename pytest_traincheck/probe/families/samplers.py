"""Which examples the samplers of loaders choose, whether they draw them, and for which epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    dataloader,
)
from torch.utils.data.distributed import DistributedSampler

from ..context import Call, ThreadState, quiet, unobservable
from ..digest import digest_nested
from ..walk import attribute
from .base import watch

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder

Kinds = frozenset[tuple[str, str]]
"""Classes by their module and name."""

Chosen = tuple[int, bool]
"""A hash of the examples, and whether all others come before any of them comes again."""

_STREAM = dataloader._DatasetKind.Iterable
_DEPTH = 4
"""Samplers within samplers that are looked through: more are a mistake, or one that holds itself."""
_RANDOM = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
_ITERATORS = 64
"""Iterators with workers of which it is remembered what these are to fetch: those that went on last."""
_TASKS = 4096
"""So many batches of each."""
CALLED, NOT_CALLED = 1, 2
"""What the hash of `batch.epoch` says: whether the training has called `set_epoch`."""


class Choices:
    """What was chosen for the batches that workers make, until these come; and what is told of each batch."""

    def __init__(self, sharing: Kinds) -> None:
        self._sharing = sharing
        """Samplers of frameworks that take what comes from the one in them."""
        self._ahead: dict[int, dict[int, Chosen]] = {}
        """By the `id` of an iterator, what it has asked its workers for, by the number of the task. One that has the
        memory of another begins with task 0, too, and each task is asked for before it comes.
        """
        self._sets_epochs = False

    def random_order(self, sampler: Any) -> bool | None:
        """As `in_random_order`, with what frameworks put around samplers."""
        return in_random_order(sampler, self._sharing)

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, iterator: Any) -> None:
        """A batch is asked for: tell what it is to be made of where a worker makes it, and for which epoch it is."""
        if not getattr(iterator, "_num_yielded", 1):
            self._epoch(recorder, state, call, innermost(getattr(iterator, "_index_sampler", None)))
        if not _is_followed(recorder, iterator):
            return
        chosen = self._ahead.get(id(iterator), {}).pop(getattr(iterator, "_rcvd_idx", -1), None)
        if chosen is not None:
            _tell(recorder, state, call, chosen)

    def _epoch(self, recorder: Recorder, state: ThreadState, call: Call, sampler: Any) -> None:
        if not issubclass(type(sampler), DistributedSampler) or not attribute(sampler, "shuffle", False):
            return
        epoch = attribute(sampler, "epoch")
        if type(epoch) is int:
            told = CALLED if self._sets_epochs else NOT_CALLED
            recorder.measures.take(state, "batch.epoch", call, float(epoch), digest=told)

    def chosen(self, recorder: Recorder, iterator: Any, indices: Any) -> None:
        """A sampler has chosen the examples for a batch that is made now, or for one that a worker will make."""
        state = recorder.threads
        if unobservable() or getattr(iterator, "_dataset_kind", _STREAM) == _STREAM:
            return  # of a stream these are no examples
        workers = getattr(iterator, "_num_workers", 0)
        if not workers and not (state.stack and state.stack[-1].api.type == "data"):
            return
        sampler = getattr(iterator, "_index_sampler", None)
        order = self.random_order(sampler)
        if order is False:
            return
        once = order is True and draws_each_once(innermost(sampler))
        with quiet(state):
            hashed = digest_nested(indices)
        if not workers:
            _tell(recorder, state, state.stack[-1], (hashed, once))
        elif _is_followed(recorder, iterator):
            self._remember(iterator, (hashed, once))

    def _remember(self, iterator: Any, chosen: Chosen) -> None:
        key = id(iterator)
        ahead = self._ahead.pop(key, {})
        ahead[getattr(iterator, "_send_idx", -1)] = chosen
        self._ahead[key] = ahead
        for held, most in ((ahead, _TASKS), (self._ahead, _ITERATORS)):
            if len(held) > most:
                del held[next(iter(held))]

    def install(self, probe: Probe) -> None:
        """Watch what samplers choose, and whether they are given the number of an epoch."""

        def entered(iterator: Any) -> Any:
            return iterator

        def left(iterator: Any, indices: Any) -> None:
            if probe.recorder is not None:
                self.chosen(probe.recorder, iterator, indices)

        def numbered(*_: Any, **__: Any) -> None:
            self._sets_epochs = True

        watch(probe, dataloader._BaseDataLoaderIter._next_index, entered, left)
        watch(probe, DistributedSampler.set_epoch, numbered, always=True, light=True)


def _is_followed(recorder: Recorder, iterator: Any) -> bool:
    """Whether the tasks of an iterator with workers come in their order, and none was asked for while nobody looked."""
    if not getattr(iterator, "_num_workers", 0) or not getattr(iterator, "_in_order", True):
        return False
    return recorder.sampling is None or not recorder.sampling.slept


def _tell(recorder: Recorder, state: ThreadState, call: Call, chosen: Chosen) -> None:
    hashed, once = chosen
    recorder.measures.take(state, "batch.examples", call, float(once), digest=hashed)


def in_random_order(sampler: Any, sharing: Kinds) -> bool | None:
    """Whether what a loader's batches are made of is drawn in random order; `None` where others have written how.

    Random is whatever is made of a random sampler of torch's. In order is only what nobody can have changed.
    """
    *around, last = _nested(sampler)
    theirs = not all(_takes_what_comes(type(each), sharing) for each in around)
    kind = type(last)
    if issubclass(kind, DistributedSampler):
        random = bool(attribute(last, "shuffle", False))
        in_order = not random and kind.__iter__ is DistributedSampler.__iter__
    else:
        random, in_order = issubclass(kind, _RANDOM), kind is SequentialSampler
    return True if random else False if in_order and not theirs else None


def innermost(sampler: Any) -> Any:
    """The sampler that all others take what they give from."""
    return [*_nested(sampler)][-1]


def draws_each_once(sampler: Any) -> bool:
    """Whether one of torch's random samplers comes to every example once before any comes again."""
    return not attribute(sampler, "replacement", False)


def _nested(sampler: Any) -> Iterator[Any]:
    """A sampler, and what it takes its examples, or its batches, from, down to the innermost."""
    for _ in range(_DEPTH):
        yield sampler
        inner = attribute(sampler, "sampler")
        inner = attribute(sampler, "batch_sampler") if inner is None else inner
        if inner is None:
            return
        sampler = inner
    yield sampler


def _takes_what_comes(kind: type, sharing: Kinds) -> bool:
    """Torch's own way to make batches, and what frameworks put around it."""
    if (kind.__module__, kind.__name__) in sharing:
        return True
    return issubclass(kind, BatchSampler) and kind.__iter__ is BatchSampler.__iter__
