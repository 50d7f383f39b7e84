"""LossScale: `backward` starts from a fixed multiple of the losses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from judgements import sentences, titles
from trace_builder import NAN, tensor
from training_story import F, Measured, Recorder, Training

from pytest_traincheck.rules.model import Scope

MEAN = "`backward` starts from the mean that the loss function returned."
QUARTER = "`backward` starts from 1/4 times the mean that the loss function returned."
PER_KEPT = "`backward` starts from the loss averaged over the targets that are not ignored."
TARGETS = 8


def scaled(
    t: Training, factor: float = 1.0, *, microbatches: int = 1, extra: float = 0.0, jitter: float = 0.0,
    losses: Sequence[str] = (F + "cross_entropy",), measured: bool = True,
) -> None:  # fmt: skip
    """A loss of 0.5, or several, from which `backward` starts times a factor; `extra` is the scale of another term."""
    chance = np.random.default_rng(t.seed)

    def measure(_step: int) -> None:
        root = 0.5 * len(losses) * factor * (1 + jitter * float(chance.standard_normal()))
        if measured:
            t.measure("backward.root", root + extra * float(chance.random()))

    Measured(backward=measure, microbatches=microbatches, losses=losses).tell(t)


def test_a_plain_mean(recorder: Recorder) -> None:
    golden = recorder.learn(scaled)
    assert MEAN in sentences(golden, "LossScale")
    assert {item.scope for item in golden.invariants if item.relation == "LossScale"} == {Scope.PINNED}
    assert not titles(recorder.judge(golden, scaled), "LossScale")


def test_accumulation_over_micro_batches(recorder: Recorder) -> None:
    def accumulated(t: Training) -> None:
        scaled(t, 1 / 4, microbatches=4)

    golden = recorder.learn(accumulated)
    assert QUARTER in sentences(golden, "LossScale")
    assert not titles(recorder.judge(golden, accumulated), "LossScale")


def test_a_division_that_was_forgotten(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: scaled(t, 1 / 4, microbatches=4))
    outcome = recorder.judge(golden, lambda t: scaled(t, microbatches=4))
    assert titles(outcome, "LossScale") == [
        "In the golden run `backward` started from 1/4 times the mean that the loss function returned, which "
        "averaged over the 4 micro-batches that a step accumulates; in the candidate the factor is 1: the loss is "
        "scaled or normalised differently."
    ]


def test_rounding_in_half_precision_is_no_other_factor(recorder: Recorder) -> None:
    golden = recorder.learn(scaled)
    assert not titles(recorder.judge(golden, lambda t: scaled(t, jitter=2e-4)), "LossScale")


def test_a_small_term_is_told_from_rounding(recorder: Recorder) -> None:
    """Golden is not as lenient as the check: what differs in the fourth digit is a term that may grow."""
    assert not sentences(recorder.learn(lambda t: scaled(t, jitter=2e-4)), "LossScale")


def test_a_sum_of_two_losses_in_one_backward_pass(recorder: Recorder) -> None:
    both = (F + "cross_entropy", F + "mse_loss")
    golden = recorder.learn(lambda t: scaled(t, losses=both))
    assert MEAN in sentences(golden)
    # A loss that is computed and left out of the sum.
    outcome = recorder.judge(golden, lambda t: scaled(t, 0.5, losses=both))
    assert "from 1/2 times that" in titles(outcome, "LossScale")[0]


@pytest.mark.parametrize("functional", [True, False])
def test_the_inner_losses_of_meta_learning_do_not_count(recorder: Recorder, functional: bool) -> None:
    """`torch.func.grad` lets nobody see their numbers, `torch.autograd.grad` is given them."""

    def meta(t: Training, factor: float = 1 / 8, functional: bool = True) -> None:
        def inner(step: int) -> None:
            value = NAN if functional else 0.1 * step + 0.7
            loss = {"args": {"reduction": "mean"}, "returns": tensor(requires_grad=True), "value": value}
            with t.call(F + "mse_loss", **loss):
                pass
            with t.call("torch.autograd.grad", type="autograd"):
                if not functional:
                    t.measure("grad.root", value)

        def outer(_step: int) -> None:
            t.measure("backward.root", 0.5 * factor)

        Measured(forward=inner, backward=outer).tell(t)

    golden = recorder.learn(meta)
    assert "`backward` starts from 1/8 times the mean that the loss function returned." in sentences(golden)
    assert not titles(recorder.judge(golden, lambda t: meta(t, functional=functional)), "LossScale")
    wrong = recorder.judge(golden, lambda t: meta(t, 1 / 4, functional))
    assert "the factor is 1/4" in titles(wrong, "LossScale")[0]


def test_losses_that_are_computed_for_their_numbers_do_not_count(recorder: Recorder) -> None:
    """An evaluation that forgot `no_grad`, between two steps: what `backward` starts from has one term."""

    def evaluating(t: Training, *, every: int = 100) -> None:
        def evaluate(step: int) -> None:
            if step % every == every - 1:
                t.loss(value=7.0)

        def measure(_step: int) -> None:
            t.measure("backward.root", 0.5)
            t.measure("loss.terms", 1.0)
            t.measure("loss.terms.fine", 1.0)

        Measured(batch=evaluate, backward=measure).tell(t)

    golden = recorder.learn(evaluating)
    assert MEAN in sentences(golden, "LossScale")
    assert not titles(recorder.judge(golden, lambda t: evaluating(t, every=2)), "LossScale")


def test_an_auxiliary_term_is_no_fixed_multiple(recorder: Recorder) -> None:
    """A penalty of the user's own is no loss function: the sum is another multiple in every step."""
    golden = recorder.learn(lambda t: scaled(t, extra=0.3))
    assert not sentences(golden, "LossScale")


