"""Covered: which parameters the optimizers hold, and which are trainable."""

from __future__ import annotations

from training_story import PARAMETERS, Loop, Recorder, Training, broken, describe, rule, sentences

from pytest_traincheck.check import check_run
from pytest_traincheck.golden.model import Kind, Scope
from pytest_traincheck.infer import learn

EACH_ONCE = "Every trainable parameter is in exactly one optimizer group."
TRAINABLE = "Every parameter that an optimizer holds is trainable."
KNOWN = "Every parameter that an optimizer holds belongs to a model."


def test_a_whole_model_is_covered(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    assert {EACH_ONCE, TRAINABLE, KNOWN, "Parameters are trainable."} <= set(sentences(golden, "Covered"))
    assert rule(golden, "`AdamW[Net]` holds parameters of `Net` only.").scope is Scope.PINNED
    assert rule(golden, EACH_ONCE).scope is Scope.TRANSFERABLE


def test_a_forgotten_parameter_is_named(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(held=("fc1.weight", "fc1.bias")))
    violation = broken(outcome, EACH_ONCE)
    assert violation.variables == ("Net.fc2.weight",)
    assert (violation.step, violation.source) == (0, "train.py:5")
    assert "in no optimizer" in violation.title
    assert outcome.incidents[0].root is violation
    assert len(outcome.incidents) == 1, describe(outcome.incidents)


def test_a_parameter_in_two_groups(recorder: Recorder) -> None:
    def twice(t: Training) -> None:
        net = t.model()
        everything = list(net.parameters.values())
        optimizer = t.adamw(everything, everything[:1])
        for _ in range(6):
            t.zero_grad(optimizer)
            t.forward(net)
            t.backward(net)
            t.step(optimizer)

    outcome = check_run(recorder.golden(Loop()), recorder.tell(twice), same_spec=True)
    violation = broken(outcome, EACH_ONCE)
    assert violation.variables == ("Net.fc1.weight",)
    assert "in more than one optimizer group" in violation.title


def test_frozen_parameters_in_the_optimizer(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(frozen=("fc1.bias",), held=tuple(PARAMETERS)))
    assert broken(outcome, TRAINABLE).variables == ("Net.fc1.bias",)
    frozen = broken(outcome, "Parameters are trainable.")
    assert frozen.title == "`Net.fc1.bias` was trainable in golden, is frozen in the candidate."
    assert frozen.invariant.kind is Kind.CONFIG
    assert len(outcome.incidents) == 1, describe(outcome.incidents)


def test_a_frozen_backbone_is_a_rule_of_its_own(recorder: Recorder) -> None:
    parameters = {"backbone.0.weight": (3, 3), "backbone.1.weight": (3, 3), "head.weight": (2, 3), "head.bias": (2,)}
    frozen = tuple(name for name in parameters if name.startswith("backbone"))
    golden = recorder.golden(Loop(parameters=parameters, frozen=frozen), seeds=(0, 1))
    sentence = "Parameters are frozen, in `Net.backbone`."
    assert rule(golden, sentence).scope is Scope.PINNED
    thawed = recorder.check(golden, Loop(parameters=parameters, frozen=()))
    assert broken(thawed, sentence).variables == ("Net.backbone.0.weight", "Net.backbone.1.weight")


def test_an_optimizer_built_before_the_model_was_rebuilt(recorder: Recorder) -> None:
    def stale(t: Training) -> None:
        old = t.model(layers=())
        optimizer = t.adamw(list(old.parameters.values()))
        net = t.model()
        for _ in range(6):
            t.zero_grad(optimizer)
            t.forward(net)
            t.backward(net)
            t.step(optimizer)

    outcome = check_run(recorder.golden(Loop()), recorder.tell(stale), same_spec=True)
    assert broken(outcome, EACH_ONCE).variables == ("Net.fc1.weight", "Net.fc1.bias", "Net.fc2.weight") or broken(
        outcome, EACH_ONCE
    ).variables == ("Net#1.fc1.weight", "Net#1.fc1.bias", "Net#1.fc2.weight")


def test_the_optimizer_of_one_model_that_also_holds_another(recorder: Recorder) -> None:
    def two(t: Training, *, mixed: bool = False) -> None:
        first = t.model("Encoder", {"e.weight": (3, 3), "e.bias": (3,)}, layers=())
        second = t.model("Decoder", {"d.weight": (5, 3), "d.bias": (5,)}, layers=())
        extra = list(second.parameters.values())[:1] if mixed else []
        one = t.adamw([*first.parameters.values(), *extra])
        other = t.adamw(list(second.parameters.values()), lr=0.1)
        for _ in range(6):
            for model, optimizer in ((first, one), (second, other)):
                t.zero_grad(optimizer)
                t.forward(model)
                t.backward(model)
                t.step(optimizer)

    golden = learn([recorder.tell(two), recorder.tell(two, seed=1)], pipeline="two")
    sentence = "`AdamW[Encoder]` holds parameters of `Encoder` only."
    assert rule(golden, sentence)
    outcome = check_run(golden, recorder.tell(lambda t: two(t, mixed=True)), same_spec=True)
    assert broken(outcome, sentence).variables == ("Decoder.d.weight",)


def test_tied_names_are_one_parameter(recorder: Recorder) -> None:
    parameters = {"embedding.weight": (7, 3), "body.weight": (3, 3), "head.weight": (7, 3)}
    tied = {"head.weight": "embedding.weight"}
    loop = Loop(parameters=parameters, tied=tied, held=("embedding.weight", "body.weight"))
    golden = recorder.golden(loop)
    assert EACH_ONCE in sentences(golden)
    assert not recorder.check(golden, loop.but(held=("head.weight", "body.weight"))).incidents


def test_a_model_that_is_not_trained_needs_no_optimizer(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    assert not recorder.check(golden, Loop(ema=True)).incidents
