"""What loss functions are given: logits where they take the softmax or the sigmoid themselves, probabilities or their
logarithms where they do not, and targets of the right kind and shape.

A softmax before `cross_entropy` or a sigmoid before `binary_cross_entropy_with_logits` raises no error. The loss goes
down, slowly, and never far.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_traincheck.relations.accumulate import Accumulate, Used
from pytest_traincheck.relations.base import EMPTY, Examples
from pytest_traincheck.relations.batches import batches
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, seen, table
from pytest_traincheck.relations.laws.places import arguments, calls_of, labels_of
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.loss_scale import multiples
from pytest_traincheck.relations.meaning import Place
from pytest_traincheck.relations.vocabulary import F
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints
from pytest_traincheck.trace.stages import TRAIN

_GIVEN = "loss.input="
_GENERATED = "https://docs.pytorch.org/docs/stable/generated/torch.nn."

_OF_LOGITS: Mapping[str, frozenset[str]] = {
    # The logarithm of a softmax is its own log-softmax: that is twice the work and the same loss.
    f"{F}cross_entropy": frozenset({"softmax", "sigmoid", "logsigmoid"}),
    f"{F}binary_cross_entropy_with_logits": frozenset({"softmax", "sigmoid", "logsigmoid", "log_softmax"}),
}
_OF_OTHERS: Mapping[str, frozenset[str]] = {
    f"{F}nll_loss": frozenset({"softmax", "sigmoid", "relu", "tanh"}),
    f"{F}kl_div": frozenset({"softmax", "sigmoid", "relu", "tanh"}),
    f"{F}binary_cross_entropy": frozenset({"log_softmax", "logsigmoid", "relu", "tanh"}),
}


class LogitsWanted(Law):
    """Probabilities go into a loss that takes logits."""

    name = "LogitsWanted"
    subject = "torch.nn.functional.cross_entropy"
    says = "Losses that take logits are given logits, and no output of softmax or sigmoid"
    expected = "logits go into the loss"
    because = Reason(
        "probabilities-into-logit-loss",
        "`cross_entropy` takes the log-softmax itself, and `binary_cross_entropy_with_logits` the sigmoid. Of "
        "probabilities that gives nearly flat ones: the loss cannot come near 0 and the gradients are small.",
        f"{_GENERATED}CrossEntropyLoss.html",
        "Hand the loss what the last layer returns, and take softmax or sigmoid only where probabilities are wanted.",
    )
    right = "loss = F.cross_entropy(model(x), labels)"
    wrong = "loss = F.cross_entropy(model(x).softmax(-1), labels)"
    place = Place.LOSS

    def places(self, run: Run) -> Examples:
        return each_process(run, lambda process, position: _given(process, position, _OF_LOGITS))

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        made = seen(examples, broken[0])
        return Told(f"`{process.api[row]}` is given the output of `{made}`, and takes logits.",
                    f"the output of `{made}` goes into the loss")  # fmt: skip


class LogarithmsWanted(Law):
    """A loss of log-probabilities, or of probabilities, is given something else."""

    name = "LogarithmsWanted"
    subject = "torch.nn.functional.nll_loss"
    says = "`nll_loss` and `kl_div` are given log-probabilities, and `binary_cross_entropy` probabilities"
    expected = "log-probabilities go into `nll_loss` and `kl_div`, probabilities into `binary_cross_entropy`"
    because = Reason(
        "wrong-input-of-likelihood-loss",
        "`nll_loss` and `kl_div` take no logarithm themselves. Of probabilities their value is no likelihood, negative "
        "and bounded, and the gradient is the same for good and bad predictions.",
        f"{_GENERATED}NLLLoss.html",
        "Use `log_softmax`, or `cross_entropy` with the logits.",
    )
    right = "loss = F.nll_loss(F.log_softmax(logits, dim=-1), labels)"
    wrong = "loss = F.nll_loss(F.softmax(logits, dim=-1), labels)"
    place = Place.LOSS

    def places(self, run: Run) -> Examples:
        return each_process(run, lambda process, position: _given(process, position, _OF_OTHERS))

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        made = seen(examples, broken[0])
        return Told(
            f"`{process.api[row]}` is given the output of `{made}`.", f"the output of `{made}` goes into the loss"
        )


class NoNegativeLikelihood(Law):
    """A cross-entropy is negative."""

    name = "NoNegativeLikelihood"
    subject = "torch.nn.functional.cross_entropy"
    says = "Cross-entropies and negative log-likelihoods are not negative"
    expected = "a loss of 0 or more"
    because = Reason(
        "negative-cross-entropy",
        "A cross-entropy of class indices, or of targets between 0 and 1, is never below 0. One that is was given "
        "something else: probabilities in the place of their logarithms, or targets outside of 0 to 1.",
        f"{_GENERATED}BCEWithLogitsLoss.html",
        "Look at what the loss is given; scale targets of a binary cross-entropy to 0 to 1.",
    )
    right = "loss = F.binary_cross_entropy_with_logits(logits, image / 255)"
    wrong = "loss = F.binary_cross_entropy_with_logits(logits, image / 127.5 - 1)"
    place = Place.LOSS
    depth = 3

    def places(self, run: Run) -> Examples:
        return each_process(run, _values)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.api[row]}` is {process.events['value'][row]:.4g}, which no cross-entropy can be.",
                    "a negative cross-entropy")  # fmt: skip


class BinaryTargets(Law):
    """Targets of a binary cross-entropy are no probabilities."""

    name = "BinaryTargets"
    subject = "torch.nn.functional.binary_cross_entropy_with_logits"
    says = "Targets of a binary cross-entropy lie between 0 and 1"
    expected = "targets between 0 and 1"
    because = Reason(
        "binary-targets-out-of-range",
        "The targets of a binary cross-entropy are probabilities. Beyond 0 and 1 the loss has no minimum: the logits "
        "are pushed on for ever.",
        f"{_GENERATED}BCEWithLogitsLoss.html",
        "Bring the targets to 0 to 1, or use a regression loss.",
    )
    right = "loss = F.binary_cross_entropy_with_logits(logits, pixels)  # 0 to 1"
    wrong = "loss = F.binary_cross_entropy_with_logits(logits, 2 * pixels - 1)"
    place = Place.LOSS

    def places(self, run: Run) -> Examples:
        return each_process(run, _targets)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.api[row]}` is given targets {seen(examples, broken[0])}.", "targets outside of 0 to 1")


class SameShape(Law):
    """A regression loss is given an input and a target of different shapes."""

    name = "SameShape"
    subject = "torch.nn.functional.mse_loss"
    says = "Element-wise losses are given inputs and targets of one shape"
    expected = "input and target have one shape"
    because = Reason(
        "loss-broadcasts",
        "An input of shape (n, 1) and a target of shape (n,) are broadcast to (n, n): every prediction is compared "
        "with every target, and the best that the model can do is to predict their mean.",
        f"{_GENERATED}MSELoss.html",
        "Bring both to one shape, as with `output.squeeze(-1)`.",
    )
    right = "loss = F.mse_loss(model(x).squeeze(-1), y)"
    wrong = "loss = F.mse_loss(model(x), y)  # (n, 1) and (n,)"
    place = Place.LOSS

    def places(self, run: Run) -> Examples:
        return each_process(run, _shapes)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.api[row]}` is given {seen(examples, broken[0])}, and broadcasts them.",
                    "input and target of different shapes")  # fmt: skip


class DivergenceMean(Law):
    """A divergence is averaged over all elements."""

    name = "DivergenceMean"
    subject = "torch.nn.functional.kl_div"
    says = "`kl_div` is reduced to a sum or to the mean over the batch, and not to the mean over all elements"
    expected = '`reduction="batchmean"`'
    because = Reason(
        "divergence-mean",
        'With `reduction="mean"` the sum is divided by the number of classes as well as by that of the examples, which '
        "is not the Kullback-Leibler divergence and weighs the term less, the more classes there are.",
        f"{_GENERATED}KLDivLoss.html",
        'Use `reduction="batchmean"`.',
        "A weight of the term that makes up for it.",
    )
    right = 'loss = F.kl_div(student, teacher, reduction="batchmean")'
    wrong = "loss = F.kl_div(student, teacher)"
    place = Place.LOSS

    def places(self, run: Run) -> Examples:
        return each_process(run, _reductions)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told('`kl_div` is called with `reduction="mean"`, which divides by the number of classes as well.',
                    '`reduction="mean"`')  # fmt: skip


def _given(process: Process, position: int, wrong: Mapping[str, frozenset[str]]) -> Examples:
    """One example for each call of a loss that trains: what made its input."""
    rows, holds, made = [], [], []
    for symbol in process.raw.symbols["measure"][1:]:
        name = str(symbol.get("name", ""))
        if not name.startswith(_GIVEN):
            continue
        by = name.removeprefix(_GIVEN)
        for row in process.parent_row[process.measures(name)].tolist():
            refused = wrong.get(process.api[row]) if row >= 0 else None
            if refused is not None:
                rows.append(row)
                holds.append(by not in refused)
                made.append(by)
    if not rows:
        return EMPTY
    return table(process, position, holds, rows, None, {"api": process.api.take(np.array(rows))}, labels_of(made))


def _calls(process: Process, names: frozenset[str] | set[str]) -> Ints:
    rows = calls_of(process, names)
    return np.asarray(rows[process.stage[rows] == TRAIN])


def _values(process: Process, position: int) -> Examples:
    """One example for each call in training: losses of smoothed or weighted targets are not negative either."""
    rows = _calls(process, {f"{F}cross_entropy", f"{F}nll_loss", f"{F}binary_cross_entropy_with_logits"})
    values = process.events["value"][rows]
    rows, values = rows[~np.isnan(values)], values[~np.isnan(values)]
    # Sums of rounding errors lie around 0.
    return table(process, position, values > -1e-4, rows, None, {"api": process.api.take(rows)}) if len(rows) else EMPTY


def _targets(process: Process, position: int) -> Examples:
    rows, holds, observed = [], [], []
    for (owner, given, stage), mine in batches(process).items():
        if stage == TRAIN and given == "target" and owner.startswith(f"{F}binary_cross_entropy"):
            for sort, text in (("negative", "below 0"), ("above one", "above 1")):
                known = np.flatnonzero(~np.isnan(mine.facts[sort]))
                parents = process.parent_row[mine.rows[known]]
                rows += parents.tolist()
                holds += (mine.facts[sort][known] == 0).tolist()
                observed += [text] * len(known)
    if not rows:
        return EMPTY
    return table(process, position, holds, rows, None, None, labels_of(observed))


def _shape(value: object) -> tuple[int, ...] | None:
    tensor = value.get("tensor") if isinstance(value, Mapping) else None
    return tuple(tensor["shape"]) if isinstance(tensor, Mapping) else None


def _shapes(process: Process, position: int) -> Examples:
    names = {f"{F}{name}" for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "gaussian_nll_loss")}
    rows, holds, texts = [], [], []
    for row in _calls(process, names).tolist():
        values = arguments(process, row)
        shapes = [_shape(values.get(name)) for name in ("input", "target")]
        if shapes[0] is not None and shapes[1] is not None:
            rows.append(row)
            holds.append(not _both_grow(shapes[0], shapes[1]))
            texts.append(f"an input of shape {shapes[0]} and a target of shape {shapes[1]}")
    if not rows:
        return EMPTY
    return table(process, position, holds, rows, None, {"api": process.api.take(np.array(rows))}, labels_of(texts))


def _both_grow(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether both of two shapes are broadcast. A target that is smaller alone may be meant for all of the input."""
    together = np.broadcast_shapes(one, other)
    return together not in (one, other)


