"""Ranks that train together: other data on each, the same gradients, and the same parameters after each step.

Ranks that all read the same shard do the work of one. Ranks whose gradients are not averaged, since the raw module is
called beside its wrapper, since the parameters were replaced after it was made, or since some bucket is left out, train
models of their own, of which one is saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pytest_traincheck.relations import vocabulary
from pytest_traincheck.relations.base import EMPTY, Examples, listed, variable_names
from pytest_traincheck.relations.context import module_roots, trained_roots
from pytest_traincheck.relations.distinct import INPUT, BetweenRanks, Distinct, Thing
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, in_step, seen, table, transferable
from pytest_traincheck.relations.laws.places import digests
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Place
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.side_by_side import side_by_side
from pytest_traincheck.trace.stages import TRAIN
from pytest_traincheck.trace.variables import Variables

_DDP = "https://docs.pytorch.org/docs/stable/notes/ddp.html#internal-design"
_SAMPLER = "https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler"
_LIBRARY = "torch-distributed"
_OF_TORCH: Mapping[Thing, str] = {"rng.torch": "random state", "rng.cuda": "random state of their GPUs"}
"""The generators that functions of torch draw from, in words."""


class RanksSeeOtherData(Law):
    """Ranks that hold the same model are given the same batches."""

    name = "RanksSeeOtherData"
    subject = "torch.utils.data.distributed.DistributedSampler"
    says = "Ranks with copies of one model are given different batches"
    expected = "each rank is given other batches"
    because = Reason(
        "ranks-see-same-batches",
        "Copies of a model that see the same batches compute the same gradients: the ranks do the work of one, and a "
        "part of the data is never seen.",
        _SAMPLER,
        "Give the loader a `DistributedSampler`, or let each rank read its own shard.",
        library=_LIBRARY,
    )
    right = "loader = DataLoader(data, sampler=DistributedSampler(data))"
    wrong = "loader = DataLoader(data, shuffle=True)  # the same seed on all ranks"
    place = Place.DATA

    def places(self, run: Run) -> Examples:
        return _between_replicas(run, INPUT)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told(f"Ranks are given the same batches, first {in_step(run, examples, broken)}.",
                    "the same batches on several ranks")  # fmt: skip


class RanksDrawOtherNumbers(Law):
    """Ranks that hold the same model draw the same random numbers."""

    name = "RanksDrawOtherNumbers"
    subject = "torch.manual_seed"
    says = "Ranks with copies of one model draw different random numbers in training"
    expected = "each rank has a random stream of its own"
    because = Reason(
        "ranks-draw-same-numbers",
        "With one seed for all ranks the same dropout masks, noise and augmentations are drawn on each of them, which "
        "averages out less than it could.",
        remedy="Seed with `seed + rank` after the model was made.",
        meant="Ranks that have to draw alike, such as for a shared mask.",
        library=_LIBRARY,
    )
    right = "model = Net()\ntorch.manual_seed(seed + rank)"
    wrong = "torch.manual_seed(seed)\nmodel = Net()"
    place = Place.DATA

    def places(self, run: Run) -> Examples:
        return Examples.concatenate([_drawn(run, what) for what in _OF_TORCH])

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told(f"All ranks have the same {seen(examples, broken[0])} and draw the same numbers, first "
                    f"{in_step(run, examples, broken)}.", "the same random numbers on all ranks")  # fmt: skip


class RanksStayEqual(Law):
    """Parameters that begin alike on all ranks part and never meet again."""

    name = "RanksStayEqual"
    subject = "torch.nn.parallel.DistributedDataParallel"
    says = "Parameters that are the same on all ranks at first are the same again after some step"
    expected = "parameters that begin alike on all ranks stay alike"
    because = Reason(
        "ranks-drift-apart",
        "Copies of a model that are trained together get the same gradient on all ranks. Parameters that part are "
        "trained on the data of one rank each, and nobody averages them.",
        _DDP,
        "Call the wrapped model and not the raw one; wrap it after its last change; leave `no_sync` before the last "
        "micro-batch; reduce all gradients.",
        "Averaging of models that comes less often than the run is long, and shards that begin alike.",
        library=_LIBRARY,
    )
    right = "model = DistributedDataParallel(net)\nloss(model(x)).backward()"
    wrong = "model = DistributedDataParallel(net)\nloss(net(x)).backward()"
    place = Place.AGREEMENT
    depth = 5

    def places(self, run: Run) -> Examples:
        return Examples.concatenate([_staying(run, peers) for peers in run.peers])

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)))
        return Told(f"{names} begin alike on all ranks and differ after every step: their gradients are not averaged.",
                    "parameters differ between ranks after every step")  # fmt: skip


class RanksBeginEqual(Law):
    """Ranks average gradients of parameters that differ."""

    name = "RanksBeginEqual"
    subject = "torch.distributed.broadcast"
    says = "Parameters whose gradients are the same on all ranks are the same as well"
    expected = "all ranks begin with the same parameters"
    because = Reason(
        "ranks-begin-apart",
        "An averaged gradient is that of none of the models, if they differ. Wrappers send the parameters of rank 0 to "
        "all others; whoever averages by hand has to do so, too.",
        _DDP,
        "Broadcast parameters and buffers from rank 0 before the first step, or seed all ranks alike while models are "
        "made.",
        library=_LIBRARY,
    )
    right = "for p in model.parameters():\n    dist.broadcast(p.data, src=0)"
    wrong = "model = Net()  # another seed on each rank\nfor p in model.parameters():\n    dist.all_reduce(p.grad)"
    place = Place.AGREEMENT
    depth = 5

    def places(self, run: Run) -> Examples:
        return Examples.concatenate([_averaged(run, peers) for peers in run.peers])

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)))
        return Told(f"{names} differ between ranks, and their gradients do not: different models are averaged.",
                    "averaged gradients of parameters that differ")  # fmt: skip


class NoRawModule(Law):
    """A wrapped model is called without its wrapper in training."""

    name = "NoRawModule"
    subject = "torch.nn.parallel.DistributedDataParallel"
    says = "A model that is wrapped for training on several ranks is trained through its wrapper"
    expected = "the wrapper is called in training"
    because = Reason(
        "raw-module-in-training",
        "The wrapper prepares the averaging of gradients in its forward pass. One that goes through the model in it, "
        "`model.module` or the variable from before, leaves the gradients of each rank as they are.",
        _DDP,
        "Call the wrapper in training; use the model in it for saving and evaluation.",
        library=_LIBRARY,
    )
    right = "model = DistributedDataParallel(net)\nloss(model(x)).backward()"
    wrong = "model = DistributedDataParallel(net)\nloss(model.module(x)).backward()"
    place = Place.EXCHANGE

    def places(self, run: Run) -> Examples:
        return each_process(run, _wrapped_calls)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.module_name(row)}` is called in training without its wrapper, first "
                    f"{in_step(run, examples, broken)}.", "the model is called beside its wrapper")  # fmt: skip


def _alike(run: Run, peers: tuple[int, ...], kind: str) -> tuple[Ints, list[Ints]]:
    """Variables of a kind with two dimensions or more that all ranks have under one name and in one shape, of the first
    rank, and the same ones of every rank.
    """
    tables: list[dict[tuple[str, tuple[int, ...]], int]] = []
    for position in peers:
        process = run.processes[position]
        variables = Variables.of(process)
        tables.append({
            (process.names.variables[number], tuple(variables.symbols[number].get("shape") or ())): number
            for number in variables.ids(kind).tolist()
        })  # fmt: skip
    shared = [key for key in tables[0] if len(key[1]) > 1 and all(key in other for other in tables[1:])]
    columns = [np.array([table[key] for key in shared], dtype=np.int64) for table in tables]
    return columns[0], columns


def _equal_at(run: Run, peers: tuple[int, ...], columns: list[Ints], times: list[Ints]) -> Bools:
    """For each variable (rows) and time (columns) whether all ranks have the same content."""
    values = []
    for position, mine, at in zip(peers, columns, times, strict=True):
        found = digests(run.processes[position], np.repeat(mine, len(at)), np.tile(at, len(mine)))
        values.append(found.reshape(len(mine), len(at)))
    equal = np.ones(values[0].shape, dtype=bool)
    for other in values[1:]:
        equal &= other == values[0]
    return equal


def _times(run: Run, peers: tuple[int, ...]) -> tuple[list[Ints], list[Ints], int]:
    """Begins of the steps that all ranks take, the times at which parameters are compared after them, and the number of
    steps. What is sent around after a step is there when the next one begins.
    """
    beside = side_by_side(run, peers)
    steps = [
        [run.processes[position].lead_steps[window] for window in windows]
        for position, windows in zip(peers, beside.windows, strict=True)
    ]
    begins = [np.array([step.begin for step in mine], dtype=np.int64) for mine in steps]
    ends = [np.array([step.end for step in mine], dtype=np.int64) for mine in steps]
    after = [np.concatenate([end, begin[1:]]) for begin, end in zip(begins, ends, strict=True)]
    return begins, after, beside.count


def replicas(run: Run, peers: tuple[int, ...]) -> bool:
    """Whether all ranks have the same parameters when the first step begins: copies of one model, and no shards."""
    begins, _, count = _times(run, peers)
    first, columns = _alike(run, peers, "parameter")
    if not count or not len(first):
        return False
    process = run.processes[peers[0]]
    variables, trained = Variables.of(process), sorted(trained_roots(process))
    ids = variables.ids("parameter")
    ids = ids[np.isin(variables.root[ids], trained)]
    every = ids[[len(variables.symbols[number].get("shape") or ()) > 1 for number in ids.tolist()]] if len(ids) else ids
    mine = np.isin(first, every)
    if not mine.any() or mine.sum() < len(every):
        return False
    chosen = [column[mine] for column in columns]
    return bool(_equal_at(run, peers, chosen, [at[:1] for at in begins]).all())


def _between_replicas(run: Run, what: Thing) -> Examples:
    examples = transferable(Distinct().examples(BetweenRanks(what), run))
    alike = [peers[0] for peers in run.peers if replicas(run, peers)]
    kept = np.isin(examples.process, alike)
    return (
        Examples(examples.holds[kept], examples.process[kept], examples.row[kept], examples.variable[kept])
        if kept.any()
        else EMPTY
    )


def _drawn(run: Run, what: Thing) -> Examples:
    """The states of a generator that ranks have drawn from."""
    counted = [process.events["value"][process.measures(what)] for process in run.processes]
    if not any((numbers > 0).any() for numbers in counted):
        return EMPTY
    examples = _between_replicas(run, what)
    return replace(examples, observed=Labels.constant(_OF_TORCH[what], len(examples)))


def _staying(run: Run, peers: tuple[int, ...]) -> Examples:
    """One example for each parameter that an optimizer moves and that is the same on all ranks at first."""
    begins, after, count = _times(run, peers)
    if count < 2:
        return EMPTY
    process = run.processes[peers[0]]
    first, columns = _alike(run, peers, "parameter")
    if not len(first):
        return EMPTY
    at_first = _equal_at(run, peers, columns, [at[:1] for at in begins])[:, 0]
    later = _equal_at(run, peers, columns, after)
    moved = Variables.of(process).changed(
        first, np.full(len(first), begins[0][0] - 1), np.full(len(first), after[0].max())
    )
    chosen = at_first & moved & Variables.of(process).held[first]
    if not chosen.any():
        return EMPTY
    row = process.lead_steps[0].row
    return table(process, peers[0], later[chosen].any(axis=1), np.full(int(chosen.sum()), row), first[chosen])


def _averaged(run: Run, peers: tuple[int, ...]) -> Examples:
    """One example for each parameter whose gradient is the same on all ranks in every step."""
    begins, _, count = _times(run, peers)
    gradients, columns = _alike(run, peers, "gradient")
    if not count or not len(gradients):
        return EMPTY
    process = run.processes[peers[0]]
    same = _equal_at(run, peers, columns, begins).all(axis=1)
    state = Variables.of(process).state(gradients, np.full(len(gradients), begins[0][-1]))
    same &= state == fmt.NONZERO
    owners = [Variables.of(run.processes[position]).companion("parameter")[mine[same]]
              for position, mine in zip(peers, columns, strict=True)]  # fmt: skip
    if not same.any():
        return EMPTY
    equal = np.asarray(_equal_at(run, peers, owners, begins).any(axis=1))
    row = process.lead_steps[0].row
    return table(process, peers[0], equal, np.full(len(equal), row), owners[0])


def _wrapped_calls(process: Process, position: int) -> Examples:
    """One example for each training call of a model that has a wrapper: whether it lies in a call of it."""
    wrappers = vocabulary.wrapper_calls(process)
    roots, entries = module_roots(process), process.forward_rows
    entries = entries[(process.stage[entries] == TRAIN) & (process.grad_mode[entries] == 1)]
    entries = entries[np.isin(roots[process.events["mod"][entries]], roots[process.events["mod"][wrappers]])]
    if not len(entries):
        return EMPTY
    seq, ends = process.events["seq"], process.events["end"]
    around = np.searchsorted(seq[wrappers], seq[entries], side="right") - 1
    inside = (around >= 0) & (ends[wrappers[np.maximum(around, 0)]] > seq[entries])
    return table(process, position, inside, entries)
