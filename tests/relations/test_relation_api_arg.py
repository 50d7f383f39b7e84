"""APIArg: arguments and modes that are configuration, each in its context."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from judgements import broken, describe, rule, sentences, violations
from trace_builder import Layer
from training_story import CLIP, DROPOUT, LINEAR, PARAMETERS, F, Loop, Recorder, Training

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.infer import learn
from pytest_traincheck.rules.model import Kind, Scope

EVAL_FLAG = "In evaluation, models are called in eval mode."
TRAIN_FLAG = "In training, models are called in train mode."
NO_GRAD = "In evaluation, models are called without recording gradients."


def test_modes_depend_on_the_stage(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    assert {EVAL_FLAG, TRAIN_FLAG, NO_GRAD} <= set(sentences(golden, "APIArg"))
    assert "In training, models are called without autocast." in sentences(golden)
    assert rule(golden, EVAL_FLAG).scope is Scope.TRANSFERABLE


def test_a_number_is_pinned_configuration_and_a_flag_is_behaviour(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    norm = rule(golden, f"`{CLIP}` is called with max_norm=1, in training.")
    assert (norm.kind, norm.scope) == (Kind.CONFIG, Scope.PINNED)
    assert rule(golden, f"`{F}dropout` is called with p=0.1.").scope is Scope.PINNED
    assert rule(golden, f"`{F}dropout` is called with training=True, in training.").scope is Scope.TRANSFERABLE


def test_another_clip_norm_is_one_config_incident(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(clip=5.0))
    (incident,) = outcome.incidents
    assert incident.kind is Kind.CONFIG
    assert incident.cause.title == f"`{CLIP}(max_norm)` was 1 in the golden run and is 5 in the candidate."
    assert (incident.cause.step, incident.cause.source) == (0, "train.py:14")


def test_a_model_left_in_eval_after_an_evaluation(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(back_to_train=False))
    violation = broken(outcome, TRAIN_FLAG)
    assert (violation.step, violation.stage, violation.source) == (3, "train", "train.py:11")
    assert violation.candidate.endswith("last set at train.py:20")
    assert len(outcome.incidents) == 1, describe(outcome.incidents)


def test_a_teacher_that_nobody_has_set_to_eval(recorder: Recorder) -> None:
    """Where the mode of the student was set says nothing about the teacher."""

    def distilled(t: Training, *, sets: bool) -> None:
        student, teacher = t.model("Student"), t.model("Teacher", frozen=tuple(PARAMETERS))
        optimizer = t.adamw(list(student.parameters.values()))
        teacher.training = True
        if sets:
            t.mode(teacher, False)
        for _ in range(6):
            t.mode(student, True)
            t.zero_grad(optimizer)
            with t.no_grad():
                t.forward(teacher, line="evaluate")
            t.forward(student)
            t.loss()
            t.backward(student)
            t.step(optimizer)
            t.mode(student, False)
            with t.no_grad():
                t.forward(student, line="evaluate")

    golden = recorder.learn(lambda t: distilled(t, sets=True))
    outcome = recorder.judge(golden, lambda t: distilled(t, sets=False))
    of_teacher = [violation for violation in violations(outcome) if "called `Teacher` in eval mode" in violation.title]
    assert {violation.candidate for violation in of_teacher if violation.invariant.relation == "APIArg"} == {
        "called in train mode, and no `eval()` of it was seen"
    }


def test_an_evaluation_in_training_mode(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(eval_mode=False))
    assert (broken(outcome, EVAL_FLAG).step, broken(outcome, EVAL_FLAG).stage) == (3, "eval")
    assert len(outcome.incidents) == 1, describe(outcome.incidents)


@pytest.mark.parametrize("layers", [(LINEAR,), (LINEAR, DROPOUT)], ids=["alike in both modes", "acts by its mode"])
def test_eval_mode_where_golden_never_asked_for_one(recorder: Recorder, layers: tuple[Layer, ...]) -> None:
    """Train mode in evaluation is what every model has that nobody has said `eval()` to."""
    golden = recorder.golden(Loop(layers=layers, eval_mode=False))
    rule(golden, "In evaluation, models are called in train mode.")
    titles = [item.cause.title for item in recorder.check(golden, Loop(layers=layers)).incidents]
    assert any("calls it in eval mode" in title for title in titles) == (DROPOUT in layers)
    asked = recorder.golden(Loop(layers=layers))
    assert recorder.check(asked, Loop(layers=layers, eval_mode=False)).incidents, "golden does ask for eval mode"


def test_an_evaluation_that_records_gradients(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(eval_no_grad=False))
    assert broken(outcome, NO_GRAD).candidate == "called with gradients recorded"


def test_autocast_that_is_not_applied(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop(autocast="bfloat16")), Loop())
    violation = broken(outcome, "In training, models are called under autocast(bfloat16).")
    assert "calls it without autocast" in violation.title
    assert outcome.incidents[0].cause is violation


def test_two_dropouts_with_their_own_rates_are_told_apart(recorder: Recorder) -> None:
    other = Layer("head.drop", "torch.nn.Dropout", F + "dropout", {"p": 0.5})
    golden = recorder.golden(Loop(layers=(LINEAR, DROPOUT, other)))
    second = rule(golden, f"`{F}dropout` is called with p=0.5, in `Net.head.drop`.")
    assert second.scope is Scope.PINNED
    swapped = (LINEAR, DROPOUT, Layer("head.drop", "torch.nn.Dropout", F + "dropout", {"p": 0.2}))
    assert broken(recorder.check(golden, Loop(layers=swapped)), second.sentence).module == "Net.head.drop"


def test_an_argument_that_is_data_is_no_rule(recorder: Recorder) -> None:
    def scaled_by_the_data(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(8):
            t.forward(net)
            t.loss(label_smoothing=0.01 * step + t.seed)
            t.backward(net)
            t.step(optimizer)
            t.zero_grad(optimizer)

    golden = learn([recorder.tell(scaled_by_the_data, seed=seed) for seed in (0, 1)], pipeline="story")
    assert not [line for line in sentences(golden) if "label_smoothing" in line]


def test_an_argument_that_differs_between_seeds_is_no_rule(recorder: Recorder) -> None:
    golden = learn(
        [recorder.record(Loop(seed=seed, loss_args={"label_smoothing": 0.1 * seed})) for seed in (0, 1)],
        pipeline="story",
    )
    assert not [line for line in sentences(golden) if "label_smoothing" in line]


@pytest.mark.parametrize("criterion", [False, True])
def test_a_criterion_left_in_training_mode_is_no_model(recorder: Recorder, criterion: bool) -> None:
    golden = recorder.golden(Loop(criterion=criterion))
    assert {EVAL_FLAG, TRAIN_FLAG} <= set(sentences(golden))
    outcome = recorder.check(golden, Loop(criterion=not criterion))
    assert not outcome.incidents, describe(outcome.incidents)


def test_a_number_is_not_checked_on_another_pipeline(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    assert not recorder.check(golden, Loop(clip=5.0, lr=0.3), same_spec=False).incidents
    run = recorder.record(Loop(back_to_train=False))
    assert check_run(golden, run, same_spec=False).incidents, "a flag speaks of every pipeline"


def test_autocast_as_a_decorator_of_forward_is_autocast(recorder: Recorder) -> None:
    def training(*, inside: bool) -> Callable[[Training], None]:
        def tell(t: Training) -> None:
            net = t.model(layers=())
            optimizer = t.adamw(list(net.parameters.values()))
            around, within = (None, "bfloat16") if inside else ("bfloat16", "bfloat16")
            for _ in range(6):
                t.zero_grad(optimizer)
                with (
                    t.context(autocast=around),
                    t.call("__main__.Net", type="module", module=net.number, training=True, entry=True, line=20),
                    t.context(autocast=within),
                    t.call(F + "linear", args={}, line=21),
                ):
                    pass
                t.backward(net)
                t.step(optimizer)

        return tell

    golden = learn([recorder.tell(training(inside=False)) for _ in range(2)], pipeline="story")
    assert "In training, models are called under autocast(bfloat16)." in sentences(golden)
    assert check_run(golden, recorder.tell(training(inside=True)), same_spec=True).incidents == ()


def frozen_beside(t: Training, *, student: bool = False, teacher: bool = False, thawed: bool = False) -> None:
    """A student is trained beside a teacher, and both are evaluated: with gradients recorded where that is said."""
    model = t.model("Student")
    other = t.model("Teacher", frozen=() if thawed else tuple(PARAMETERS))
    optimizer = t.adamw(list(model.parameters.values()))
    for _ in range(6):
        t.mode(model, True)
        t.zero_grad(optimizer)
        t.forward(model)
        t.loss()
        t.backward(model)
        t.step(optimizer)
        for one, recording in ((model, student), (other, teacher)):
            t.mode(one, False)
            with t.context(grad=recording):
                t.forward(one, line="evaluate")


def test_a_model_without_a_trainable_parameter_has_nothing_to_record_in_evaluation(recorder: Recorder) -> None:
    golden = recorder.learn(frozen_beside)
    assert not recorder.judge(golden, lambda t: frozen_beside(t, teacher=True)).incidents
    for changed in ({"student": True}, {"teacher": True, "thawed": True}):
        outcome = recorder.judge(golden, lambda t, changed=changed: frozen_beside(t, **changed))
        assert "with gradients recorded" in broken(outcome, NO_GRAD).title
