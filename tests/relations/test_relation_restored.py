"""Restored: the first step of a resumed training has the optimizer's state, that of a new one has none."""

from __future__ import annotations

from judgements import sentences, titles
from training_story import Measured, Recorder, Training

from pytest_traincheck.rules.model import Scope

FRESH = "`AdamW[Net]` takes its first step without any state."
RESUMED = "`AdamW[Net]` takes its first step with restored state (momentum, moments, step counts)."


def starting(t: Training, held: int | None = 0) -> None:
    """A training whose optimizer begins with state for `held` parameters; None: nothing was measured."""

    def measure(step: int) -> None:
        if step == 0 and held is not None:
            t.measure("optimizer.state", float(held), optimizer=1)

    Measured(step=measure).tell(t)


def resuming(t: Training) -> None:
    starting(t, held=3)


def test_a_new_training_and_a_resumed_one(recorder: Recorder) -> None:
    fresh, resumed = recorder.learn(starting), recorder.learn(resuming)
    assert sentences(fresh, "Restored") == [FRESH]
    assert sentences(resumed, "Restored") == [RESUMED]
    assert {item.scope for item in resumed.invariants if item.relation == "Restored"} == {Scope.PINNED}
    assert not titles(recorder.judge(fresh, starting), "Restored")
    assert not titles(recorder.judge(resumed, resuming), "Restored")


def test_an_optimizer_that_forgets(recorder: Recorder) -> None:
    """The checkpoint's `optimizer` entry is no longer loaded, or is loaded into an optimizer that is replaced."""
    outcome = recorder.judge(recorder.learn(resuming), starting)
    assert titles(outcome, "Restored") == [
        "In the golden run `AdamW[Net]` took its first step with restored state (momentum, moments, step counts); "
        "in the candidate it takes it without any state: the state of the optimizer was not restored."
    ]


def test_an_optimizer_that_carries_state_from_elsewhere(recorder: Recorder) -> None:
    outcome = recorder.judge(recorder.learn(starting), resuming)
    assert titles(outcome, "Restored") == [
        "In the golden run `AdamW[Net]` took its first step without any state; in the candidate it takes it with "
        "restored state (momentum, moments, step counts): the state comes from somewhere else."
    ]


def test_nothing_is_claimed_where_golden_does_both(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: starting(t, held=t.seed))
    assert not sentences(golden, "Restored")


def test_a_candidate_in_which_nothing_was_measured(recorder: Recorder) -> None:
    assert not titles(recorder.judge(recorder.learn(resuming), lambda t: starting(t, held=None)), "Restored")


def test_each_optimizer_has_a_rule_of_its_own(recorder: Recorder) -> None:
    """One part of the model is fine-tuned from a checkpoint, the other begins anew."""

    def two(t: Training, held: tuple[int, int] = (3, 0)) -> None:
        model = t.model()
        weights = list(model.parameters.values())
        optimizers = [t.adamw(weights[:1], kind="torch.optim.SGD"), t.adamw(weights[1:])]
        for step in range(4):
            t.forward(model)
            t.loss()
            t.backward(model)
            for optimizer, count in zip(optimizers, held, strict=True):

                def measure(number: int = optimizer.number, count: int = count, step: int = step) -> None:
                    if step == 0:
                        t.measure("optimizer.state", float(count), optimizer=number)

                t.step(optimizer, within=measure)

    golden = recorder.learn(two)
    assert sentences(golden, "Restored") == [FRESH, RESUMED.replace("AdamW", "SGD")]
    assert len(titles(recorder.judge(golden, lambda t: two(t, (0, 0))), "Restored")) == 1
