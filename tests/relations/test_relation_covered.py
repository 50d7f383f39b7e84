"""Covered: which parameters the optimizers hold, and which are trainable."""

from __future__ import annotations

from judgements import broken, describe, rule, sentences, violations
from trace_builder import FALSE, TRUE
from training_story import PARAMETERS, Loop, Recorder, Training

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.infer import learn
from pytest_traincheck.rules.model import Kind, Scope

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
    assert outcome.incidents[0].cause is violation
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
    assert frozen.title == "`Net.fc1.bias` was trainable in the golden run and is frozen in the candidate."
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


def hiding(t: Training, *, held: bool, used: bool = True) -> None:
    """A model that keeps a layer in a plain list, so that it is a model of its own.

    Args:
        held: whether the optimizer holds the layer.
        used: whether the layer receives gradients.
    """
    net = t.model()
    layer = t.root("Linear", {"weight": (3, 3)}, kind="torch.nn.Linear")
    extra = list(layer.parameters.values()) if held else []
    optimizer = t.adamw([*net.parameters.values(), *extra])
    for _ in range(6):
        t.zero_grad(optimizer)
        t.forward(net)
        t.loss()
        t.backward(net, *([layer] if used else []))
        t.step(optimizer)


def test_a_layer_in_a_plain_list_is_forgotten(recorder: Recorder) -> None:
    """`self.blocks = [nn.Linear(...)]`: `parameters()` does not know the layer, and nobody calls it as a model."""
    outcome = recorder.judge(recorder.golden(Loop()), lambda t: hiding(t, held=False))
    violation = broken(outcome, EACH_ONCE)
    assert violation.variables == ("Linear.weight",)
    assert violation.title == (
        "Every trainable parameter was in exactly one optimizer in the golden run; in the candidate `Linear.weight` "
        "is in no optimizer."
    )


def test_a_layer_outside_the_model_that_is_held_or_learns_nothing(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    for outcome in (
        recorder.judge(golden, lambda t: hiding(t, held=True)),
        recorder.judge(golden, lambda t: hiding(t, held=False, used=False)),
    ):
        assert EACH_ONCE not in [violation.invariant.sentence for violation in violations(outcome)]


def adversarial(t: Training, frozen: str = "never") -> None:
    """A critic and a generator take turns.

    Args:
        frozen: when the critic's parameters have requires_grad=False: `never`, in the generator's `turn`, or `always`.
    """
    critic, generator = t.model("Critic", {"c.weight": (3, 3)}), t.model("Generator", {"g.weight": (5, 3)})
    first, second = t.adamw(list(critic.parameters.values())), t.adamw(list(generator.parameters.values()))

    def freeze(state: bool) -> None:
        for parameter in critic.parameters.values():
            parameter.requires_grad = not state
            t.change(parameter.flag, FALSE if state else TRUE, int(not state))

    freeze(frozen == "always")
    for _ in range(6):
        for optimizer, models in ((first, (critic,)), (second, (generator, critic))):
            if frozen == "turn":
                freeze(optimizer is second)
            t.zero_grad(optimizer)
            for model in models:
                t.forward(model)
            t.loss()
            t.backward(*models)
            t.step(optimizer)


def test_a_critic_that_is_frozen_in_the_turn_of_its_generator_is_trained(recorder: Recorder) -> None:
    often, never = recorder.learn(lambda t: adversarial(t, "turn")), recorder.learn(adversarial)
    for golden in (often, never):
        assert {TRAINABLE, EACH_ONCE, "Parameters are trainable."} <= set(sentences(golden, "Covered"))
        assert not violations(recorder.judge(golden, adversarial), "Covered")
        assert not violations(recorder.judge(golden, lambda t: adversarial(t, "turn")), "Covered")


def test_a_critic_that_is_never_thawed_is_frozen(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: adversarial(t, "turn"))
    outcome = recorder.judge(golden, lambda t: adversarial(t, "always"))
    assert broken(outcome, TRAINABLE).variables == ("Critic.c.weight",)
