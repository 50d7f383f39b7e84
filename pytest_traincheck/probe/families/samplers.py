"""Which examples the samplers of loaders choose, whether they draw them, and for which epoch."""

from __future__ import annotations

import marshal
import weakref
import zlib
from collections.abc import Iterator
from functools import partial
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
from ..core import native
from ..digest import digest_nested, finish
from ..symbols import Api
from ..walk import attribute
from .base import watch

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder

Kinds = frozenset[tuple[str, str]]
"""Classes by their module and name."""

Chosen = tuple[int, bool]
"""A hash of the examples, and whether all others come before any of them comes again."""

_WITH_WORKERS = dataloader._MultiProcessingDataLoaderIter
ITERATORS = (dataloader._SingleProcessDataLoaderIter, _WITH_WORKERS)
"""What makes its batches itself, and what has workers make them."""
_STREAM = dataloader._DatasetKind.Iterable
_DEPTH = 4
"""Samplers within samplers that are looked through: more are a mistake, or one that holds itself."""
_RANDOM = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
_ITERATORS = 64
"""Iterators with workers of which it is remembered what these are to fetch: those that went on last."""
_TASKS = 4096
"""So many batches of each."""
_WITHOUT_REFERENCES = 2
"""The version of `marshal` that writes equal values alike, whoever else refers to them."""
CALLED, NOT_CALLED = 1, 2
"""What the hash of `batch.epoch` says: whether the training has called `set_epoch`."""


class _Iteration:
    """What is known of an iterator over data: its sampler, by `id`, and what it has asked its workers for."""

    __slots__ = ("ahead", "met", "number", "once", "sampler")

    def __init__(self) -> None:
        self.ahead: dict[int, Chosen] = {}
        """By the number of the task, until it comes."""
        self.met: weakref.ref[Any] | None = None
        """The iterator, once it is told of the workers that it has."""
        self.sampler = 0
        self.number = -1
        """How many batches had been chosen before the last one."""
        self.once: bool | None = None
        """Whether the sampler draws, and all examples come before any comes again; None: there is nothing to tell."""


class Choices:
    """What was chosen for each batch, and for which epoch."""

    def __init__(self, sharing: Kinds) -> None:
        self._sharing = sharing
        """Samplers of frameworks that take what comes from the one in them."""
        self._known: dict[int, _Iteration] = {}
        """By the `id` of the iterator. One that has the memory of another begins to count anew, and asks for a task
        before it comes.
        """
        self._sets_epochs = False

    def random_order(self, sampler: Any) -> bool | None:
        """As `in_random_order`, with what frameworks put around samplers."""
        return in_random_order(sampler, self._sharing)

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, iterator: Any) -> None:
        """A batch is asked for: tell what it is to be made of where a worker makes it, and for which epoch it is."""
        if not getattr(iterator, "_num_yielded", 1):
            self._epoch(recorder, state, call, innermost(getattr(iterator, "_index_sampler", None)))
        if getattr(iterator, "_num_workers", 0) and (known := self._known.get(id(iterator))) is not None:
            if type(iterator) is _WITH_WORKERS:
                known.met = weakref.ref(iterator)
            chosen = known.ahead.pop(getattr(iterator, "_rcvd_idx", -1), None)
            if chosen is not None and _is_followed(recorder, iterator):
                recorder.measures.take(state, "batch.examples", call, chosen[1], digest=chosen[0])

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
        workers = getattr(iterator, "_num_workers", 0)
        if workers:
            if not _is_followed(recorder, iterator):
                return
        elif not state.stack or state.stack[-1].api.type != "data":
            return
        number = getattr(iterator, "_send_idx" if workers else "_num_yielded", 0)
        known = self._of(recorder, iterator, number)
        if known.once is None or unobservable():
            return
        hashed = hash_of(state, indices)
        if not workers:
            recorder.measures.take(state, "batch.examples", state.stack[-1], known.once, digest=hashed)
            return
        known.ahead[number] = hashed, known.once
        if len(known.ahead) > _TASKS:
            del known.ahead[next(iter(known.ahead))]

    def _of(self, recorder: Recorder, iterator: Any, number: int) -> _Iteration:
        """What is known of an iterator that has chosen so many batches before. Its sampler is looked at with the first
        one, and whenever some were chosen while nobody looked.
        """
        key, sampler = id(iterator), getattr(iterator, "_index_sampler", None)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Iteration()
            if len(self._known) > _ITERATORS:
                del self._known[next(iter(self._known))]
        if number != known.number + 1 or not number or known.sampler != id(sampler) or _has_slept(recorder):
            known.sampler, known.once = id(sampler), None
            order = self.random_order(sampler)
            # Of a stream, what is chosen are no examples.
            if order is not False and getattr(iterator, "_dataset_kind", _STREAM) != _STREAM:
                known.once = order is True and draws_each_once(innermost(sampler))
        known.number = number
        return known

    def install(self, probe: Probe, batches: Api) -> None:
        """Watch what samplers choose for `batches`, and whether they are given the number of an epoch."""

        def entered(iterator: Any) -> Any:
            return iterator

        def left(iterator: Any, indices: Any) -> None:
            if probe.recorder is not None:
                self.chosen(probe.recorder, iterator, indices)

        def numbered(*_: Any, **__: Any) -> None:
            self._sets_epochs = True

        hooks = None if native is None else partial(native.choice_hooks, probe, self, batches, ITERATORS)
        watch(probe, dataloader._BaseDataLoaderIter._next_index, entered, left, compiled=hooks)
        watch(probe, DistributedSampler.set_epoch, numbered, always=True, light=True)


def hash_of(state: ThreadState, indices: Any) -> int:
    """A hash of what a sampler has chosen, which are plain numbers as a rule."""
    try:
        content = marshal.dumps(indices, _WITHOUT_REFERENCES)
    except ValueError:
        with quiet(state):
            return digest_nested(indices)
    return finish(zlib.crc32(content), len(content))


def _is_followed(recorder: Recorder, iterator: Any) -> bool:
    """Whether the batches of workers come in the order in which they were asked for, each while somebody looked."""
    return getattr(iterator, "_in_order", True) and not _has_slept(recorder)


def _has_slept(recorder: Recorder) -> bool:
    return recorder.sampling is not None and recorder.sampling.slept


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
