"""Models beside the one that is trained: copies that begin as copies and follow, teachers that know something.

An average of weights that is never updated, a target network that was drawn by itself, a teacher whose weights were
never loaded: each runs, and teaches or shows nothing.
"""

from __future__ import annotations

import numpy as np

from pytest_traincheck.relations.averages import Averages, Keeps
from pytest_traincheck.relations.base import EMPTY, Examples, listed, variable_names
from pytest_traincheck.relations.context import module_roots, trained_roots
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, table
from pytest_traincheck.relations.laws.places import loaded, weights
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Deviation, Place
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Bools, Ints
from pytest_traincheck.trace.stages import EVAL, TRAIN
from pytest_traincheck.trace.variables import Variables

_AVERAGES = "https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema"
_LEAST_STEPS = 3
_HALF, _NOTHING = 0.5, 0.001
"""Share of itself that an average keeps at least, and what counts as none."""
_EVER = np.iinfo(np.int32).max


class CopyFollows(Law):
    """A copy of a trained model that is only evaluated keeps its first values."""

    name = "CopyFollows"
    subject = "torch.optim.swa_utils.AveragedModel.update_parameters"
    says = "A copy of a trained model that is evaluated changes with it"
    expected = "the copy is updated"
    because = Reason(
        "copy-never-updated",
        "An average of weights that is never updated is the model as it was before training, and so are its metrics.",
        _AVERAGES,
        "Update the copy after each optimizer step.",
        "A copy of the untrained model that results are compared with.",
    )
    right = "optimizer.step()\nema.update_parameters(model)"
    wrong = "ema = AveragedModel(model)\n...\nevaluate(ema)  # never updated"
    place = Place.AVERAGING
    depth = 4
    deviation = Deviation.NEVER

    def places(self, run: Run) -> Examples:
        return each_process(run, _copies)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.module_name(row)}` began as a copy of a model that is trained, is evaluated, and still "
                    "has its first values.", "the copy never changes")  # fmt: skip


class CopyKeepsMost(Law):
    """An average of weights keeps less of itself than it takes of the model."""

    name = "CopyKeepsMost"
    subject = "torch.optim.swa_utils.get_ema_multi_avg_fn"
    says = "A copy that follows a model by averages keeps at least half of itself in an update"
    expected = "a decay near 1"
    because = Reason(
        "decay-swapped",
        "A moving average with a decay below one half is all but the last weights: decay and 1 - decay are swapped.",
        _AVERAGES,
        "Write `copy.lerp_(p, 1 - decay)` with a decay of 0.99 and more.",
        "A decay that is small in the first updates and grows.",
    )
    right = "mine.lerp_(p, 1 - decay)"
    wrong = "mine.lerp_(p, decay)"
    place = Place.AVERAGING
    depth = 2

    def places(self, run: Run) -> Examples:
        return _shares(run)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told("An average of weights keeps less than half of itself in an update: its decay and what is left of "
                    "it are swapped.", "a decay below one half")  # fmt: skip


class TeacherKnows(Law):
    """A model that is only asked in training has random weights."""

    name = "TeacherKnows"
    subject = "torch.nn.Module.load_state_dict"
    says = "A model that is asked without gradients in training steps, and never changes, was loaded or copied"
    expected = "a teacher with trained weights"
    because = Reason(
        "random-teacher",
        "A teacher or reference that keeps the weights it was drawn with teaches noise.",
        remedy="Load its weights, or copy those of a trained model, before training.",
        meant="Random features and random targets that are meant.",
    )
    right = "teacher.load_state_dict(torch.load(path))"
    wrong = "teacher = Net()  # and nothing else"
    place = Place.INITIAL
    depth = 3

    def places(self, run: Run) -> Examples:
        return each_process(run, _teachers)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.module_name(row)}` is asked in training steps, and still has the random weights that "
                    "it was made with.", "a model with random weights is asked")  # fmt: skip


