"""Renewed: inputs that are drawn anew for every step, that are the same for the most part, and that stay."""

from __future__ import annotations

from collections.abc import Sequence

from judgements import sentences, titles
from training_story import Measured, Recorder, Training

from pytest_traincheck.rules.model import Scope

RULE = "Most of the input `items` of a model changes from one training step to the next."


def given(t: Training, shares: Sequence[float] = (0.0, 0.1, 0.05), *, path: str = "items") -> None:
    """A training whose model is given so much of the same as a step before."""

    def measured(step: int) -> None:
        if step:
            t.measure(f"kept.{path}", shares[(step - 1) % len(shares)])

    Measured(forward=measured).tell(t)


def test_what_is_drawn_anew_is_a_rule(recorder: Recorder) -> None:
    golden = recorder.learn(given)
    assert sentences(golden, "Renewed") == [RULE]
    assert {item.scope for item in golden.invariants if item.relation == "Renewed"} == {Scope.PINNED}
    assert not titles(recorder.judge(golden, given), "Renewed")


def test_negatives_that_are_drawn_from_the_same_seed_in_every_batch(recorder: Recorder) -> None:
    outcome = recorder.judge(recorder.learn(given), lambda t: given(t, (0.82, 0.79, 0.8)))
    assert titles(outcome, "Renewed") == [
        "In the golden run most of the input `items` of the model was new in every training step; in the candidate "
        "82 % of it is the same as a step before: the same examples are used again."
    ]


def test_a_little_more_of_the_same_is_chance(recorder: Recorder) -> None:
    assert not titles(recorder.judge(recorder.learn(given), lambda t: given(t, (0.3, 0.45, 0.4))), "Renewed")


def test_where_golden_repeats_itself_nothing_is_learned(recorder: Recorder) -> None:
    """Full batches, positions, masks."""
    for shares in ((1.0, 1.0, 1.0), (0.0, 0.3, 0.1)):
        assert not sentences(recorder.learn(lambda t, shares=shares: given(t, shares)), "Renewed")


def test_other_inputs_are_not_judged(recorder: Recorder) -> None:
    golden = recorder.learn(given)
    assert not titles(recorder.judge(golden, lambda t: given(t, (0.9, 0.9, 0.9), path="positions")), "Renewed")


STAYS = "The input `graph` of a model is the same in every training step."


def stays(t: Training, same: Sequence[float] = (1.0,)) -> None:
    """A training whose model is given all of the same as a step before, or not."""

    def measured(step: int) -> None:
        if step:
            t.measure("stayed.graph", same[(step - 1) % len(same)])

    Measured(forward=measured).tell(t)


def test_an_input_that_is_always_the_same_is_a_rule(recorder: Recorder) -> None:
    golden = recorder.learn(stays)
    assert sentences(golden, "Renewed") == [STAYS]
    assert not titles(recorder.judge(golden, stays), "Renewed")


def test_a_graph_that_gets_more_loops_with_every_step(recorder: Recorder) -> None:
    assert titles(recorder.judge(recorder.learn(stays), lambda t: stays(t, (0.0,))), "Renewed") == [
        "In the golden run the input `graph` of the model was the same in every training step; in the candidate it has "
        "other values than a step before: what it is made of is written to in place, or it is drawn or chosen again."
    ]


def test_an_input_that_changes_now_and_then_is_no_rule(recorder: Recorder) -> None:
    """Several steps on one batch, and then the next."""
    for same in ((1.0, 1.0, 0.0), (0.0,)):
        assert not sentences(recorder.learn(lambda t, same=same: stays(t, same)), "Renewed")