def _reductions(process: Process, position: int) -> Examples:
    rows = _calls(process, {f"{F}kl_div"})
    holds = [arguments(process, row).get("reduction") != "mean" for row in rows.tolist()]
    return table(process, position, holds, rows) if len(rows) else EMPTY


class AccumulatedMean(Law):
    """Losses of micro-batches are added up without dividing by how many there are, or divided twice."""

    name = "AccumulatedMean"
    subject = "torch.autograd.backward"
    says = "Mean losses of micro-batches that are accumulated in one step are divided by how many there are"
    expected = "each loss divided by the number of micro-batches"
    because = Reason(
        "accumulation-not-averaged",
        "Gradients of several backward passes add up. Where each loss is a mean, the sum grows with the number of "
        "passes, as if the learning rate did; divided twice it shrinks.",
        "https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation",
        "Call `(loss / passes).backward()`; frameworks that accumulate for you divide themselves.",
        "Sums that are meant, with a learning rate to match.",
    )
    right = "for part in parts:\n    (loss(part) / len(parts)).backward()\noptimizer.step()"
    wrong = "for part in parts:\n    loss(part).backward()\noptimizer.step()"
    place = Place.LOSS
    depth = 2

    def places(self, run: Run) -> Examples:
        return each_process(run, lambda process, position: _accumulated(run, process, position))

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told(f"Gradients of several micro-batches are accumulated, and {seen(examples, broken[0])}.",
                    seen(examples, broken[0]))  # fmt: skip


