"""Train mode and eval mode: `train()` for what is trained, `eval()` and no gradients for what is only asked.

`eval()` is called before each evaluation and `train()` forgotten afterwards; a model that was loaded is in eval mode;
a teacher or the evaluation itself runs with dropout, and BatchNorm takes its statistics from the validation batch.
"""

from __future__ import annotations

import numpy as np

from pytest_traincheck.relations import vocabulary
from pytest_traincheck.relations.accumulate import Accumulate, Used
from pytest_traincheck.relations.base import EMPTY, Examples, listed, variable_names
from pytest_traincheck.relations.context import call_context, module_roots
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, in_step, table
from pytest_traincheck.relations.laws.places import arguments, calls_of
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Deviation, Place
from pytest_traincheck.relations.vocabulary import F
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.stages import EVAL, INIT, TRAIN
from pytest_traincheck.trace.variables import Variables

_MODES = "https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval"
_TRAIN = "https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.train"
_BATCH_NORM = "https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html"
_NO_GRAD = "https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html"


class TrainsInTrainMode(Law):
    """A model is in eval mode in its training steps."""

    name = "TrainsInTrainMode"
    subject = "torch.nn.Module.train"
    says = "A model whose parameters are trained is in train mode in training steps"
    expected = "train mode in training steps"
    because = Reason(
        "eval-mode-in-training",
        "In eval mode dropout does nothing and BatchNorm takes running statistics, which then never move. A model that "
        "is trained so is another one than was meant.",
        _MODES,
        "Call `model.train()` at the start of each epoch and after each evaluation. Models that are loaded from a hub "
        "are in eval mode.",
        "Fine-tuning with all statistics and dropout switched off.",
    )
    right = "evaluate(model.eval())\nmodel.train()"
    wrong = "evaluate(model.eval())\nfor batch in loader:\n    loss(model(batch)).backward()"
    place = Place.FORWARD

    def places(self, run: Run) -> Examples:
        return each_process(run, lambda process, position: _trained_calls(run, process, position))

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(
            f"`{process.module_name(row)}` is in eval mode in training, first {in_step(run, examples, broken)}: "
            "`train()` is missing.",
            "eval mode in training steps",
        )


class NoDropoutInEvaluation(Law):
    """Dropout is active where a model is only asked."""

    name = "NoDropoutInEvaluation"
    subject = "torch.nn.functional.dropout"
    says = "Dropout does nothing where a model is called without gradients"
    expected = "no dropout in evaluation"
    because = Reason(
        "dropout-in-evaluation",
        "With dropout a prediction is noise around what the model knows: metrics are worse than they need be and "
        "differ each time, and a teacher teaches noise.",
        _MODES,
        "Call `eval()` before evaluation and on teachers. Attention that is given `dropout_p` wants it to be 0 then.",
        "Monte-Carlo dropout.",
    )
    right = "model.eval()\nwith torch.no_grad():\n    metric(model(x))"
    wrong = "with torch.no_grad():\n    metric(model(x))"
    place = Place.FORWARD

    def places(self, run: Run) -> Examples:
        return each_process(run, _dropouts)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"Dropout is active where `{process.module_name(row)}` is called without gradients: `eval()` is "
                    "missing, or the function does not know of it.", "dropout in evaluation")  # fmt: skip


class NoBatchStatisticsInEvaluation(Law):
    """BatchNorm takes statistics of the batch where a model is only asked."""

    name = "NoBatchStatisticsInEvaluation"
    subject = "torch.nn.functional.batch_norm"
    says = "BatchNorm takes its running statistics where a model is called without gradients"
    expected = "running statistics in evaluation"
    because = Reason(
        "batch-statistics-in-evaluation",
        "In train mode BatchNorm normalises with the batch at hand and moves its running statistics along, also below "
        "`no_grad`: predictions depend on what else is in the batch, and validation data leak into the model.",
        _MODES,
        "Call `eval()` before evaluation.",
        "Passes that are made to gather statistics, and adversarial training.",
    )
    right = "model.eval()\nwith torch.no_grad():\n    metric(model(x))"
    wrong = "with torch.no_grad():\n    metric(model(x))"
    place = Place.FORWARD

    def places(self, run: Run) -> Examples:
        return each_process(run, _batch_norms)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.module_name(row)}` takes statistics of the batch where its model is called without "
                    "gradients: `eval()` is missing.", "statistics of the batch in evaluation")  # fmt: skip


class StatisticsMove(Law):
    """Training in train mode, and running statistics that stay as they began."""

    name = "StatisticsMove"
    subject = "torch.nn.functional.batch_norm"
    says = "Running statistics of BatchNorm move where it is trained with statistics of the batch"
    expected = "running statistics follow the batches"
    because = Reason(
        "running-statistics-never-move",
        "Evaluation normalises with the running statistics. Where no training step moves them, they are those that the "
        "layer began with, 0 and 1, or those of other data: the model is evaluated as another one than was trained.",
        _BATCH_NORM,
        "Look for a `momentum` of 0, buffers that are written back, and copies whose buffers do not follow.",
    )
    right = "nn.BatchNorm2d(64)"
    wrong = "nn.BatchNorm2d(64, momentum=0.0)"
    place = Place.STATISTICS
    deviation = Deviation.NEVER

    def places(self, run: Run) -> Examples:
        return each_process(run, _moving_statistics)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)))
        return Told(f"{names} never change, though the model is trained with statistics of the batch.",
                    "statistics never move")  # fmt: skip


class NoGradientsInEvaluation(Law):
    """Evaluation records a graph that nobody uses."""

    name = "NoGradientsInEvaluation"
    subject = "torch.no_grad"
    says = "Evaluation of a model that is trained records no gradients"
    expected = "evaluation below `no_grad`"
    because = Reason(
        "evaluation-records-gradients",
        "Below neither `no_grad` nor `inference_mode` each forward pass keeps what a backward pass would need, which "
        "takes memory and time, and a `backward` by mistake trains on validation data.",
        _NO_GRAD,
        "Put `with torch.no_grad():` around evaluation.",
        "Evaluation that needs gradients of the input.",
    )
    right = "model.eval()\nwith torch.no_grad():\n    metric(model(x))"
    wrong = "model.eval()\nmetric(model(x))"
    place = Place.FORWARD

    def places(self, run: Run) -> Examples:
        return each_process(run, _evaluations)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.module_name(row)}` is evaluated with gradients: `no_grad` is missing.",
                    "gradients are recorded in evaluation")  # fmt: skip