def test_factors_that_depend_on_the_seed_are_no_rule(recorder: Recorder) -> None:
    assert not sentences(recorder.learn(lambda t: scaled(t, 1.0 + t.seed)), "LossScale")


def test_a_candidate_that_was_not_measured_or_computes_its_loss_by_hand(recorder: Recorder) -> None:
    golden = recorder.learn(scaled)
    assert not titles(recorder.judge(golden, lambda t: scaled(t, measured=False)), "LossScale")
    assert not titles(recorder.judge(golden, lambda t: scaled(t, 7.0, losses=())), "LossScale")
    assert not sentences(recorder.learn(lambda t: scaled(t, losses=())), "LossScale")


def test_what_evaluation_computes_is_in_no_backward_pass(recorder: Recorder) -> None:
    def evaluated(t: Training) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        for step in range(6):
            t.forward(model)
            t.loss()
            t.backward(model, within=lambda: t.measure("backward.root", 0.5))
            t.step(optimizer)
            if step % 2:
                with t.no_grad():
                    t.forward(model, line="evaluate")
                    t.loss(line="evaluate", value=3.0)

    golden = recorder.learn(evaluated)
    assert MEAN in sentences(golden)
    assert not titles(recorder.judge(golden, evaluated), "LossScale")


def summed(t: Training, by: str = "kept", kept: Sequence[int] = (6, 4, 7, 5, 3, 8)) -> None:
    """Unreduced losses that are summed, and divided by hand; padding is not counted."""
    model = t.model()
    optimizer = t.adamw(list(model.parameters.values()))
    for step, count in enumerate(kept):
        total = 0.7 * count + 0.01 * step
        divisor = {"kept": count, "targets": TARGETS, "fixed": 5}[by]

        def measure(total: float = total, count: int = count) -> None:
            t.measure("loss.targets", float(TARGETS))
            t.measure("loss.kept", float(count))
            t.measure("loss.sum", total)

        def start(root: float = total / divisor) -> None:
            t.measure("backward.root", root)

        t.zero_grad(optimizer)
        t.forward(model)
        t.loss(within=measure, value=float("nan"), reduction="none")
        t.backward(model, within=start)
        t.step(optimizer)


def test_sums_that_are_divided_by_hand(recorder: Recorder) -> None:
    golden = recorder.learn(summed)
    assert PER_KEPT in sentences(golden)
    assert MEAN not in sentences(golden)
    assert not titles(recorder.judge(golden, lambda t: summed(t, kept=(2, 3, 8, 8, 1, 5))), "LossScale")


