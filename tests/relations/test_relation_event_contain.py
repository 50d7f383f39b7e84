"""EventContain: what happens within every step and every forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from judgements import broken, describe, rule, sentences, violations
from trace_builder import ZERO
from training_story import DROPOUT, LINEAR, NORM, F, Loop, Recorder, Training

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.infer import learn
from pytest_traincheck.rules.model import Scope

CHANGES = "`torch.optim.AdamW.step` changes every parameter it holds that has a gradient"
RECEIVES = "When `torch.optim.AdamW.step` begins, every parameter it holds has received a gradient"
WITHIN = (
    "When the closure of `torch.optim.AdamW.step` has gone backward, every parameter it holds has received a gradient"
)
OTHERS = "`torch.optim.AdamW.step` leaves the parameters of other models alone."


def test_a_step_changes_what_it_holds(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    assert rule(golden, CHANGES + ".").examples == 36
    assert rule(golden, RECEIVES + ".").scope is Scope.TRANSFERABLE


def test_a_step_that_leaves_a_parameter_unchanged(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(stuck=("fc1.bias",)))
    violation = broken(outcome, CHANGES + ".")
    assert (violation.variables, violation.step, violation.count) == (("Net.fc1.bias",), 0, 6)
    assert "leaves `Net.fc1.bias` unchanged" in violation.title
    assert len(outcome.incidents) == 1, describe(outcome.incidents)


def test_a_parameter_that_the_loss_does_not_reach(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(unreached=("fc2.weight",)))
    violation = broken(outcome, RECEIVES + ".")
    assert violation.variables == ("Net.fc2.weight",)
    assert "is absent" in violation.title
    assert outcome.incidents[0].cause is violation


def two_models(t: Training, *, unreached: Sequence[str] = ()) -> None:
    """Two models with an optimizer of the same class each."""
    models = [t.model("Actor"), t.model("Critic")]
    optimizers = [t.adamw(list(model.parameters.values())) for model in models]
    for _ in range(6):
        for model, optimizer in zip(models, optimizers, strict=True):
            t.zero_grad(optimizer)
            t.forward(model)
            t.loss()
            t.backward(model, without=unreached if model.name == "Critic" else ())
            t.step(optimizer)


def test_of_several_optimizers_of_a_class_the_one_is_named(recorder: Recorder) -> None:
    outcome = recorder.judge(recorder.learn(two_models), lambda t: two_models(t, unreached=("fc1.bias",)))
    assert broken(outcome, RECEIVES + ".").title.startswith(
        "Every parameter of `torch.optim.AdamW.step` (`AdamW[Critic]`) had a gradient when the step began"
    )


def test_an_unused_head_in_golden_becomes_a_precondition(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(unreached=("fc2.weight",)))
    changes = [line for line in sentences(golden, "EventContain") if line.startswith(CHANGES)]
    assert changes == [CHANGES + "."]
    assert not recorder.check(golden, Loop(unreached=("fc2.weight",), seed=3)).incidents


def test_a_warm_up_from_zero_excuses_the_first_step(recorder: Recorder) -> None:
    def warm_up(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()), lr=0.0)
        for step in range(7):
            t.zero_grad(optimizer)
            t.forward(net)
            t.backward(net)
            t.step(optimizer)
            with t.call("torch.optim.lr_scheduler.LambdaLR.step", type="scheduler", optimizer=optimizer.number):
                optimizer.rates[:] = [0.001 * (step + 1)]

    golden = learn([recorder.tell(warm_up), recorder.tell(warm_up, seed=1)], pipeline="warm-up")
    changes = [line for line in sentences(golden, "EventContain") if line.startswith(CHANGES)]
    assert changes == [CHANGES + "."]
    assert not recorder.judge(golden, warm_up).incidents


def test_what_breaks_a_rule_about_a_part_is_said_of_that_part(recorder: Recorder) -> None:
    """Blocks are dropped by chance, so the golden run lacks their gradients in most steps."""

    def dropped(t: Training, without: tuple[str, ...] = ()) -> None:
        stem, blocks = t.model("Stem"), t.model("Blocks")
        optimizer = t.adamw([*stem.parameters.values(), *blocks.parameters.values()])
        for step in range(6):
            t.zero_grad(optimizer)
            t.forward(stem)
            t.forward(blocks)
            t.backward(stem, without=without)
            t.backward(blocks, without=list(blocks.parameters) if (step + t.seed) % 3 else [])
            t.step(optimizer)

    golden = learn([recorder.tell(dropped, seed=seed) for seed in (0, 1, 2)], pipeline="dropped")
    line = f"{RECEIVES}, in `Stem`."
    assert line in sentences(golden, "EventContain")
    violation = broken(recorder.judge(golden, lambda t: dropped(t, ("fc1.bias",))), line)
    assert violation.title == (
        "Every parameter of `torch.optim.AdamW.step`, in `Stem`, had a gradient when the step began in the golden run; "
        "in the candidate the gradient of `Stem.fc1.bias` is absent."
    )


def test_gradients_that_come_by_chance_are_no_rule_for_any_expert(recorder: Recorder) -> None:
    """A sparse layer: which expert gets a gradient is up to the data, so no expert may be promised one."""
    parameters = {"router.weight": (4, 3), **{f"experts.{number}.weight": (3, 3) for number in range(4)}}

    def routed(t: Training) -> None:
        net = t.model("Net", parameters)
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(6):
            t.zero_grad(optimizer)
            t.forward(net)
            # Experts 0 and 1 happened to be used always; 2 and 3 were not.
            t.backward(net, without=[f"experts.{2 + (step + t.seed) % 2}.weight"])
            t.step(optimizer)

    golden = learn([recorder.tell(routed, seed=seed) for seed in (0, 1, 2)], pipeline="experts")
    for line in sentences(golden, "EventContain"):
        assert "experts" not in line


def test_a_generator_step_that_changes_the_discriminator(recorder: Recorder) -> None:
    def gan(t: Training, *, leaks: bool = False) -> None:
        generator = t.model("Generator", {"g.weight": (3, 3)}, layers=())
        judge = t.model("Discriminator", {"d.weight": (5, 5)}, layers=())
        first = t.adamw(list(judge.parameters.values()))
        second = t.adamw(list(generator.parameters.values()))
        for _ in range(6):
            for optimizer, models in ((first, (judge,)), (second, (generator, judge))):
                t.zero_grad(optimizer)
                for model in models:
                    t.forward(model)
                t.backward(*models)
                leak = leaks and optimizer is second
                t.step(optimizer, also=list(judge.parameters.values()) if leak else ())

    golden = learn([recorder.tell(gan), recorder.tell(gan, seed=1)], pipeline="gan")
    assert rule(golden, OTHERS).examples == 24
    outcome = check_run(golden, recorder.tell(lambda t: gan(t, leaks=True)), same_spec=True)
    violation = broken(outcome, OTHERS)
    assert violation.variables == ("Discriminator.d.weight",)
    assert violation.step == 0


def test_an_average_that_follows_outside_the_step_is_no_leak(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(ema=True))
    assert rule(golden, OTHERS)
    outcome = recorder.check(golden, Loop(ema=True, seed=8))
    assert not outcome.incidents, describe(outcome.incidents)


def test_a_forward_pass_contains_its_layers(recorder: Recorder) -> None:
    layers = (LINEAR, DROPOUT, NORM)
    golden = recorder.golden(Loop(layers=layers))
    sentence = f"Every forward pass of `Net` in evaluation contains a call of `{F}batch_norm`."
    assert rule(golden, sentence).scope is Scope.PINNED
    outcome = recorder.check(golden, Loop(layers=(LINEAR, DROPOUT)))
    assert (broken(outcome, sentence).step, broken(outcome, sentence).stage) == (3, "eval")
    assert {incident.cause.invariant.subject for incident in outcome.incidents} == {F + "batch_norm"}


def test_a_compiled_candidate_hides_its_layers_and_breaks_no_rule_about_them(recorder: Recorder) -> None:
    def compiled(t: Training) -> None:
        net = t.model(layers=())
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(6):
            t.zero_grad(optimizer)
            with t.call("torch.compile", type="compile"):
                pass
            t.forward(net)
            t.loss()
            t.backward(net)
            t.clip(optimizer)
            t.step(optimizer)
            t.schedule(optimizer)
            if step in (2, 5):
                t.mode(net, False)
                with t.no_grad():
                    for _ in range(2):
                        t.forward(net, line="evaluate")
                t.mode(net, True)

    outcome = check_run(recorder.golden(Loop()), recorder.tell(compiled), same_spec=True)
    assert not outcome.incidents, describe(outcome.incidents)


def test_a_renamed_root_class_keeps_its_layers(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(name="Classifier"))
    assert not outcome.incidents, describe(outcome.incidents)


def test_a_gradient_of_zeros_is_none_that_was_received(recorder: Recorder) -> None:
    def dead(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for _ in range(6):
            t.zero_grad(optimizer)
            t.forward(net)
            t.backward(net, without=("fc1.bias",))
            t.change(net.parameters["fc1.bias"].gradient, ZERO, 1, 0.0)
            t.step(optimizer)

    outcome = check_run(recorder.golden(Loop()), recorder.tell(dead), same_spec=True)
    assert broken(outcome, RECEIVES + ".").variables == ("Net.fc1.bias",)
    assert "is zero" in broken(outcome, RECEIVES + ".").title


def cooling(t: Training, rates: Sequence[float], *, still: Sequence[int] = ()) -> None:
    """A training with these learning rates, in which nothing moves in the steps of `still`."""
    net = t.model()
    optimizer = t.adamw(list(net.parameters.values()), lr=rates[0])
    for step, rate in enumerate(rates):
        optimizer.rates[:] = [rate]
        t.zero_grad(optimizer)
        t.forward(net)
        t.backward(net)
        t.step(optimizer, without=tuple(net.parameters) if step in still else ())


COSINE = (0.01, 0.009, 0.006, 0.003, 0.0006, 9e-6)


def test_the_end_of_a_schedule_claims_nothing(recorder: Recorder) -> None:
    """A thousandth of the largest learning rate may be too little to change a number."""
    golden = recorder.learn(lambda t: cooling(t, COSINE, still=(5,)))
    assert CHANGES + "." in sentences(golden)
    assert not recorder.judge(golden, lambda t: cooling(t, COSINE, still=(5,))).incidents
    assert not recorder.judge(golden, lambda t: cooling(t, COSINE)).incidents


def test_before_its_end_a_schedule_is_no_excuse(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: cooling(t, COSINE))
    assert rule(golden, CHANGES + ".").examples == 2 * 5 * 3, "steps but the last, by parameters, by seeds"
    violation = broken(recorder.judge(golden, lambda t: cooling(t, COSINE, still=(4, 5))), CHANGES + ".")
    assert (violation.step, violation.count) == (4, 3)


def test_a_learning_rate_that_is_small_throughout_is_no_end_of_a_schedule(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: cooling(t, (1e-6,) * 6))
    assert broken(recorder.judge(golden, lambda t: cooling(t, (1e-6,) * 6, still=(3,))), CHANGES + ".").step == 3


def in_closures(
    t: Training, *, detached_from: int = 99, skips: Sequence[int] = (), forward_first: bool = False, steps: int = 6
) -> None:
    """Steps that are given a closure, which clears the gradients and goes backward, as Lightning does. From step
    `detached_from` on the loss does not reach one parameter; the batches of `skips` have no loss, and nothing is
    cleared either; `forward_first`: the optimizer calls the closure once more before, without gradients.
    """
    net = t.model()
    optimizer = t.adamw(list(net.parameters.values()))

    def closure(step: int) -> None:
        if forward_first:
            with t.no_grad():
                t.forward(net)
                t.loss()
        t.forward(net)
        if step not in skips:
            t.loss()
            t.zero_grad(optimizer)
            t.backward(net, without=("fc1.bias",) if step >= detached_from else ())

    for step in range(steps):
        t.batch()
        t.step(optimizer, closure=partial(closure, step))


def test_a_closure_gives_every_parameter_a_gradient(recorder: Recorder) -> None:
    golden = recorder.learn(in_closures)
    # The first step begins without any gradient, and its closure goes backward all the same.
    assert rule(golden, WITHIN + ".").examples == 36
    assert not [line for line in sentences(golden) if line.startswith(RECEIVES)]
    outcome = recorder.judge(golden, lambda t: in_closures(t, detached_from=0))
    violation = broken(outcome, WITHIN + ".")
    assert (violation.variables, violation.step, violation.count) == (("Net.fc1.bias",), 0, 6)
    assert "had a gradient when its closure had gone backward in the golden run" in violation.title
    assert "of `Net.fc1.bias` is absent" in violation.title
    assert outcome.incidents[0].cause is violation, describe(outcome.incidents)


def test_a_gradient_that_the_closure_no_longer_computes_is_missed_in_that_step(recorder: Recorder) -> None:
    """The one of the step before is there when the step begins."""
    outcome = recorder.judge(recorder.learn(in_closures), lambda t: in_closures(t, detached_from=40, steps=60))
    violation = broken(outcome, WITHIN + ".")
    assert (violation.variables, violation.step) == (("Net.fc1.bias",), 40)
    assert any(incident.cause is violation for incident in outcome.incidents), describe(outcome.incidents)


def test_closures_that_skip_a_batch_or_are_called_once_more_break_nothing(recorder: Recorder) -> None:
    golden = recorder.learn(in_closures)
    for story in (
        lambda t: in_closures(t, skips=(3,)),
        lambda t: in_closures(t, forward_first=True),
        lambda t: Loop().tell(t),
    ):
        rules = {violation.invariant.sentence for violation in violations(recorder.judge(golden, story))}
        assert not {line for line in rules if line.startswith((WITHIN, CHANGES, RECEIVES))}, rules


def test_a_part_that_no_closure_uses_is_not_asked_for(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: in_closures(t, detached_from=0))
    assert not recorder.judge(golden, lambda t: in_closures(t, detached_from=0)).incidents


def test_a_step_that_was_tried_may_have_gone_too_far(recorder: Recorder) -> None:
    """A line search goes backward as often as it needs, and takes back what is not finite."""

    def search(t: Training, *, too_far: bool) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))

        def closure() -> None:
            for last in (False, True):
                t.zero_grad(optimizer)
                t.forward(net)
                t.loss()
                t.backward(net, nan=("fc1.bias",) if last and too_far else ())

        for _ in range(6):
            t.step(optimizer, closure=closure)

    golden = recorder.learn(lambda t: search(t, too_far=False))
    assert rule(golden, WITHIN + ".").examples == 36
    outcome = recorder.judge(golden, lambda t: search(t, too_far=True))
    assert WITHIN + "." not in {violation.invariant.sentence for violation in violations(outcome)}