def _roots_of(process: Process, rows: Ints) -> Ints:
    return np.asarray(module_roots(process)[process.events["mod"][rows]])


def _held_roots(process: Process) -> list[int]:
    """Roots of which an optimizer that steps holds parameters."""
    variables = Variables.of(process)
    return sorted(set(variables.root[variables.held].tolist()) - {0})


def _trained_calls(run: Run, process: Process, position: int) -> Examples:
    """One example for each training call of a model that holds something that acts by mode."""
    rows = process.forward_rows
    rows = rows[(process.stage[rows] == TRAIN) & (process.grad_mode[rows] == 1)]
    roots = _roots_of(process, rows)
    acting = [number for number, name in enumerate(process.names.roots) if name in vocabulary.acting_by_mode(process)]
    kept = np.isin(roots, acting) & np.isin(roots, _held_roots(process))
    rows = rows[kept]
    rows = rows[~_thrown_away(run, process, position, rows)]
    return table(process, position, (process.events["flags"][rows] & fmt.TRAINING) != 0, rows) if len(rows) else EMPTY


def _thrown_away(run: Run, process: Process, position: int, rows: Ints) -> Bools:
    """Which calls lead to a backward pass whose gradients no step uses: what is differentiated to measure how much
    parameters matter is no training.
    """
    passes = Accumulate().examples(Used(), run)
    lost = passes.row[~passes.holds & (passes.process == position)]
    backward = process.rows_of_type("autograd")
    backward = backward[~process.inside("autograd", "optimizer")[backward]]
    following = np.append(backward, -1)[np.searchsorted(backward, rows)]
    return np.isin(following, lost)


def _asked(process: Process, rows: Ints) -> Ints:
    """Those calls that record no gradients and are not computed again for them, in a model that is only asked."""
    entries, events = process.entry_rows, process.events
    if not len(entries) or not len(rows):
        return rows[:0]
    seq = events["seq"]
    rows = rows[(process.grad_mode[rows] == 0) & (process.stage[rows] != INIT) & ~_recomputed(process, rows)]
    around = np.searchsorted(seq[entries], seq[rows], side="right") - 1
    rows, entry = rows[around >= 0], entries[around[around >= 0]]
    return np.asarray(rows[~_feeds(process, entry)])


def _recomputed(process: Process, rows: Ints) -> Bools:
    """Which events lie in a checkpoint, whose first pass records nothing although it is trained with."""
    calls, seq = process.rows_of_type("checkpoint"), process.events["seq"]
    if not len(calls):
        return np.zeros(len(rows), dtype=bool)
    last = np.searchsorted(seq[calls], seq[rows]) - 1
    latest = np.maximum.accumulate(process.events["end"][calls])
    return np.asarray((last >= 0) & (latest[np.maximum(last, 0)] > seq[rows]))


def _feeds(process: Process, entries: Ints) -> Bools:
    """Which calls of models are made for the training of another one, as those of a generator are whose critic learns
    next: of models that are trained themselves, where the next training call is another model's.
    """
    training = process.entry_rows
    training = training[(process.stage[training] == TRAIN) & (process.grad_mode[training] == 1)]
    own, following = _roots_of(process, entries), np.searchsorted(training, entries)
    nobody = np.append(_roots_of(process, training), -1)
    next_root = nobody[following]
    return np.asarray(np.isin(own, _held_roots(process)) & (next_root >= 0) & (next_root != own))


