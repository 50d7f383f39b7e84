"""APIOutput: the dtype of results, finite losses, and norms of something."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from judgements import broken, describe, rule, sentences, violations
from trace_builder import NONFINITE, NONZERO, digest_of, tensor
from training_story import CLIP, F, Loop, Measured, Recorder, Training

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.infer import learn
from pytest_traincheck.rules.model import Scope
from pytest_traincheck.trace.stages import TRAIN

FINITE = "The result of every loss function is finite, in training."


def test_dtype_and_finite_losses_are_learned(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(autocast="bfloat16"))
    assert rule(golden, f"`{F}linear` returns bfloat16.").scope is Scope.TRANSFERABLE
    assert rule(golden, FINITE).examples == 12, "an evaluation only measures"


def test_a_dtype_that_fell_back(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop(autocast="bfloat16")), Loop())
    violation = broken(outcome, f"`{F}linear` returns bfloat16.")
    assert violation.title == f"`{F}linear` returned bfloat16 in the golden run; in the candidate it returns float32."
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


# Norms

NORM_ABOVE_ZERO = f"The norm that `{CLIP}` returns is not zero."


def clipping(t: Training, norm: float = 2.5, *, at: Sequence[int] = range(6)) -> None:
    """A training in which clipping returns `norm` in the steps of `at`, and 1.5 in others."""

    def clip(step: int) -> None:
        with t.call(CLIP, type="clip", args={"max_norm": 1.0}, value=norm if step in at else 1.5, line=14):
            pass

    model = t.model()
    optimizer = t.adamw(list(model.parameters.values()))
    for step in range(6):
        t.zero_grad(optimizer)
        t.forward(model)
        t.loss()
        t.backward(model)
        clip(step)
        t.step(optimizer)


def test_clipping_measures_a_norm(recorder: Recorder) -> None:
    golden = recorder.learn(clipping)
    assert rule(golden, NORM_ABOVE_ZERO).examples == 12
    assert not violations(recorder.judge(golden, lambda t: clipping(t, 1e-30)), "APIOutput")


def test_clipping_that_is_given_no_gradients(recorder: Recorder) -> None:
    """The iterator over the parameters is used up, or the gradients are gone already: the norm of nothing is 0."""
    outcome = recorder.judge(recorder.learn(clipping), lambda t: clipping(t, 0.0, at=(2, 3)))
    violation = broken(outcome, NORM_ABOVE_ZERO)
    assert (violation.step, violation.count, violation.source) == (2, 2, "train.py:14")
    assert violation.title == (
        f"`{CLIP}` returned a norm above 0 in the golden run; in the candidate it returns 0: it is given no "
        "gradients, and clips nothing."
    )


def test_norms_that_are_zero_in_golden_or_unknown_are_no_rule(recorder: Recorder) -> None:
    assert NORM_ABOVE_ZERO not in sentences(recorder.learn(lambda t: clipping(t, 0.0, at=(4,))))
    assert NORM_ABOVE_ZERO not in sentences(recorder.golden(Loop())), "clipping that returns no number"
    assert not violations(recorder.check(recorder.learn(clipping), Loop()), "APIOutput")


# Compiled regions

IN_GRAPHS = f"`{F}linear` returns bfloat16 in compiled regions."


def compiled(t: Training, *found: str) -> None:
    """A training whose first forward pass compiles graphs with these functions and dtypes."""

    def compile_(step: int) -> None:
        for name in found if step == 0 else ():
            t.measure(f"compiled:{name}")

    Measured(forward=compile_, model=t.model(layers=())).tell(t)


def test_dtypes_in_compiled_regions(recorder: Recorder) -> None:
    def story(t: Training) -> None:
        compiled(t, F + "linear=bfloat16", F + "linear=bfloat16", F + "layer_norm=float32", F + "relu=bfloat16")

    golden = recorder.learn(story)
    assert [line for line in sentences(golden, "APIOutput") if "compiled" in line] == [
        f"`{F}layer_norm` returns float32 in compiled regions.",
        IN_GRAPHS,
    ]
    assert rule(golden, IN_GRAPHS).scope is Scope.PINNED
    assert not violations(recorder.judge(golden, story), "APIOutput")


def test_autocast_that_does_not_reach_into_a_compiled_region(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: compiled(t, F + "linear=bfloat16"))
    outcome = recorder.judge(golden, lambda t: compiled(t, F + "linear=bfloat16", F + "linear=float32"))
    violation = broken(outcome, IN_GRAPHS)
    assert violation.title == (
        f"`{F}linear` returned bfloat16 in the golden run; in the candidate it returns float32 in a compiled region "
        "(see `torch.autocast`)."
    )
    assert violation.count == 1


def test_a_candidate_that_compiles_nothing_or_other_things(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: compiled(t, F + "linear=bfloat16"))
    assert not violations(recorder.judge(golden, compiled), "APIOutput")
    assert not violations(recorder.judge(golden, lambda t: compiled(t, F + "conv2d=float32")), "APIOutput")


def test_functions_of_two_dtypes_are_no_rule(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: compiled(t, F + "linear=bfloat16", F + "linear=float32"))
    assert not [line for line in sentences(golden, "APIOutput") if "compiled" in line]


REDUCE = "torch.distributed.reduce_scatter_tensor"
IN_FLOAT = f"In the backward pass `{REDUCE}` reduces float32."


def reducing(dtype: str, *, logs: str = "") -> Callable[[Training], None]:
    """Gradients are reduced in each backward pass, and within each step what is logged."""

    def reduce(t: Training, dtype: str) -> None:
        given = {"output": tensor(4, dtype=dtype), "input": tensor(8, dtype=dtype), "group": {"tuple": [0, 1]}}
        with t.context(grad=False), t.call(REDUCE, type="collective", args=given):
            pass

    def story(t: Training) -> None:
        Measured(backward=lambda _step: reduce(t, dtype), step=lambda _step: reduce(t, logs) if logs else None).tell(t)

    return story


def test_the_dtype_in_which_gradients_are_reduced(recorder: Recorder) -> None:
    golden = recorder.learn(reducing("float32"), ranks=2)
    assert IN_FLOAT in sentences(golden, "APIOutput")
    assert not violations(recorder.judge(golden, reducing("float32", logs="float64"), ranks=2), "APIOutput")
    violation = broken(recorder.judge(golden, reducing("bfloat16"), ranks=2), IN_FLOAT)
    assert violation.title.startswith(
        f"In the backward pass `{REDUCE}` reduced float32 in the golden run; in the candidate it reduces bfloat16: "
    )
    assert violation.step == 0
    assert IN_FLOAT.replace("float32", "int64") not in sentences(recorder.learn(reducing("int64"), ranks=2))


def test_a_hook_of_the_backward_pass_belongs_to_training(recorder: Recorder) -> None:
    run = recorder.tell(reducing("float32"), ranks=2)
    process = run.processes[0]
    rows = process.rows_of_type("collective")
    assert set(process.stage[rows].tolist()) == {TRAIN}


STAYS = "Parameters that are finite stay finite."


def diverging(*nan: str, of: int = 3, unseen: bool = False) -> Callable[[Training], None]:
    """The named parameters are written as NaN behind step 3; `unseen`: nobody knew by then what they were."""

    def story(t: Training) -> None:
        model = t.model()

        def write(step: int) -> None:
            for name in nan if step == of else ():
                if unseen:
                    t.forget(model.parameters[name].variable)
                t.change(model.parameters[name].variable, NONFINITE, digest_of("nan"))

        Measured(batch=write, model=model).tell(t)

    return story


@pytest.mark.parametrize("unseen", [False, True])
def test_parameters_that_are_not_finite_any_more(recorder: Recorder, unseen: bool) -> None:
    golden = recorder.learn(diverging())
    assert STAYS in sentences(golden, "APIOutput")
    assert not violations(recorder.judge(golden, diverging()), "APIOutput")
    violation = broken(recorder.judge(golden, diverging("fc1.weight", "fc1.bias", unseen=unseen)), STAYS)
    assert violation.title == (
        "Every parameter was finite in the golden run; in the candidate there are NaN or infinite numbers in "
        "`Net.fc1.weight`, `Net.fc1.bias`."
    )
    assert (violation.step, violation.count) == (3, 2)


def test_a_buffer_that_is_not_finite_is_a_mask(recorder: Recorder) -> None:
    def masked(t: Training) -> None:
        model = t.model(buffers=["mask"])
        Measured(
            model=model, batch=lambda step: t.change(model.buffers["mask"], NONFINITE if step else NONZERO, step + 1)
        ).tell(t)

    assert not violations(recorder.judge(recorder.learn(diverging()), masked), "APIOutput")
