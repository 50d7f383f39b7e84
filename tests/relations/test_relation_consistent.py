"""Consistent: ranks that train together agree, tied names hold one value."""

from __future__ import annotations

from training_story import Loop, Recorder, broken, describe, rule, sentences, violations

from pytest_traincheck.golden.model import Scope

PARAMETERS = "Parameters are equal on all ranks after every optimizer step."
GRADIENTS = "Gradients are equal on all ranks when an optimizer step begins."
TIED = {"embedding.weight": (7, 3), "body.weight": (3, 3), "head.weight": (7, 3)}
TIED_LOOP = Loop(
    parameters=TIED, tied={"head.weight": "embedding.weight"}, held=("embedding.weight", "body.weight"), clip=None
)
TIED_SENTENCE = "`Net.embedding.weight` and `Net.head.weight` are tied: they always hold the same value."


def test_ranks_agree(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(ranks=2))
    assert rule(golden, PARAMETERS).scope is Scope.TRANSFERABLE
    assert rule(golden, GRADIENTS).examples == 36


def test_gradients_that_are_not_reduced(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop(ranks=2)), Loop(ranks=2, synced=False))
    violation = broken(outcome, GRADIENTS)
    assert (violation.step, violation.ranks) == (0, (0, 1))
    assert violation.variables == ("Net.fc1.weight", "Net.fc1.bias", "Net.fc2.weight")
    assert "differ between ranks" in violation.title
    assert len(outcome.incidents) == 1, describe(outcome.incidents)


def test_clipping_on_one_rank_only_is_the_cause_of_what_drifts_apart(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop(ranks=2)), Loop(ranks=2, clip_ranks=(0,)))
    assert broken(outcome, PARAMETERS).step == 0
    (incident,) = outcome.incidents
    assert incident.root.invariant.relation == "Count"
    assert incident.root.ranks == (1,)


def test_another_number_of_ranks_is_held_to_the_same_rules(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(ranks=2))
    assert not recorder.check(golden, Loop(ranks=3, seed=5)).incidents
    outcome = recorder.check(golden, Loop(ranks=3, synced=False))
    assert broken(outcome, GRADIENTS)


def test_one_rank_has_nothing_to_agree_with(recorder: Recorder) -> None:
    assert not sentences(recorder.golden(Loop()), "Consistent")
    outcome = recorder.check(recorder.golden(Loop(ranks=2)), Loop())
    assert not violations(outcome, "Consistent")


def test_statistics_that_are_local_to_a_rank_are_no_rule(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(ranks=2, buffers=("norm.running_mean",)))
    assert not [line for line in sentences(golden, "Consistent") if line.startswith("Buffers")]


def test_tied_weights_hold_one_value(recorder: Recorder) -> None:
    golden = recorder.golden(TIED_LOOP)
    assert rule(golden, TIED_SENTENCE).scope is Scope.PINNED
    assert not recorder.check(golden, TIED_LOOP.but(seed=6, name="Decoder")).incidents


def test_untied_weights_differ(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(TIED_LOOP), TIED_LOOP.but(tied={}, held=None))
    violation = broken(outcome, TIED_SENTENCE)
    assert violation.step == 0
    assert violation.title.endswith("in the candidate they differ.")
    assert outcome.incidents[0].root is violation, describe(outcome.incidents)


def test_one_rank_in_the_middle_that_differs_is_seen(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop(ranks=2)), Loop(ranks=3, clip_ranks=(0, 2)))
    assert broken(outcome, PARAMETERS).step == 0
