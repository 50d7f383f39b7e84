"""Total: a run that is shorter than golden's is told once, whatever it lacks; what golden runs differ in is not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from judgements import describe, sentences, violations
from scaled_story import Scaled
from trace_builder import Layer, Model, tensor
from training_story import LINEAR, F, Loop, Recorder, Training
from unrolled_story import Unrolled

from pytest_traincheck.check.evaluate import CheckOutcome
from pytest_traincheck.golden.model import Golden

STEP = "torch.optim.AdamW.step"


def totals(outcome: CheckOutcome) -> list[str]:
    return [item.title for item in violations(outcome) if item.invariant.relation == "Total"]


def gan(t: Training, *, rounds: int = 6, critic: int = 1) -> None:
    """Two models with an optimizer each."""
    generator, discriminator = t.model("Generator"), t.model("Critic")
    optimizers = [t.adamw(list(model.parameters.values())) for model in (generator, discriminator)]
    for _ in range(rounds):
        for model, optimizer, times in zip((generator, discriminator), optimizers, (1, critic), strict=True):
            for _ in range(times):
                t.zero_grad(optimizer)
                t.batch()
                t.forward(model)
                t.loss(F + "mse_loss")
                t.backward(model)
                t.step(optimizer)


def test_what_is_learned(recorder: Recorder) -> None:
    found = sentences(recorder.golden(Loop()))
    assert f"`{STEP}` is called exactly 6 times in a run." in found
    assert "`torch.nn.Module.forward` of `Net` in evaluation is called at 2 or more points of a run." in found
    assert "`torch.nn.Module.forward` of `Net` in training is given 48 or more examples in a run." in found


@pytest.mark.parametrize(
    "loop", [Loop(), Loop(microbatches=2), Loop(ranks=2, wrapper="ddp")], ids=["", "accumulated", "ranks"]
)
def test_a_run_that_ends_early_is_one_incident(recorder: Recorder, loop: Loop) -> None:
    loop = loop.but(wrapper="")
    outcome = recorder.check(recorder.golden(loop), loop.but(steps=3))
    (incident,) = outcome.incidents
    assert incident.cause.title == (
        f"The candidate made 3 optimizer steps (`{STEP}`), the golden run 6: the candidate's run ends early."
    ), describe(outcome.incidents)
    assert incident.cause.step == 2


def test_what_comes_late_is_missing_for_that_reason(recorder: Recorder) -> None:
    """An evaluation after the last step never comes: it was not left out by itself."""
    loop = Loop(evaluate_after=(5,))
    (incident,) = recorder.check(recorder.golden(loop), loop.but(steps=3)).incidents
    assert "ends early" in incident.cause.title
    assert any("in evaluation" in item.title for item in incident.consequences)


def test_two_optimizers(recorder: Recorder) -> None:
    golden = recorder.learn(gan)
    (incident,) = recorder.judge(golden, partial(gan, rounds=3)).incidents
    assert "ends early" in incident.cause.title
    assert not recorder.judge(golden, gan).incidents


def test_a_step_that_is_left_out_comes_first(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(skip_step=(1, 3)))
    assert "an optimizer step is missing" in outcome.incidents[0].cause.title
    assert "The candidate made 4 optimizer steps" in " ".join(totals(outcome))
    assert "early" not in " ".join(totals(outcome))


def test_an_evaluation_that_is_left_out(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(evaluate_after=(5,)))
    (incident,) = outcome.incidents
    assert incident.cause.title == (
        "In the golden run `torch.nn.Module.forward` of `Net` in evaluation was called at 2 or more points, "
        "before, between or after the training steps; in the candidate at 1: evaluations are missing."
    )


def test_more_evaluations_are_nobodys_business(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(evaluate_after=(0, 2, 4, 5)))
    assert not totals(outcome)


def test_a_longer_run_is_another_run(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    assert f"The candidate made 11 optimizer steps (`{STEP}`), the golden run 6." in totals(
        recorder.check(golden, Loop(steps=11))
    )
    assert not recorder.check(golden, Loop(steps=11), same_spec=False).incidents


def test_golden_runs_of_different_length(recorder: Recorder) -> None:
    """Early stopping: how long a run is depends on the seed."""

    def stopping(t: Training, steps: int | None = None) -> None:
        Loop(steps=steps or 5 + t.seed, evaluate_after=(steps or 5 + t.seed,)).tell(t)

    golden = recorder.learn(stopping)
    assert not [rule for rule in sentences(golden) if "exactly" in rule and "in a run" in rule]
    assert not totals(recorder.judge(golden, partial(stopping, steps=7)))


def test_a_scaler_decides_which_steps_are_taken(recorder: Recorder) -> None:
    """How many steps it was asked for is counted: which of them overflow is up to the data."""
    golden = recorder.learn(Scaled().tell)
    assert "`torch.amp.GradScaler.step` is called exactly 8 times in a run." in sentences(golden)
    overflowing = Scaled(skips=lambda _seed, iteration: iteration in (3, 4))
    assert not totals(recorder.judge(golden, overflowing.tell))


# What enters a model


def evaluated(t: Training, evaluate: Callable[[Model], object], *, steps: int = 6) -> None:
    """A training with an evaluation, told by itself, after every second step."""
    net = t.model(layers=(LINEAR, Layer("fc2", "torch.nn.Linear", F + "linear")))
    optimizer = t.adamw(list(net.parameters.values()))
    for step in range(steps):
        t.mode(net, True)
        t.zero_grad(optimizer)
        t.batch()
        t.forward(net)
        t.loss()
        t.backward(net)
        t.step(optimizer)
        if step % 2:
            t.mode(net, False)
            with t.no_grad():
                evaluate(net)


def part(t: Training, layer: Layer) -> None:
    """A part of a model is called from outside of it."""
    with t.call(layer.module, type="module", args={"x": tensor(8, 3)}, module=layer.number, entry=True, line=31):
        pass


def by_parts(t: Training, *, batches: int = 2) -> None:
    evaluated(t, lambda net: [part(t, layer) for layer in net.layers for _ in range(batches)])


def as_whole(t: Training, *places: str, batches: int = 2) -> None:
    evaluated(t, lambda net: [t.forward(net, line=place) for place in places for _ in range(batches)])


def in_evaluation(golden: Golden) -> list[str]:
    return [each for each in sentences(golden, "Total") if "in evaluation is given" in each]


def test_a_model_that_is_entered_by_its_parts(recorder: Recorder) -> None:
    """It is given as many examples as one of them, and as many where it is called as a whole."""
    golden = recorder.learn(by_parts)
    assert in_evaluation(golden) == [
        "`torch.nn.Module.forward` of `Net` in evaluation is given 48 or more examples in a run."
    ]
    for fine in (by_parts, lambda t: as_whole(t, "evaluate")):
        assert not totals(recorder.judge(golden, fine))
    assert totals(recorder.judge(golden, lambda t: by_parts(t, batches=1))) == [
        "In the golden run `torch.nn.Module.forward` of `Net` in evaluation was given 48 or more examples; in the "
        "candidate 24: evaluation or validation calls it less often, or on fewer or smaller batches."
    ]


def test_a_model_that_is_entered_as_a_whole_and_by_its_parts(recorder: Recorder) -> None:
    """Half of the evaluation asks for scores, of which it calls the parts."""

    def fine(t: Training) -> None:
        evaluated(t, lambda net: [t.forward(net, line="evaluate"), *(part(t, layer) for layer in net.layers)])

    golden = recorder.learn(lambda t: as_whole(t, "evaluate"))
    assert not totals(recorder.judge(golden, fine))
    assert totals(recorder.judge(golden, lambda t: as_whole(t, "evaluate", batches=1)))


def test_a_state_that_goes_along_has_no_examples(recorder: Recorder) -> None:
    """One step of a recurrent network is given a token each, and a state that is larger: (layers, examples, width)."""

    def called(t: Training, **given: object) -> None:
        def recur(net: Model) -> None:
            with t.call("torch.nn.Module.forward", type="module", args=given, module=net.number, entry=True, line=31):
                pass

        evaluated(t, recur)

    golden = recorder.learn(lambda t: called(t, token=tensor(8, 1)))
    state, fewer = tensor(1, 8, 24), tensor(4, 1)
    assert not totals(recorder.judge(golden, lambda t: called(t, token=tensor(8, 1), state=state)))
    assert totals(recorder.judge(golden, lambda t: called(t, token=fewer, state=tensor(1, 4, 24))))


def test_the_same_examples_at_two_places_of_one_evaluation(recorder: Recorder) -> None:
    """One place computes the loss and the other the score: one result does for both."""
    golden = recorder.learn(lambda t: as_whole(t, "evaluate", "eval"))
    assert in_evaluation(golden) == [
        "`torch.nn.Module.forward` of `Net` in evaluation is given 48 or more different examples in a run."
    ]
    for places in (["evaluate", "eval"], ["evaluate"], ["eval", "evaluate", "loss"]):
        assert not totals(recorder.judge(golden, lambda t, places=places: as_whole(t, *places)))  # type: ignore[misc]
    assert totals(recorder.judge(golden, lambda t: as_whole(t, "evaluate", "eval", batches=1))) == [
        "In the golden run `torch.nn.Module.forward` of `Net` in evaluation was given 48 or more different examples; "
        "in the candidate 24: evaluation or validation calls it less often, or on fewer or smaller batches."
    ]


def test_examples_that_differ_between_golden_runs(recorder: Recorder) -> None:
    """The fewest that some run was given are no bound for the next."""
    golden = recorder.learn(lambda t: as_whole(t, "evaluate", batches=2 + t.seed))
    assert not in_evaluation(golden)
    assert not totals(recorder.judge(golden, lambda t: as_whole(t, "evaluate", batches=1)))


@pytest.mark.parametrize(
    "story",
    [
        Unrolled(lambda _step: 5).tell,
        Unrolled(lambda step: 5 - (step == 3), fed_back=False).tell,
    ],
    ids=["given what it returned", "as many calls as a sequence is long"],
)
def test_how_long_a_sequence_is(recorder: Recorder, story: Callable[[Training], None]) -> None:
    """All batches of all golden runs may have been as long by chance."""
    golden = recorder.learn(story)
    text = "`torch.nn.Module.forward` of `Net` in training is given {} or more examples in a run."
    assert text.format(48) in sentences(golden)
    assert not totals(recorder.judge(golden, Unrolled(lambda step: 5 - (step > 1)).tell))


def test_calls_that_are_as_many_in_every_step(recorder: Recorder) -> None:
    """Two views of a batch, say: nothing is fed back, and each call is given examples of its own."""
    golden = recorder.learn(Unrolled(lambda _step: 2, fed_back=False).tell)
    assert totals(recorder.judge(golden, Unrolled(lambda _step: 1, fed_back=False).tell))


def test_an_evaluation_with_gradients(recorder: Recorder) -> None:
    """One step has the calls of an evaluation besides: a plan, and no sequence."""
    golden = recorder.learn(Unrolled(lambda step: 10 if step == 3 else 2, fed_back=False).tell)
    fewer = recorder.judge(golden, Unrolled(lambda step: 6 if step == 3 else 2, fed_back=False).tell)
    assert totals(fewer) == [
        "In the golden run `torch.nn.Module.forward` of `Net` in training was given 160 or more examples; in the "
        "candidate 128."
    ]
