"""Batches as they come out of a `DataLoader`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    dataloader,
    get_worker_info,
)
from torch.utils.data.distributed import DistributedSampler

from ..context import Call, ThreadState, quiet, unobservable
from ..digest import digest_nested
from ..numerics import held_generators, leading_sizes, repeated_tensors
from ..summary import key_of
from ..symbols import Api
from .base import Named, observe

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder


class Batch(Named):
    """The row of a batch carries the hash of everything in it."""

    def finish(self, recorder: Recorder, state: ThreadState, call: Call, result: Any) -> None:
        hashed = 0
        if not unobservable():
            with quiet(state):
                hashed = digest_nested(result)
                if recorder.measures.wanted:
                    sizes = leading_sizes(result)
                    self._measure(recorder, state, call, sizes, repeated_tensors(result))
        recorder.close(state, call, recorder.symbols.ret(call.number, key_of(result)), hashed, math.nan)

    @staticmethod
    def _measure(recorder: Recorder, state: ThreadState, call: Call, sizes: set[int], repeated: int) -> None:
        recorder.measures.take(state, "batch.repeated", call, float(repeated))
        shuffled = call.kwargs.get("shuffled")
        if shuffled is not None:
            recorder.measures.take(state, "batch.shuffled", call, float(shuffled))
        wanted = call.kwargs.get("batch_size")
        if type(wanted) is int and sizes:
            recorder.measures.take(state, "batch.size", call, float(wanted))
            recorder.measures.take(state, "batch.lead", call, float(sizes.pop() if len(sizes) == 1 else -1))

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        # What the sampler makes; a loader without automatic batching has none.
        sampler = getattr(args[0], "_index_sampler", None)
        call.kwargs = {"batch_size": getattr(sampler, "batch_size", None), "shuffled": _shuffled(sampler)}


def _shuffled(sampler: Any) -> bool | None:
    """Whether what a loader's batches are made of is drawn in random order; `None` where others have written how.

    Random is whatever is made of a random sampler of torch's. In order is only what nobody can have changed.
    """
    theirs = False
    for _ in range(_DEPTH):
        inner = _within(sampler)
        if inner is None:
            break
        theirs |= not _takes_what_comes(type(sampler))
        sampler = inner
    kind = type(sampler)
    if issubclass(kind, DistributedSampler):
        random = bool(getattr(sampler, "shuffle", False))
        in_order = not random and kind.__iter__ is DistributedSampler.__iter__
    else:
        random, in_order = issubclass(kind, _RANDOM), kind is SequentialSampler
    return True if random else False if in_order and not theirs else None


def _within(sampler: Any) -> Any:
    """What a sampler of batches takes its examples, or its batches, from."""
    inner = getattr(sampler, "sampler", None)
    return getattr(sampler, "batch_sampler", None) if inner is None else inner


def _takes_what_comes(kind: type) -> bool:
    """Torch's own way to make batches; accelerate's to share them out, and to leave out those of before a resume."""
    if kind.__module__ == "accelerate.data_loader":
        return kind.__name__ in ("BatchSamplerShard", "SkipBatchSampler")
    return issubclass(kind, BatchSampler) and kind.__iter__ is BatchSampler.__iter__


_DEPTH = 4
"""Samplers within samplers that are looked through: more are a mistake, or one that holds itself."""

_RANDOM = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


class Fetching(Named):
    """The making of a worker's fetcher, after everything that seeds the worker: its random streams as they begin."""

    def api(self, recorder: Recorder, args: tuple[Any, ...]) -> Api | None:
        return self._api if get_worker_info() is not None else None

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        info = get_worker_info()
        if info is None:
            return
        recorder.sketches.end()  # of the training process alone
        measures = recorder.measures
        # Workers of one iterator share the seed that theirs were made from.
        measures.take(state, "worker", call, float(info.id), digest=int(info.seed) - info.id)
        measures.random_states(state, call)
        held = held_generators(info.dataset)
        if held:
            measures.take(state, "rng.dataset", call, digest=held)


def install(probe: Probe) -> None:
    """Observe the step of the iterator that every `DataLoader` makes, and the start of its workers."""
    fetching = Fetching("torch.utils.data.DataLoader.worker", "worker")
    observe(probe, dataloader._DatasetKind.create_fetcher, fetching)
    family = Batch("torch.utils.data.DataLoader.__next__", "data", method=True)
    observe(probe, dataloader._BaseDataLoaderIter.__next__, family)
