"""Total: a run that is shorter than golden's is told once, whatever it lacks; what golden runs differ in is not."""

from __future__ import annotations

from functools import partial

import pytest
from judgements import describe, sentences, violations
from scaled_story import Scaled
from training_story import F, Loop, Recorder, Training

from pytest_traincheck.check import CheckOutcome

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
    assert incident.root.title == (
        f"The candidate made 3 optimizer steps (`{STEP}`), the golden run 6: the candidate's run ends early."
    ), describe(outcome.incidents)
    assert incident.root.step == 2


def test_what_comes_late_is_missing_for_that_reason(recorder: Recorder) -> None:
    """An evaluation after the last step never comes: it was not left out by itself."""
    loop = Loop(evaluate_after=(5,))
    (incident,) = recorder.check(recorder.golden(loop), loop.but(steps=3)).incidents
    assert "ends early" in incident.root.title
    assert any("in evaluation" in item.title for item in incident.consequences)


def test_two_optimizers(recorder: Recorder) -> None:
    golden = recorder.learn(gan)
    (incident,) = recorder.judge(golden, partial(gan, rounds=3)).incidents
    assert "ends early" in incident.root.title
    assert not recorder.judge(golden, gan).incidents


def test_a_step_that_is_left_out_comes_first(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(skip_step=(1, 3)))
    assert "an optimizer step is missing" in outcome.incidents[0].root.title
    assert "The candidate made 4 optimizer steps" in " ".join(totals(outcome))
    assert "early" not in " ".join(totals(outcome))


def test_an_evaluation_that_is_left_out(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(evaluate_after=(5,)))
    (incident,) = outcome.incidents
    assert incident.root.title == (
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