class CopyBeginsEqual(Law):
    """A copy that follows a model begins with other weights."""

    name = "CopyBeginsEqual"
    subject = "copy.deepcopy"
    says = "A copy that follows a trained model begins with the model's weights"
    expected = "the copy begins as a copy"
    because = Reason(
        "follower-begins-apart",
        "A target network, momentum encoder or average that is drawn by itself is for long a mixture of two models "
        "that have nothing to do with each other.",
        _AVERAGES,
        "Make it with `copy.deepcopy(model)`, or load the model's state into it, before the first step.",
        "A copy that takes all of the model at its first update.",
    )
    right = "target = copy.deepcopy(model)"
    wrong = "target = Net()  # drawn by itself"
    place = Place.INITIAL
    depth = 3

    def places(self, run: Run) -> Examples:
        return each_process(run, _followers)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)))
        return Told(f"{names} follow parameters that are trained, and begin with other values.",
                    "the copy begins with other weights")  # fmt: skip


def _copies(process: Process, position: int) -> Examples:
    """One example for each model that no optimizer holds, that began as a copy of one that is trained and has changed
    by then, and that is called in evaluation alone, after some steps.
    """
    variables = Variables.of(process)
    if len(process.steps) < _LEAST_STEPS:
        return EMPTY
    entries = process.forward_rows
    roots = np.array([symbol.get("root", 0) for symbol in process.raw.symbols["mod"]], dtype=np.int64)
    called = roots[process.events["mod"][entries]]
    ids = weights(process, variables.ids("parameter", tied=True))
    begun = variables.last(ids, variables.first_seen(ids))
    contents = np.where(begun >= 0, process.events["digest"][np.maximum(begun, 0)], 0)
    trained = set(variables.root[variables.held].tolist()) & trained_roots(process)
    rows, holds = [], []
    for root in np.unique(called).tolist():
        mine = entries[called == root]
        evaluated = mine[process.window[mine] >= _LEAST_STEPS - 1]
        own = variables.root[ids] == root
        if root in trained or variables.held[ids[own]].any() or not len(evaluated) or not own.any():
            continue
        alone = (process.stage[mine] == EVAL).all() and not _within_training(process, mine)
        copied = np.isin(contents[own], contents[np.isin(variables.root[ids], sorted(trained))])
        if not alone or not copied.all():
            continue
        until = np.full(int(own.sum()), int(process.events["seq"][evaluated[-1]]))
        moved = variables.changed(ids[own], np.full(len(until), process.steps[0].begin), until)
        rows.append(int(evaluated[-1]))
        holds.append(bool(moved.any()))
    return table(process, position, holds, rows) if rows else EMPTY


def _within_training(process: Process, entries: Ints) -> bool:
    """Whether a model is called in most steps between the forward and the backward pass of a training step, as teachers
    and references are.
    """
    backward = process.events["seq"][process.rows_of_type("autograd")]
    training = process.entry_rows[process.stage[process.entry_rows] == TRAIN]
    seq = process.events["seq"]
    last_train = np.searchsorted(seq[training], seq[entries]) - 1
    known = last_train >= 0
    if not known.any() or not len(backward):
        return False
    begins = seq[training[last_train[known]]]
    between = np.searchsorted(backward, seq[entries[known]]) == np.searchsorted(backward, begins)
    return bool(between.any()) or len(np.unique(process.window[entries])) > process.windows // 2 + 1


def _shares(run: Run) -> Examples:
    """One example for each update of a copy that is seen; one that keeps nothing is copied outright."""
    averages = Averages()
    parts = []
    for hypothesis in averages.hypotheses(run):
        claim = hypothesis.claim
        if isinstance(claim, Keeps) and claim.kept > _NOTHING:
            found = averages.examples(claim, run)
            holds = np.full(len(found), claim.kept >= _HALF)
            parts.append(Examples(holds, found.process, found.row, found.variable))
    return Examples.concatenate(parts)


def _first_contents(process: Process, ids: Ints) -> Ints:
    variables = Variables.of(process)
    rows = variables.last(ids, variables.first_seen(ids))
    return np.where(rows >= 0, process.events["digest"][np.maximum(rows, 0)], 0).astype(np.int64)


