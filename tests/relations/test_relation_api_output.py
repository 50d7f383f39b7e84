"""APIOutput: the dtype of results, and finite losses."""

from __future__ import annotations

import pytest
from training_story import F, Loop, Recorder, Training, broken, describe, rule, sentences, violations

from pytest_traincheck.check import check_run
from pytest_traincheck.golden.model import Scope
from pytest_traincheck.infer import learn

FINITE = "The result of every loss function is finite, in training."


def test_dtype_and_finite_losses_are_learned(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(autocast="bfloat16"))
    assert rule(golden, f"`{F}linear` returns bfloat16.").scope is Scope.TRANSFERABLE
    assert rule(golden, FINITE).examples == 12, "an evaluation only measures"


def test_a_dtype_that_fell_back(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop(autocast="bfloat16")), Loop())
    violation = broken(outcome, f"`{F}linear` returns bfloat16.")
    assert violation.title == f"`{F}linear` returned bfloat16 in golden; in the candidate it returns float32."
    assert (violation.step, violation.module) == (0, "Net.fc1")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite(recorder: Recorder, value: float) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(loss_value=value))
    violation = broken(outcome, FINITE)
    assert (violation.step, violation.source) == (0, "train.py:12")
    assert f"`{F}cross_entropy` returned finite losses" in violation.title


def test_autocast_in_training_only_becomes_a_precondition(recorder: Recorder) -> None:
    def mixed(t: Training, *, forgotten: bool = False) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for _ in range(6):
            t.zero_grad(optimizer)
            with t.context(autocast=None if forgotten else "bfloat16"):
                t.forward(net)
            t.loss()
            t.backward(net)
            t.step(optimizer)
        t.mode(net, False)
        with t.no_grad():
            for _ in range(3):
                t.forward(net, line="evaluate")

    golden = learn([recorder.tell(mixed), recorder.tell(mixed, seed=1)], pipeline="mixed")
    assert {
        f"`{F}linear` returns bfloat16, autocast bfloat16.",
        f"`{F}linear` returns float32, autocast off.",
    } <= set(sentences(golden, "APIOutput"))
    outcome = check_run(golden, recorder.tell(lambda t: mixed(t, forgotten=True)), same_spec=True)
    # Without autocast float32 is right: what is wrong is the mode, and that is what is reported.
    assert not violations(outcome, "APIOutput"), describe(outcome.incidents)
    assert violations(outcome, "APIArg")


def test_results_of_helpers_are_no_subject(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(logging=True))
    assert not [line for line in sentences(golden, "APIOutput") if "Tensor" in line or "norm`" in line]


def test_another_loss_function_is_still_finite(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(loss=F + "nll_loss", loss_value=float("nan")))
    assert f"`{F}nll_loss` returned finite losses" in broken(outcome, FINITE).title
