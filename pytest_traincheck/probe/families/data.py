"""Batches as they come out of a `DataLoader`."""

from __future__ import annotations

import math
import os
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from torch.utils.data import dataloader, get_worker_info
from torch.utils.data._utils import fetch as fetchers

from ..advance import Advance
from ..context import Call, ThreadState, quiet, unobservable
from ..core import native
from ..digest import digest_nested
from ..numerics import held_generators, leading_sizes, random_states, repeated_tensors
from ..symbols import Api
from ..walk import attribute
from .base import FETCHED, Named, call_key, observe, watch
from .samplers import ITERATORS, Choices

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder


class Batch(Named):
    """The row of a batch carries the hash of everything in it."""

    def __init__(self, choices: Choices) -> None:
        super().__init__("torch.utils.data.DataLoader.__next__", "data", method=True)
        self._choices = choices
        self._passes: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """How often an iterator whose workers stay has begun anew."""
        self._told: weakref.WeakSet[Any] = weakref.WeakSet()
        """Iterators of which it is said which workers are theirs."""

    def install(self, probe: Probe) -> None:
        """Observe batches, and what is chosen for them."""
        if native is not None:
            self.compiled = partial(native.batch_hooks, probe, self, self._api, ITERATORS)
        observe(probe, dataloader._BaseDataLoaderIter.__next__, self)
        self._choices.install(probe, self._api)

    def finish(self, recorder: Recorder, state: ThreadState, call: Call, result: Any) -> None:
        hashed = 0
        if not unobservable():
            with quiet(state):
                hashed = digest_nested(result)
                if recorder.measures.wanted:
                    sizes = leading_sizes(result)
                    self._measure(recorder, state, call, sizes, repeated_tensors(result))
        (key,) = call_key((result,), {})
        recorder.close(state, call, recorder.symbols.ret(call.number, key), hashed, math.nan)

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
        if recorder.measures.wanted:
            # What the sampler makes; a loader without automatic batching has none.
            sampler = getattr(args[0], "_index_sampler", None)
            call.kwargs = {
                "batch_size": attribute(sampler, "batch_size"),
                "shuffled": self._choices.random_order(sampler),
            }
            if maker := self._maker(args[0]):
                recorder.measures.take(state, "batch.maker", call, digest=maker)
        if seed := self._seed_of_workers(args[0]):
            recorder.measures.take(state, "batch.workers", call, digest=seed)
        self._choices.opened(recorder, state, call, args[0])
        # Workers have a data set of their own, of which they tell.
        made = getattr(args[0], "_num_yielded", None)
        if not getattr(args[0], "_num_workers", 0) and type(made) is int:
            recorder.measures.stored(state, call, getattr(args[0], "_dataset", None), args[0], made)

    def _seed_of_workers(self, iterator: Any) -> int:
        """The seed that the workers of an iterator share, at its first batch that is observed, in any step; else 0."""
        seed = getattr(iterator, "_base_seed", None)
        if type(seed) is not int or not getattr(iterator, "_num_workers", 0):
            return 0
        try:
            if iterator in self._told:
                return 0
            self._told.add(iterator)
        except TypeError:
            return 0  # an iterator that somebody else wrote
        return seed

    def _maker(self, iterator: Any) -> int:
        """Which fetch of which worker makes the next batch of an iterator; 0 where nobody can say."""
        workers = getattr(iterator, "_workers", None)
        try:
            if not workers or not getattr(iterator, "_in_order", True) or not all(iterator._workers_status):
                return 0
            again = self._passes.get(iterator, 0)
            number = iterator._rcvd_idx
            if iterator._persistent_workers and not iterator._num_yielded:
                again = self._passes[iterator] = again + 1
            # Tasks go to the workers in turn.
            return _fetch(workers[number % len(workers)].pid, max(again - 1, 0), number // len(workers))
        except (AttributeError, TypeError):
            return 0  # an iterator that somebody else wrote


def _fetch(pid: int, again: int, number: int) -> int:
    """A name for one fetch of a worker, which the training process and the worker both know it by: how often the worker
    has begun anew, and how many fetches there were since.
    """
    return digest_nested((pid, again, number))


class Fetches(Named):
    """What a batch is made of: which examples the sampler chose, and what is drawn while they are put together.

    In the training process that is a measure of the batch. In a worker, which nothing else is seen of, each of the
    first fetches is a call of its own.
    """

    when = FETCHED

    def __init__(self) -> None:
        super().__init__("torch.utils.data.DataLoader.fetch", "worker", method=True)
        self._again = -1
        self._number = 0
        self._left = _FETCHES
        self._advance = Advance()

    def begin_anew(self) -> None:
        """A worker has made what it fetches with."""
        self._again += 1
        self._number = 0

    def api(self, recorder: Recorder, args: tuple[Any, ...]) -> Api | None:
        if recorder.measures.fetches:
            return self._api if self._left > 0 else None
        state = recorder.threads
        if recorder.measures.wanted and state.stack and state.stack[-1].api.type == "data" and not unobservable():
            with quiet(state):
                chosen = _chosen(args)
            if chosen:
                recorder.measures.take(state, "batch.chosen", state.stack[-1], digest=chosen)
        return None

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        self._left -= 1
        with quiet(state):
            call.kwargs = _states(args[0])
            self._advance.begin()

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        found = call.kwargs
        with quiet(state):
            now = _states(args[0])
            moved = [(name, found.get(name, 0), now[name]) for name in sorted(now) if found.get(name, 0) != now[name]]
            drawn = digest_nested(moved) if moved else 0
            chosen = _chosen(args)
            advanced = self._advance.look()
        name = _fetch(os.getpid(), max(self._again, 0), self._number)
        self._number += 1
        recorder.measures.take(state, "fetch", call, digest=name)
        recorder.measures.take(state, "fetch.drawn", call, digest=drawn)
        if chosen:
            recorder.measures.take(state, "fetch.chosen", call, digest=chosen)
            recorder.measures.take(state, "fetch.size", call, float(len(args[1]) if isinstance(args[1], list) else 1))
            for generator, numbers in advanced.items():
                recorder.measures.take(state, f"fetch.{generator}", call, numbers)
            if now["held"]:
                moves = found.get("held") != now["held"]
                recorder.measures.take(state, "fetch.dataset", call, float(moves))
        recorder.measures.stored(state, call, getattr(args[0], "dataset", None), args[0], self._number)


def _chosen(args: tuple[Any, ...]) -> int:
    """A hash of the examples that a fetch is asked for; 0 of a stream, where they are whatever comes."""
    if len(args) < 2 or isinstance(args[0], fetchers._IterableDatasetFetcher):
        return 0
    return digest_nested(args[1])


def _states(fetcher: Any) -> dict[str, int]:
    """Hashes of the states of all generators that a fetch may draw from, as far as anybody can see them."""
    collate = getattr(fetcher, "collate_fn", None)
    held = held_generators([getattr(fetcher, "dataset", None), collate, getattr(collate, "__self__", None)], depth=4)
    return {**random_states(), "held": held}


_FETCHES = 32
"""Fetches of a worker that are looked at: its training process takes its first steps with them."""


class Fetching(Named):
    """The making of a worker's fetcher, after everything that seeds the worker: its random streams as they begin."""

    def __init__(self, fetches: Fetches) -> None:
        super().__init__("torch.utils.data.DataLoader.worker", "worker")
        self._fetches = fetches

    def api(self, recorder: Recorder, args: tuple[Any, ...]) -> Api | None:
        return self._api if get_worker_info() is not None else None

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        info = get_worker_info()
        if info is None:
            return
        self._fetches.begin_anew()
        recorder.sketches.end()  # of the training process alone
        measures = recorder.measures
        measures.fetches = True
        # Workers of one iterator share the seed that theirs were made from.
        measures.take(state, "worker", call, float(info.id), digest=int(info.seed) - info.id)
        measures.random_states(state, call)
        held = held_generators(info.dataset)
        if held:
            measures.take(state, "rng.dataset", call, digest=held)
        measures.stored(state, call, info.dataset, result)


def _set_aside_seeds(probe: Probe) -> None:
    """Every iterator of a loader draws a seed for its workers, with and without workers: that is no draw of the
    program's.
    """

    def entered(*_: Any, **__: Any) -> Any:
        recorder = probe.recorder
        if recorder is None:
            return None
        return recorder.measures.hold_draws(recorder.threads), recorder.sketches.hold_draws(recorder.threads)

    def left(held: Any, _result: Any) -> None:
        recorder = probe.recorder
        if recorder is not None:
            recorder.measures.count_draws(recorder.threads, held[0])
            if held[1]:
                recorder.sketches.count_draws(recorder.threads)

    watch(probe, dataloader._BaseDataLoaderIter.__init__, entered, left, lambda held: left(held, None))


def install(probe: Probe) -> None:
    """Observe the step of the iterator that every `DataLoader` makes, the start of its workers, and their fetches."""
    fetches = Fetches()
    for cls in (fetchers._MapDatasetFetcher, fetchers._IterableDatasetFetcher):
        observe(probe, cls.fetch, fetches)
    observe(probe, dataloader._DatasetKind.create_fetcher, Fetching(fetches))
    _set_aside_seeds(probe)
    found = (name.rpartition(".") for framework in probe.frameworks for name in framework.samplers)
    Batch(Choices(frozenset((module, name) for module, _, name in found))).install(probe)
