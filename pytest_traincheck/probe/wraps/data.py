"""Batches as they come out of a `DataLoader`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from torch.utils.data import dataloader

from ..context import Call, ThreadState, quiet, unobservable
from ..digest import digest_nested
from ..summary import key_of
from .base import Named, recording

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
        recorder.close(state, call, recorder.symbols.ret(call.number, key_of(result)), hashed, math.nan)


def install(probe: Probe) -> None:
    """Wrap the step of the iterator that every `DataLoader` makes."""
    family = Batch("torch.utils.data.DataLoader.__next__", "data", method=True)
    probe.patches.replace(dataloader._BaseDataLoaderIter, "__next__", recording(family, probe), alias=False)
