"""Consistent: ranks that train together agree, tied names hold one value."""

from __future__ import annotations

import pytest
from judgements import broken, describe, rule, sentences, violations
from trace_builder import NONZERO, digest_of
from training_story import Loop, Measured, Recorder, Training

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.rules.model import Scope
from pytest_traincheck.trace import load_run

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
    assert incident.cause.invariant.relation == "Count"
    assert incident.cause.ranks == (1,)


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
    assert outcome.incidents[0].cause is violation, describe(outcome.incidents)


def test_one_rank_in_the_middle_that_differs_is_seen(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop(ranks=2)), Loop(ranks=3, clip_ranks=(0, 2)))
    assert broken(outcome, PARAMETERS).step == 0


# Memory of their own

APART = "No two parameters share memory."


def measured_at_first(t: Training, *sharing: str) -> None:
    """A training whose parameters are measured at the first look; those named lie where another one lies."""
    model = t.model()

    def look(step: int) -> None:
        for name, parameter in model.parameters.items() if step == 0 else ():
            t.measure("parameter.rms", 0.5, variable=parameter.variable)
            if name in sharing:
                t.measure("parameter.shares", 1.0, variable=parameter.variable)

    Measured(forward=look, model=model).tell(t)


def test_parameters_have_memory_of_their_own(recorder: Recorder) -> None:
    golden = recorder.learn(measured_at_first)
    assert (rule(golden, APART).scope, rule(golden, APART).examples) == (Scope.PINNED, 6)
    assert not violations(recorder.judge(golden, measured_at_first), "Consistent")


def test_parameters_that_were_laid_over_each_other(recorder: Recorder) -> None:
    """`target.weight.data = online.weight.data` copies nothing: what is written to one is written to both."""
    outcome = recorder.judge(recorder.learn(measured_at_first), lambda t: measured_at_first(t, "fc2.weight"))
    violation = broken(outcome, APART)
    assert violation.variables == ("Net.fc2.weight",)
    assert violation.title == (
        "In the golden run no two parameters shared memory; in the candidate `Net.fc2.weight` share memory with "
        "other parameters: what is written to one is written to both."
    )


def test_memory_that_is_shared_in_golden_is_no_rule_for_those_who_share_it(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: measured_at_first(t, "fc2.weight"))
    assert APART not in sentences(golden)
    assert not violations(recorder.judge(golden, lambda t: measured_at_first(t, "fc2.weight")), "Consistent")


def test_parameters_that_nobody_looked_at_share_nothing(recorder: Recorder) -> None:
    assert APART not in sentences(recorder.learn(Measured().tell))
    assert not violations(recorder.judge(recorder.learn(measured_at_first), Measured().tell), "Consistent")


@pytest.mark.parametrize("known", ["on all ranks", "on one rank", "later on one rank"])
@pytest.mark.parametrize("differs", [True, False])
def test_copies_that_no_module_holds_are_compared_where_all_ranks_know_them(
    recorder: Recorder, known: str, differs: bool
) -> None:
    def story(t: Training, *, copied: bool = True) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        copy = None
        for step in range(6):
            late = t.rank and known != "on all ranks"
            if copied and copy is None and not (late and (known == "on one rank" or step < 3)):
                copy = t.model("copy of Net")
            for parameter in copy.parameters.values() if copy is not None else ():
                t.change(parameter.variable, NONZERO, digest_of("copy", step, t.rank if differs else 0))
            t.zero_grad(optimizer)
            t.batch()
            t.forward(model)
            t.loss()
            t.backward(model)
            t.step(optimizer)

    golden = recorder.learn(lambda t: story(t, copied=False), ranks=2)
    path = recorder.path()
    for rank in range(2):
        t = Training(path, rank=rank, world_size=2, seed=5)
        story(t)
        t.write()
    found = check_run(golden, load_run(path), same_spec=True).incidents
    told = any("differ between ranks" in incident.cause.title for incident in found)
    assert told == (differs and known != "on one rank"), [incident.cause.title for incident in found]
