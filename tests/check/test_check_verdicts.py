"""Checking: a verdict for every rule, names aligned, pinned rules where they belong."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from judgements import broken, describe, rule, violations
from training_story import CLIP, LINEAR, F, Loop, Recorder, Training

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.check.result import Verdict
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn
from pytest_traincheck.rules.claims import Foreign
from pytest_traincheck.rules.model import Invariant, Kind, Scope


def verdict_on(outcome: object, invariant: Invariant) -> tuple[Verdict, str]:
    (found,) = [item for item in outcome.verdicts if item.invariant.id == invariant.id]  # type: ignore[attr-defined]
    return found.verdict, found.reason


def test_every_rule_gets_one_verdict(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    outcome = recorder.check(golden, Loop(seed=9))
    assert [item.invariant.id for item in outcome.verdicts] == [item.id for item in golden.invariants]
    assert Counter(item.verdict for item in outcome.verdicts) == {Verdict.HELD: len(golden.invariants)}
    assert outcome.incidents == ()


def test_violated_rules_have_violations_and_no_others(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(clip=None))
    violated = {item.invariant.id for item in outcome.verdicts if item.verdict is Verdict.VIOLATED}
    assert violated == {item.invariant.id for item in violations(outcome)}
    assert len(violated) == 2


def test_a_context_that_never_came_up_is_not_triggered(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    evaluation = rule(golden, "In evaluation, models are called without recording gradients.")
    verdict, reason = verdict_on(recorder.check(golden, Loop(evaluate_after=())), evaluation)
    assert (verdict, reason) == (Verdict.NOT_TRIGGERED, "its context never came up in this run")


def test_a_rule_of_a_plugin_that_is_not_installed_is_not_observable(recorder: Recorder) -> None:
    strange = Invariant("Telepathy", "torch", Foreign(), (), Scope.TRANSFERABLE, Kind.BEHAVIOUR, "Minds agree.", 9, 1)
    golden = Golden("story", "", (strange,))
    verdict, reason = verdict_on(recorder.check(golden, Loop()), strange)
    assert verdict is Verdict.NOT_OBSERVABLE
    assert "'Telepathy'" in reason


def test_pinned_rules_are_not_evaluated_on_another_spec(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    outcome = recorder.check(golden, Loop(lr=0.9, clip=3.0, held=("fc1.weight", "fc1.bias")), same_spec=False)
    for item in outcome.verdicts:
        if item.invariant.scope is Scope.PINNED:
            assert item.verdict is Verdict.NOT_TRIGGERED
            assert "pinned" in item.reason
    # What speaks of every pipeline still speaks.
    assert "in no optimizer" in broken(outcome, "Every trainable parameter is in exactly one optimizer group.").title


@pytest.mark.parametrize(
    "change",
    [
        {"name": "Classifier"},
        {"zero_grad": "bottom"},
        {"logging": True},
        {"criterion": True},
        {"evaluate_after": (2, 4, 5)},
        {"seed": 77},
        {"name": "Renamed", "zero_grad": "assign", "logging": True, "seed": 5, "criterion": True},
    ],
    ids=lambda change: "+".join(change),
)
def test_a_refactor_is_quiet(recorder: Recorder, change: dict[str, object]) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop().but(**change))
    assert not outcome.incidents, describe(outcome.incidents)


def test_a_refactor_of_a_run_with_many_parts_is_quiet(recorder: Recorder) -> None:
    rich = Loop(ema=True, ranks=2, autocast="bfloat16", buffers=("norm.running_mean",), microbatches=2)
    outcome = recorder.check(recorder.golden(rich), rich.but(name="Other", seed=4, zero_grad="model", logging=True))
    assert not outcome.incidents, describe(outcome.incidents)


def _two_models(t: Training, names: tuple[str, str], *, swapped: bool = False, forgotten: bool = False) -> None:
    shapes = {names[0]: {"g.weight": (3, 3), "g.bias": (3,)}, names[1]: {"d.weight": (5, 5), "d.bias": (5,)}}
    order = reversed(names) if swapped else names
    models = {name: t.model(name, shapes[name], layers=(LINEAR,)) for name in order}
    generator, judge = models[names[0]], models[names[1]]
    held = list(judge.parameters.values())
    first = t.adamw(held[:1] if forgotten else held, lr=0.1)
    second = t.adamw(list(generator.parameters.values()))
    for _ in range(6):
        for optimizer, called in ((first, (judge,)), (second, (generator, judge))):
            t.zero_grad(optimizer)
            for model in called:
                t.forward(model)
            t.backward(*called)
            t.step(optimizer)


def _two_model_golden(recorder: Recorder) -> Golden:
    def story(t: Training) -> None:
        _two_models(t, ("Generator", "Discriminator"))

    return learn([recorder.tell(story), recorder.tell(story, seed=1)], pipeline="gan")


@pytest.mark.parametrize("swapped", [False, True], ids=["same order", "made in another order"])
@pytest.mark.parametrize("names", [("Generator", "Discriminator"), ("G", "Critic"), ("Discriminator", "Generator")])
def test_renamed_models_and_their_optimizers_are_matched_by_shape(
    recorder: Recorder, names: tuple[str, str], swapped: bool
) -> None:
    golden = _two_model_golden(recorder)
    run = recorder.tell(lambda t: _two_models(t, names, swapped=swapped), seed=3)
    outcome = check_run(golden, run, same_spec=True)
    assert not outcome.incidents, describe(outcome.incidents)


def test_a_bug_in_a_renamed_model_is_reported_under_the_name_that_golden_knows(recorder: Recorder) -> None:
    golden = _two_model_golden(recorder)
    run = recorder.tell(lambda t: _two_models(t, ("G", "Critic"), forgotten=True))
    outcome = check_run(golden, run, same_spec=True)
    assert broken(outcome, "Every trainable parameter is in exactly one optimizer group.").variables == (
        "Discriminator.d.bias",
    )


def test_the_violation_is_told_from_its_first_step(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(back_to_train=False))
    (incident,) = outcome.incidents
    assert (incident.cause.step, incident.cause.count) == (3, 3)


def test_ranks_of_a_violation_are_those_on_which_it_happened(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop(ranks=2)), Loop(ranks=2, clip_ranks=(0,)))
    assert broken(outcome, f"`{CLIP}` is called exactly once in every training step.").ranks == (1,)
    everywhere = recorder.check(recorder.golden(Loop(ranks=2)), Loop(ranks=2, clip=None))
    assert broken(everywhere, f"`{CLIP}` is called exactly once in every training step.").ranks == (0, 1)


def test_an_empty_golden_finds_nothing(recorder: Recorder) -> None:
    outcome = recorder.check(replace(recorder.golden(Loop()), invariants=()), Loop(zero_grad="never"))
    assert (outcome.verdicts, outcome.incidents) == ((), ())


def test_checking_does_not_depend_on_the_order_of_the_rules(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    run = recorder.record(Loop(held=("fc1.weight",), back_to_train=False, layers=(LINEAR,)))
    backwards = replace(golden, invariants=golden.invariants[::-1])
    first, second = (check_run(item, run, same_spec=True).incidents for item in (golden, backwards))
    assert describe(first) == describe(second)
    assert [incident.id for incident in first] == [incident.id for incident in second]
    assert any(item.invariant.subject == F + "dropout" for incident in first for item in incident.violations)