def _ever_moved(process: Process, ids: Ints) -> Bools:
    return Variables.of(process).changed(ids, np.zeros(len(ids), dtype=np.int64), np.full(len(ids), _EVER))


def _teachers(process: Process, position: int) -> Examples:
    """One example for each model that no optimizer holds and that is asked without gradients in most training steps,
    as long as training goes on.
    """
    variables = Variables.of(process)
    ids, roots, entries = weights(process), module_roots(process), process.forward_rows
    if process.windows < _LEAST_STEPS or not len(ids):
        return EMPTY
    drawn = process.measures("parameter.initialised")
    made = process.events["args"][drawn[process.events["value"][drawn] > 0]].astype(np.int64)
    contents, saved = _first_contents(process, ids), loaded(process)
    backward = process.events["seq"][process.rows_of_type("autograd")]
    called = roots[process.events["mod"][entries]]
    rows, holds = [], []
    for root in np.unique(called).tolist():
        mine, own = entries[called == root], ids[variables.root[ids] == root]
        mine = mine[process.grad_mode[mine] == 0]
        within = _in_step(process, mine, backward)
        steps = np.unique(process.window[mine[within]])
        if not len(own) or variables.held[own].any() or 2 * len(steps) < process.windows:
            continue
        known = np.isin(own, saved) | ~np.isin(own, made) | _ever_moved(process, own)
        known |= np.isin(contents[variables.root[ids] == root], contents[variables.root[ids] != root])
        rows.append(int(mine[within][0]))
        holds.append(bool(known.any()))
    return table(process, position, holds, rows) if rows else EMPTY


def _in_step(process: Process, rows: Ints, backward: Ints) -> Bools:
    """Which calls a backward pass follows before the next step."""
    begins = np.array([step.begin for step in process.steps], dtype=np.int64)
    seq = process.events["seq"][rows].astype(np.int64)
    following = np.append(begins, _EVER)[np.searchsorted(begins, seq)]
    return np.asarray((np.searchsorted(backward, following) > np.searchsorted(backward, seq)) & (following < _EVER))


def _followers(process: Process, position: int) -> Examples:
    """One example for each weight of a part that no optimizer holds and that changes in steps, where a trained part has
    the same names and shapes.
    """
    variables = Variables.of(process)
    ids = weights(process)
    if len(process.steps) < 2 or not len(ids):
        return EMPTY
    contents = dict(zip(ids.tolist(), _first_contents(process, ids).tolist(), strict=True))
    start = np.full(len(ids), process.steps[0].begin)
    moves = variables.changed(ids, start, np.full(len(ids), process.steps[-1].end))
    names = {number: _endings(process, number) for number in ids.tolist()}
    trained = list(ids[variables.held[ids] & moves].tolist())
    early = variables.first_seen(ids) < start
    idle = ids[~variables.held[ids] & moves & early & ~np.isin(ids, loaded(process))].tolist()
    initial = _ever_held(process, trained)
    sources = {ending for number in trained for ending in names[number]}
    chosen = [number for number in idle if names[number] & sources]
    if not chosen:
        return EMPTY
    rows = variables.last(np.array(chosen), start[: len(chosen)])
    return table(process, position, [contents[number] in initial for number in chosen], np.maximum(rows, 0), chosen)


def _ever_held(process: Process, variables: list[int]) -> set[int]:
    """All that some variables ever were, as hashes: a copy may be made on the way."""
    events, rows = process.events, Variables.of(process).rows
    mine = rows[np.isin(events["subject"][rows], variables)]
    return set(events["digest"][mine].astype(np.int64).tolist())


def _endings(process: Process, number: int) -> set[tuple[str, str, tuple[int, ...]]]:
    """What two parameters of copies have in common: the name below the model, or below a part of it, and the shape. In
    another type the same weights have another hash, and nothing is known of them.
    """
    symbol = Variables.of(process).symbols[number]
    name, kind, shape = str(symbol.get("name", "")), str(symbol.get("dtype", "")), tuple(symbol.get("shape") or ())
    found = {(name, kind, shape)}
    if "." in name:
        found.add((name.partition(".")[2], kind, shape))
    return found
