"""What loss functions are given: logits where they take the softmax or the sigmoid themselves, probabilities or their
logarithms where they do not, and targets of the right kind and shape.

A softmax before `cross_entropy` or a sigmoid before `binary_cross_entropy_with_logits` raises no error. The loss goes
down, slowly, and never far.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples
from pytest_traincheck.relations.batches import batches
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, seen, table
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Place
from pytest_traincheck.relations.vocabulary import F
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Labels
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
        return Told(f"`{process.api[row]}` is given the output of `{made}`.", f"the output of `{made}` goes into the loss")


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
        "The targets of a binary cross-entropy are probabilities. Beyond 0 and 1 the loss has no minimum: the logits are "
        "pushed on for ever.",
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
        "An input of shape (n, 1) and a target of shape (n,) are broadcast to (n, n): every prediction is compared with "
        "every target, and the best that the model can do is to predict their mean.",
        f"{_GENERATED}MSELoss.html",
        "Bring both to one shape, as with `output.squeeze(-1)`.",
        "Broadcasting on purpose, such as one target for a whole picture.",
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
    names = sorted(set(made))
    return table(process, position, holds, rows, None, {"api": process.api.take(np.array(rows))},
                 Labels.of([names.index(name) for name in made], names))  # fmt: skip


def _calls(process: Process, names: frozenset[str] | set[str]) -> np.ndarray:
    rows = np.flatnonzero(process.is_call & process.api.isin(names))
    return rows[process.stage[rows] == TRAIN]


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
                known = np.flatnonzero(~np.isnan(mine.facts[sort]))  # type: ignore[index]
                parents = process.parent_row[mine.rows[known]]
                rows += parents.tolist()
                holds += (mine.facts[sort][known] == 0).tolist()  # type: ignore[index]
                observed += [text] * len(known)
    if not rows:
        return EMPTY
    texts = ("below 0", "above 1")
    return table(process, position, holds, rows, None, None, Labels.of([texts.index(text) for text in observed], texts))


def _summaries(process: Process, row: int) -> Mapping[str, object]:
    return process.raw.symbols["args"][int(process.events["args"][row])].get("values") or {}


def _shape(value: object) -> tuple[int, ...] | None:
    tensor = value.get("tensor") if isinstance(value, Mapping) else None
    return tuple(tensor["shape"]) if isinstance(tensor, Mapping) else None


def _shapes(process: Process, position: int) -> Examples:
    names = {f"{F}{name}" for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "gaussian_nll_loss")}
    rows, holds, texts = [], [], []
    for row in _calls(process, names).tolist():
        values = _summaries(process, row)
        shapes = [_shape(values.get(name)) for name in ("input", "target")]
        if shapes[0] is not None and shapes[1] is not None:
            rows.append(row)
            holds.append(shapes[0] == shapes[1])
            texts.append(f"an input of shape {shapes[0]} and a target of shape {shapes[1]}")
    if not rows:
        return EMPTY
    names_of = sorted(set(texts))
    return table(process, position, holds, rows, None, {"api": process.api.take(np.array(rows))},
                 Labels.of([names_of.index(text) for text in texts], names_of))  # fmt: skip


def _reductions(process: Process, position: int) -> Examples:
    rows = _calls(process, {f"{F}kl_div"})
    holds = [_summaries(process, row).get("reduction") != "mean" for row in rows.tolist()]
    return table(process, position, holds, rows) if len(rows) else EMPTY
