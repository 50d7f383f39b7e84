"""Shuffled: training data in random order."""

from __future__ import annotations

import itertools

from judgements import broken, rule, sentences, titles
from training_story import Measured, Recorder, Training

from pytest_traincheck.relations.shuffled import Shuffled
from pytest_traincheck.rules.model import Scope

RULE = "The batches of training are drawn in random order."


def loading(t: Training, shuffled: float | None = 1.0) -> None:
    """A training whose loader draws in random order, or does not, or nobody knows."""

    def measured(_step: int) -> None:
        if shuffled is not None:
            t.measure("batch.shuffled", shuffled)

    Measured(batch=measured).tell(t)


def test_random_order_is_a_rule(recorder: Recorder) -> None:
    golden = recorder.learn(loading)
    assert sentences(golden, "Shuffled") == [RULE]
    assert {item.scope for item in golden.invariants if item.relation == "Shuffled"} == {Scope.PINNED}
    assert not titles(recorder.judge(golden, loading), "Shuffled")


def test_a_shuffle_that_got_lost(recorder: Recorder) -> None:
    outcome = recorder.judge(recorder.learn(loading), lambda t: loading(t, 0.0))
    assert titles(outcome, "Shuffled") == [
        "In the golden run the batches of training were drawn in random order; in the candidate they come in the "
        "order of the dataset (see `shuffle` and `sampler` of the DataLoader)."
    ]


def test_samplers_of_others_and_data_in_order_say_nothing(recorder: Recorder) -> None:
    golden = recorder.learn(loading)
    assert not titles(recorder.judge(golden, lambda t: loading(t, None)), "Shuffled")
    for other in (0.0, None):
        assert not sentences(recorder.learn(lambda t, other=other: loading(t, other)), "Shuffled")


def test_evaluation_in_order_is_as_it_should_be(recorder: Recorder) -> None:
    def with_evaluation(t: Training) -> None:
        loading(t)
        model = t.model("Other")
        t.mode(model, False)
        with t.context(grad=False):
            for _ in range(3):
                t.batch(lambda: t.measure("batch.shuffled", 0.0))
                t.forward(model, line="evaluate")

    golden = recorder.learn(with_evaluation)
    assert sentences(golden, "Shuffled") == [RULE]
    assert not titles(recorder.judge(golden, with_evaluation), "Shuffled")


def kept_for_later(t: Training, shuffled: float = 1.0) -> None:
    """Batches of evaluation are loaded before training, and kept in a list."""
    for _ in range(3):
        t.batch(lambda: t.measure("batch.shuffled", 0.0))
    loading(t, shuffled)


def test_batches_of_evaluation_that_are_loaded_before_training(recorder: Recorder) -> None:
    golden = recorder.learn(kept_for_later)
    assert sentences(golden, "Shuffled") == [RULE]
    assert not titles(recorder.judge(golden, kept_for_later), "Shuffled")
    assert not titles(recorder.judge(recorder.learn(loading), kept_for_later), "Shuffled")


def test_a_shuffle_that_got_lost_behind_them(recorder: Recorder) -> None:
    """The place is the loader of training, not the one that is read before it."""
    outcome = recorder.judge(recorder.learn(kept_for_later), lambda t: kept_for_later(t, 0.0))
    violation = broken(outcome, RULE)
    assert (violation.step, violation.count) == (0, 6)
    run = recorder.tell(lambda t: kept_for_later(t, 0.0))
    places = Shuffled().examples({"of": "training"}, run)
    process = run.processes[0]
    assert places.row.tolist() == [process.measures("batch.shuffled")[k] for k in (3, 4, 5, 6, 7, 8)]


def test_a_step_that_begins_with_another_batch(recorder: Recorder) -> None:
    """Half of what a step is given is a fixed set that is read in order."""

    def both(t: Training, shuffled: float = 1.0) -> None:
        def measured(_step: int) -> None:
            t.measure("batch.shuffled", 0.0 if next(turns) % 2 else shuffled)

        turns = itertools.count()
        Measured(batch=measured, microbatches=2).tell(t)

    golden = recorder.learn(both)
    assert rule(golden, RULE).examples == 12
    assert not titles(recorder.judge(golden, both), "Shuffled")
    assert broken(recorder.judge(golden, lambda t: both(t, 0.0)), RULE).count == 6