def _dropouts(process: Process, position: int) -> Examples:
    rows = _asked(process, calls_of(process, _DROPOUTS))
    moving = [number for number in np.unique(_roots_of(process, rows)).tolist() if _root_follows(process, number)]
    rows = rows[~np.isin(_roots_of(process, rows), moving)]
    if not len(rows):
        return EMPTY
    given = [arguments(process, row) for row in rows.tolist()]
    holds = [not values.get("p", values.get("dropout_p")) or values.get("training") is False for values in given]
    return table(process, position, holds, rows, None, {"api": process.api.take(rows), **_kept(process, rows)})


def _batch_norms(process: Process, position: int) -> Examples:
    rows = _asked(process, calls_of(process, {f"{F}batch_norm"}))
    rows = rows[~_follows(process)[process.events["mod"][rows]]]
    if not len(rows):
        return EMPTY
    holds = [arguments(process, row).get("training") is not True for row in rows.tolist()]
    return table(process, position, holds, rows, None, _kept(process, rows))


def _moving_statistics(process: Process, position: int) -> Examples:
    """One example for each running mean or variance of a layer that is called with statistics of the batch, with
    gradients, in two steps or more.
    """
    rows = calls_of(process, {f"{F}batch_norm"})
    rows = rows[(process.grad_mode[rows] == 1) & (process.stage[rows] == TRAIN)]
    rows = rows[[arguments(process, row).get("training") is True for row in rows.tolist()]] if len(rows) else rows
    variables, symbols = Variables.of(process), process.raw.symbols["mod"]
    first: dict[tuple[int, str], int] = {}
    windows: dict[tuple[int, str], set[int]] = {}
    for row in rows.tolist():
        symbol = symbols[int(process.events["mod"][row])]
        place = (int(symbol.get("root", 0)), str(symbol.get("path", "")))
        first.setdefault(place, row)
        windows.setdefault(place, set()).add(int(process.window[row]))
    found, chosen = [], []
    for number in variables.ids("buffer").tolist():
        path, _, name = str(variables.symbols[number].get("name", "")).rpartition(".")
        place = (int(variables.root[number]), path)
        if name in ("running_mean", "running_var") and len(windows.get(place, ())) > 1:
            found.append(first[place])
            chosen.append(number)
    ids = np.array(chosen, dtype=np.int64)
    if not len(ids):
        return EMPTY
    known = variables.last(ids, np.full(len(ids), _EVER)) >= 0
    moved = variables.changed(ids, np.zeros(len(ids), dtype=np.int64), np.full(len(ids), _EVER))
    return table(process, position, moved[known], np.array(found, dtype=np.int64)[known], ids[known])


def _follows(process: Process) -> Bools:
    """Which modules have parameters that change although no optimizer holds them: those of a copy that follows the
    model, which is called in train mode where its statistics shall follow, too.
    """

    def compute() -> Bools:
        variables, raw = Variables.of(process), process.raw.symbols["mod"]
        ids = variables.ids("parameter")
        ids = ids[~variables.held[ids]]
        ends = process.step_ends
        if not len(ids) or not len(ends):
            return np.zeros(len(raw), dtype=bool)
        moved = ids[variables.changed(ids, np.full(len(ids), process.steps[0].begin), np.full(len(ids), _EVER))]
        symbols = [variables.symbols[number] for number in moved.tolist()]
        places = {(symbol.get("root", 0), str(symbol.get("name", "")).rpartition(".")[0]) for symbol in symbols}
        return np.array([(symbol.get("root", 0), symbol.get("path", "")) in places for symbol in raw], dtype=bool)

    return process.memo("modules that follow", compute)


def _root_follows(process: Process, root: int) -> bool:
    """Whether a model is a copy that follows another one, as a mean teacher is, whose noise is meant."""
    variables = Variables.of(process)
    mine = variables.ids("parameter")
    mine = mine[variables.root[mine] == root]
    if not len(mine) or variables.held[mine].any() or not process.steps:
        return False
    return bool(variables.changed(mine, np.full(len(mine), process.steps[0].begin), np.full(len(mine), _EVER)).all())


_EVER = np.iinfo(np.int32).max


def _evaluations(process: Process, position: int) -> Examples:
    rows = process.forward_rows
    rows = rows[process.stage[rows] == EVAL]
    rows = rows[np.isin(_roots_of(process, rows), _held_roots(process))]
    if not len(rows):
        return EMPTY
    context = call_context(process, rows)
    return table(process, position, process.grad_mode[rows] == 0, rows, None, {"training": context["training"]})


def _kept(process: Process, rows: Ints) -> dict[str, Labels]:
    context = call_context(process, rows)
    return {"stage": context["stage"]}


_DROPOUTS = frozenset(
    {*(name for name in vocabulary.STOCHASTIC if "dropout" in name), f"{F}scaled_dot_product_attention"}
)
