"""Shuffled: training data in random order."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from judgements import broken, rule, sentences, titles
from trace_builder import digest_of
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


CALLED, NOT_CALLED = 1, 2
ANEW = "`set_epoch` gives the sampler of the training data the number of each epoch."


def drawing(*numbers: int, called: bool = True, trains: bool = True) -> Callable[[Training], None]:
    """A training that begins an iteration over the data in each of its first steps, for the epochs of these numbers."""

    def story(t: Training) -> None:
        def measured(step: int) -> None:
            if step < len(numbers):
                t.measure("batch.epoch", float(numbers[step]), digest=CALLED if called else NOT_CALLED)

        if trains:
            Measured(batch=measured).tell(t)
            return
        loading(t)
        model = t.model("Other")
        t.mode(model, False)
        with t.context(grad=False):
            for step in range(3):
                t.batch(lambda step=step: measured(step))
                t.forward(model, line="evaluate")

    return story


def test_the_number_of_each_epoch_is_a_rule(recorder: Recorder) -> None:
    golden = recorder.learn(drawing(0))
    assert ANEW in sentences(golden, "Shuffled")
    for others in (drawing(0), drawing(0, 1, 2), drawing(0, 0, 1, 1), drawing(3, 0, 0), drawing()):
        assert not titles(recorder.judge(golden, others), "Shuffled")


def test_a_number_that_is_never_given(recorder: Recorder) -> None:
    outcome = recorder.judge(recorder.learn(drawing(0)), drawing(0, called=False))
    assert titles(outcome, "Shuffled") == [
        "In the golden run `set_epoch` gave the sampler of the training data the number of each epoch; in the "
        "candidate it is not called before training begins: the sampler draws the same order in every epoch."
    ]


def test_a_number_that_stays(recorder: Recorder) -> None:
    outcome = recorder.judge(recorder.learn(drawing(0)), drawing(0, 4, 4, 4))
    assert titles(outcome, "Shuffled") == [
        "In the golden run `set_epoch` gave the sampler of the training data the number of each epoch; in the "
        "candidate its number is still 4 in the third iteration over the data: the sampler has drawn the same order "
        "each time."
    ]


def test_golden_that_gives_no_number_says_nothing(recorder: Recorder) -> None:
    for story in (drawing(0, called=False), drawing(0, 0, 0), drawing(0, 1, trains=False)):
        assert ANEW not in sentences(recorder.learn(story), "Shuffled")


def test_samplers_of_evaluation_may_have_one_number(recorder: Recorder) -> None:
    golden = recorder.learn(drawing(0))
    assert not titles(recorder.judge(golden, drawing(0, 0, 0, called=False, trains=False)), "Shuffled")


def test_one_order_in_every_epoch_comes_of_its_number(recorder: Recorder) -> None:
    """The examples that come again are no incident of their own."""

    def story(number: Callable[[int], int], order: Callable[[int], int], called: bool) -> Callable[[Training], None]:
        def tell(t: Training) -> None:
            def measured(step: int) -> None:
                epoch, place = divmod(step, 2)
                t.measure("batch.examples", 1.0, digest=digest_of(t.seed, order(epoch), place))
                if not place:
                    t.measure("batch.epoch", float(number(epoch)), digest=CALLED if called else NOT_CALLED)

            Measured(batch=measured).tell(t)

        return tell

    golden = recorder.learn(story(int, int, True))
    outcome = recorder.judge(golden, story(lambda _: 0, lambda _: 0, False))
    assert len(outcome.incidents) == 1
    assert {each.invariant.relation for each in outcome.incidents[0].violations} == {"Shuffled", "Distinct"}
    assert outcome.incidents[0].cause.invariant.relation == "Shuffled"