def test_a_mean_that_counts_the_padding(recorder: Recorder) -> None:
    outcome = recorder.judge(recorder.learn(summed), lambda t: summed(t, by="targets"))
    (title,) = titles(outcome, "LossScale")
    assert title == (
        "In the golden run `backward` started from the loss averaged over the targets that are not ignored; in the "
        "candidate from 0.75 times that: the loss is scaled or normalised differently."
    )


def test_a_gradient_scaler_is_looked_through(recorder: Recorder) -> None:
    """`backward` starts from 65536 times the loss, and later from half of that."""

    def mixed(t: Training, factor: float = 1.0) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        for step in range(6):
            scale = 65536.0 / (1 + step // 3)
            t.forward(model)
            t.loss()
            with t.call("torch.amp.GradScaler.scale", type="scaler"):
                t.measure("scaler.unscaled", 0.5 * factor)
            t.backward(model, within=lambda scale=scale: t.measure("backward.root", 0.5 * factor * scale))
            t.step(optimizer)

    golden = recorder.learn(mixed)
    assert MEAN in sentences(golden)
    assert not titles(recorder.judge(golden, mixed), "LossScale")
    assert "from 2 times that" in titles(recorder.judge(golden, lambda t: mixed(t, 2.0)), "LossScale")[0]


TOO_MANY = (
    "In the golden run no more than 2 losses that weigh 1/2 each went backward before a step; in the candidate 4 do, "
    "which together weigh 2: gradients add up over more batches than the loss is divided by."
)


def accumulated(
    t: Training, passes: Sequence[int] = (2,) * 6, *, factor: float = 1 / 2, measured: int = 8, scaler: bool = False
) -> None:
    """A step for each number of passes; behind those that are measured, losses are only followed."""
    model = t.model()
    optimizer = t.adamw(list(model.parameters.values()))
    for step, count in enumerate(passes):
        root = "backward.root" if step < measured else "later.loss"

        def measure(root: str = root) -> None:
            t.measure(root, 0.5 * factor)

        t.zero_grad(optimizer)
        for _ in range(count):
            t.forward(model)
            t.loss()
            if scaler:
                with t.call("torch.amp.GradScaler.scale", type="scaler"):
                    pass
            t.backward(model, within=measure)
        t.step(optimizer)


def test_more_micro_batches_than_the_loss_is_divided_by(recorder: Recorder) -> None:
    golden = recorder.learn(accumulated)
    assert "At most 2 losses that weigh 1/2 go backward before a step." in sentences(golden, "LossScale")
    assert not titles(recorder.judge(golden, accumulated), "LossScale")
    assert titles(recorder.judge(golden, lambda t: accumulated(t, (4,) * 6)), "LossScale") == [TOO_MANY]


def test_more_micro_batches_in_later_steps(recorder: Recorder) -> None:
    golden = recorder.learn(accumulated)
    late = (*(2,) * 9, *(4,) * 3)
    assert titles(recorder.judge(golden, lambda t: accumulated(t, late)), "LossScale") == [TOO_MANY]
    # A scaler multiplies by what nobody knows there.
    assert not titles(recorder.judge(golden, lambda t: accumulated(t, late, scaler=True)), "LossScale")


def test_the_rest_of_an_epoch_has_fewer_micro_batches(recorder: Recorder) -> None:
    rests = (2, 2, 1, 2, 2, 1)
    golden = recorder.learn(lambda t: accumulated(t, rests))
    assert "At most 2 losses that weigh 1/2 go backward before a step." in sentences(golden, "LossScale")
    assert not titles(recorder.judge(golden, lambda t: accumulated(t, (*rests, 2, 1, 1, 1))), "LossScale")
    assert not sentences(recorder.learn(lambda t: accumulated(t, (3, 2, 3, 2))), "LossScale")[1:]
    assert not sentences(recorder.learn(lambda t: accumulated(t, (1,) * 6, factor=1.0)), "LossScale")[1:]
