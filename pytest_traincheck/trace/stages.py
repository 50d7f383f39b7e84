"""The stage of every event: set-up, training or evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from pytest_traincheck.optimizer_label import BY_HAND
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Codes, Ints

if TYPE_CHECKING:
    from pytest_traincheck.trace.process import Process

Stage = Literal["init", "train", "eval"]
STAGES: tuple[Stage, ...] = ("init", "train", "eval")
INIT, TRAIN, EVAL = range(3)

# Calls that belong to training whatever model was called last: a `zero_grad` at the top of the loop follows the
# evaluation of the last epoch.
TRAINING_TYPES = frozenset({"optimizer", "zero_grad", "autograd", "clip", "scaler", "scheduler", "update"})


DERIVES = "torch.autograd.grad"
"""What trains a model only where no `backward` ever does: an evaluation may ask for derivatives as well, as that of the
residual of a differential equation.
"""


def stages(process: Process) -> Codes:
    """Index into `STAGES` for each event.

    A forward pass belongs to training if gradients are recorded and a backward pass follows before the same model is
    called with gradients and another training flag. So a model left in eval mode is still seen to train, an evaluation
    without `no_grad` is still an evaluation, and a frozen teacher called in between changes nothing. One that comes
    before the optimizers are made belongs to set-up: it shows shapes, or fills lazy modules. What happens outside
    forward passes goes with the last one that recorded gradients, or is evaluation if it records none itself.
    """
    events = process.events
    result: Codes = np.full(len(events), INIT, dtype=np.int8)
    entries = process.entry_rows
    if entries.size:
        stage = _entry_stages(process, entries)
        stage[_before_optimizers(process, entries)] = INIT
        last, inside = _forward_around(process, entries)
        # An event before all others is looked up at the end of a table: there stands what is true of it.
        recording = process.grad_mode[entries] == 1
        outside = np.append(np.where(stage != INIT, EVAL, INIT), INIT).astype(np.int8)[last]
        if recording.any():
            recorded = entries[recording]
            last_recorded = pieces(recorded, len(events)) - 1
            follows = (last_recorded >= 0) & (process.grad_mode == 1)
            outside[follows] = stage[recording][last_recorded[follows]]
        result = np.where(inside, np.append(stage, INIT).astype(np.int8)[last], outside)
    elif any(process.optimizer_class[step.optimizer] == BY_HAND for step in process.steps):
        _of_functions(process, result)
    derived = process.api.isin([DERIVES]) & (result == EVAL)
    result[process.type_codes.isin(TRAINING_TYPES) & ~derived] = TRAIN
    # A hook that exchanges gradients records none itself.
    result[process.is_call & process.inside("autograd", "clip")] = TRAIN
    return result


def pieces(begins: Codes, size: int) -> Codes:
    """For each of `size` events how many of the rows `begins`, which are in order, come up to it."""
    return np.repeat(np.arange(len(begins) + 1, dtype=np.int32), np.diff(begins, prepend=0, append=size))


def _forward_around(process: Process, entries: Ints) -> tuple[Codes, Bools]:
    """For each event the last of the forward passes that began up to then, -1 for none, and whether it lies in it."""
    events = process.events
    last = pieces(entries, len(events)) - 1
    return last, events["seq"] < np.append(events["end"][entries], np.uint32(0))[last]


def _of_functions(process: Process, result: Codes) -> None:
    """The stages of a program that has neither a model nor an optimizer: what comes before the last `backward` and
    records gradients is training, and what records none is evaluation; initialisation is set-up.
    """
    seq = process.events["seq"]
    calls = process.is_call & ~process.type_codes.isin(["init"])
    backward = seq[process.rows_of_type("autograd")]
    began = seq[calls & process.type_codes.isin(["function", "data"])]
    if len(backward) and len(began):
        since = seq >= began.min()
        result[since] = np.where((process.grad_mode[since] == 1) & (seq[since] <= backward.max()), TRAIN, EVAL)


def shown(process: Process) -> Bools:
    """Which events lie in a forward pass of set-up, that of a model that is not trained yet."""
    entries = process.entry_rows[process.stage[process.entry_rows] == INIT]
    if not entries.size:
        return np.zeros(len(process.events), dtype=bool)
    return _forward_around(process, entries)[1]


def _before_optimizers(process: Process, entries: Ints) -> Bools:
    """Which forward passes come before the last optimizer that is made before the first step, and lead to no backward
    pass until then.
    """
    seq = process.events["seq"]
    made, steps, backward = (seq[process.rows_of_type(name)] for name in ("construct", "optimizer", "autograd"))
    made = made[made < steps.min()] if len(steps) else made[:0]
    if not len(made):
        return np.zeros(len(entries), dtype=bool)
    trained = backward[backward < made.max()]
    since = trained.max() if len(trained) else 0
    starts = seq[entries]
    return np.asarray((starts > since) & (starts < made.max()))


def _held_roots(process: Process) -> list[int]:
    variables = process.raw.symbols["var"]
    held = {
        variables[number].get("root", 0)
        for group in process.raw.symbols["group"][1:]
        for number in group.get("params", ())
        if number < len(variables)
    }
    return sorted(held)


def _entry_stages(process: Process, entries: Ints) -> Ints:
    events = process.events
    seq = events["seq"]
    training = (events["flags"][entries] & fmt.TRAINING) != 0
    recording = process.grad_mode[entries] == 1
    roots = np.array([symbol.get("root", 0) for symbol in process.raw.symbols["mod"]], dtype=np.int64)
    root = roots[events["mod"][entries]]
    passes = process.rows_of_type("autograd")
    backward = seq[passes].astype(np.int64)
    trained = backward[~process.api.take(passes).isin([DERIVES])]
    stage = np.full(len(entries), EVAL, dtype=np.int64)
    # A model in eval mode that no optimizer holds (a teacher, a target network) is evaluated, whoever trains on its
    # output.
    recording &= training | np.isin(root, _held_roots(process))
    if not len(backward):
        # Nothing tells training from evaluation but the flags.
        stage[training & recording] = TRAIN
        return stage
    for number in np.unique(root):
        mine = np.flatnonzero((root == number) & recording)
        if not len(mine):
            continue
        border = np.flatnonzero(np.concatenate([[True], training[mine][1:] != training[mine][:-1]]))
        start = seq[entries[mine[border]]].astype(np.int64)
        limit = np.append(start[1:], np.iinfo(np.int64).max)
        trains = np.searchsorted(trained, limit) > np.searchsorted(trained, start)
        if not trains.any():
            derives = np.searchsorted(backward, limit) > np.searchsorted(backward, start)
            trains = derives & (training[mine[border]] | (len(trained) == 0))
        block = np.searchsorted(border, np.arange(len(mine)), side="right") - 1
        stage[mine] = np.where(trains[block], TRAIN, EVAL)
    return stage
