"""Collectives: all ranks issue the same ones, of the same size, and have the same afterwards."""

from __future__ import annotations

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples
from pytest_traincheck.relations.collective_order import CollectiveOrder, IssuedAlike, SameResult
from pytest_traincheck.relations.laws.law import Law, Told, first_of, seen
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Place
from pytest_traincheck.trace import Run

_DIST = "https://docs.pytorch.org/docs/stable/distributed.html#collective-functions"
_LIBRARY = "torch-distributed"


class SameCollectives(Law):
    """Ranks issue other collectives, or such of other sizes."""

    name = "SameCollectives"
    subject = "torch.distributed"
    says = "All ranks of a group issue the same collectives in the same order, with tensors of one type and size"
    expected = "the same collectives on all ranks"
    because = Reason(
        "collectives-differ-between-ranks",
        "Collectives are matched by their order. Ranks that issue others, or give tensors of other sizes, wait for "
        "ever, or get what belongs to another call.",
        "https://docs.pytorch.org/docs/stable/distributed.html#debugging-torch-distributed-applications",
        "Compute sizes and conditions from what all ranks know, or exchange them first.",
        library=_LIBRARY,
    )
    right = "capacity = ceil(total_tokens / experts)  # the same on all ranks\ndist.all_reduce(x)"
    wrong = "if rank == 0:\n    dist.all_reduce(x)"
    place = Place.EXCHANGE

    def places(self, run: Run) -> Examples:
        return _of(run, IssuedAlike)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.api[row]}` is not issued alike on all ranks: {seen(examples, broken[0])}.",
                    "collectives that differ between ranks")  # fmt: skip


class SameResults(Law):
    """Ranks have something else after a collective that gives all the same."""

    name = "SameResults"
    subject = "torch.distributed.all_reduce"
    says = "What `all_reduce`, `all_gather` and `broadcast` leave is the same on all ranks"
    expected = "one result on all ranks"
    because = Reason(
        "collective-results-differ",
        "These collectives leave the same on all ranks. A rank with something else has received into a copy that was "
        "thrown away, as of a tensor that is not contiguous.",
        _DIST,
        "Hand over contiguous tensors, and write the result back.",
        library=_LIBRARY,
    )
    right = "buffer = x.contiguous()\ndist.all_reduce(buffer)\nx.copy_(buffer)"
    wrong = "dist.all_reduce(x.contiguous())  # x itself stays as it was"
    place = Place.EXCHANGE
    depth = 2

    def places(self, run: Run) -> Examples:
        return _of(run, SameResult)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"What `{process.api[row]}` leaves differs between ranks.", "results that differ between ranks")


def _of(run: Run, kind: type[IssuedAlike] | type[SameResult]) -> Examples:
    """The places of all claims of a kind, each once."""
    if not run.peers:
        return EMPTY
    relation = CollectiveOrder()
    claims = [item.claim for item in relation.hypotheses(run)]
    parts = [relation.examples(claim, run) for claim in claims if isinstance(claim, kind)]
    found = Examples.concatenate(parts)
    if not len(found):
        return EMPTY
    _, first = np.unique(np.stack([found.process, found.row, ~found.holds]), axis=1, return_index=True)
    kept = np.sort(first)
    observed = None if found.observed is None else found.observed.take(kept)
    return Examples(found.holds[kept], found.process[kept], found.row[kept], found.variable[kept], {}, observed)