def _accumulated(run: Run, process: Process, position: int) -> Examples:
    """One example for each step that accumulates passes from one line, each of one mean loss, divided by their number
    or by 1 or by its square. Other multiples say that something else is done.
    """
    table_of = multiples(process)
    ratios = dict(zip(table_of.rows.tolist(), table_of.ratio["mean"].tolist(), strict=True))
    examples = Accumulate().examples(Used(), run)
    lost = examples.row[~examples.holds & (examples.process == position)]
    passes = _summed(process, table_of.rows[~np.isin(table_of.rows, lost)])
    rows, holds, texts = [], [], []
    several = {window for (window, *_), mine in passes.items() if len(mine) > 1}
    if 2 * len(several) < process.windows:
        return EMPTY  # Now and then two passes meet in one step, as at the end of an epoch.
    for (window, *_), mine in passes.items():
        count = len(mine)
        mean = ratios[mine[0]]
        if count < 2 or window >= process.windows or any(abs(ratios[row] - mean) > _EXACT * abs(mean) for row in mine):
            continue
        for factor, text in ((1.0, "the mean losses are added up"), (count**-2, "each loss is divided twice"),
                             (1 / count, "")):  # fmt: skip
            if abs(mean - factor) < _EXACT * factor:
                rows.append(mine[0])
                holds.append(not text)
                texts.append(text)
    if not rows:
        return EMPTY
    return table(process, position, holds, rows, None, None, labels_of(texts))


def _summed(process: Process, rows: Ints) -> dict[tuple[int, int, int], list[int]]:
    """Backward passes by their window, the step of any optimizer that comes next, and their line: those between two
    steps. Those of a closure that an optimizer calls are no parts of one sum.
    """
    begins = np.array([step.begin for step in process.steps], dtype=np.int64)
    rows = rows[~process.inside("optimizer")[rows]]
    following = np.searchsorted(begins, process.events["seq"][rows].astype(np.int64))
    found: dict[tuple[int, int, int], list[int]] = {}
    for row, step in zip(rows.tolist(), following.tolist(), strict=True):
        found.setdefault((int(process.window[row]), step, int(process.events["src"][row])), []).append(row)
    return found


_EXACT = 1e-3
