"""Which rules speak of a candidate: all of them on the same spec, fewer on a variation, fewest on another program."""

from __future__ import annotations

from dataclasses import replace

import pytest
from judgements import broken, describe, rule, violations
from training_story import CLIP, DROPOUT, LINEAR, F, Layer, Loop, Recorder

from pytest_traincheck.check.applicable import Program, program_of, why_not
from pytest_traincheck.check.evaluate import CheckOutcome
from pytest_traincheck.check.result import InvariantVerdict, Verdict
from pytest_traincheck.relations.stored import claim_of
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.workflow.sufficiency import vacuous

ELSEWHERE = {"encoder.weight": (8, 8), "encoder.bias": (8,), "decoder.weight": (8, 8)}
OTHER = Loop(
    name="Autoencoder",
    parameters=ELSEWHERE,
    layers=(Layer("encoder", "torch.nn.Conv2d", F + "conv2d"),),
    loss=F + "mse_loss",
    clip=None,
    schedule="never",
)
"""Another program than `Loop()`: it clips nothing, drops nothing, and its learning rate stays."""

CLIPS = f"`{CLIP}` is called exactly once in every training step."
CHANGES = "`torch.optim.AdamW.step` changes every parameter it holds that has a gradient."
FINITE = "The result of every loss function is finite, in training."


def verdict_on(outcome: CheckOutcome, sentence: str) -> InvariantVerdict:
    (found,) = [item for item in outcome.verdicts if item.invariant.sentence == sentence]
    return found


# What the candidate is


def test_what_a_candidate_is_to_the_golden(recorder: Recorder) -> None:
    golden, same, other = recorder.golden(Loop()), recorder.record(Loop(seed=7)), recorder.record(OTHER)
    assert program_of(golden, same, same_spec=True) is Program.SAME
    assert program_of(golden, same, same_spec=False) is Program.VARIATION
    assert program_of(golden, other, same_spec=False) is Program.OTHER
    # Whoever says that it is the same is believed: a model may be rewritten.
    assert program_of(golden, other, same_spec=True) is Program.SAME


@pytest.mark.parametrize(("kept", "expected"), [(3, Program.VARIATION), (2, Program.VARIATION), (1, Program.OTHER)])
def test_half_of_the_parameters_make_a_variation(recorder: Recorder, kept: int, expected: Program) -> None:
    """Of other sizes, as a wider model has them, and beside new ones."""
    names = ("a.weight", "b.weight", "c.weight", "d.weight")
    golden = recorder.golden(Loop(parameters=dict.fromkeys(names, (3, 3))))
    wider = dict.fromkeys((*names[:kept], "e.weight", "f.weight", "g.weight", "h.weight"), (9, 9))
    assert program_of(golden, recorder.record(Loop(parameters=wider)), same_spec=False) is expected


def test_a_golden_that_knows_no_model_was_learned_from_several_programs(recorder: Recorder) -> None:
    golden = replace(recorder.golden(Loop()), models={})
    assert program_of(golden, recorder.record(OTHER), same_spec=False) is Program.VARIATION


# Which rules are checked

ONCE: dict[str, object] = {"api": "torch.bmm", "per": "step", "times": "once"}
UPDATES: dict[str, object] = {"within": "torch.optim.SGD.step", "change": "updates"}


@pytest.mark.parametrize(
    ("relation", "claim", "scope", "spoken_of"),
    [
        ("Count", ONCE, Scope.PINNED, {Program.SAME}),
        ("EventContain", UPDATES, Scope.PINNED, {Program.SAME}),
        ("Count", ONCE, Scope.TRANSFERABLE, {Program.SAME, Program.VARIATION}),
        ("APIOutput", {"api": "torch.bmm", "dtype": "bfloat16"}, Scope.TRANSFERABLE, {Program.SAME, Program.VARIATION}),
        ("APIOutput", {"finite": True}, Scope.TRANSFERABLE, set(Program)),
        ("Accumulate", {"gradient": "used"}, Scope.TRANSFERABLE, set(Program)),
        ("EventContain", UPDATES, Scope.TRANSFERABLE, set(Program)),
        ("CollectiveOrder", {"of": "result", "api": "torch.distributed.all_reduce"}, Scope.TRANSFERABLE, set(Program)),
        ("Bounded", {"of": "batch"}, Scope.TRANSFERABLE, set(Program)),
    ],
)
def test_rules_by_program(relation: str, claim: dict[str, object], scope: Scope, spoken_of: set[Program]) -> None:
    invariant = Invariant(
        relation, "torch", claim_of(relation, claim), (), scope, Kind.BEHAVIOUR, "Something holds.", 24, 3
    )
    assert {program for program in Program if not why_not(invariant, program)} == spoken_of


def test_a_variation_is_held_to_what_does_not_depend_on_arguments(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    wider = {name: tuple(2 * size for size in shape) for name, shape in Loop().parameters.items()}
    variation = Loop(parameters=wider, lr=0.3, hyper={"weight_decay": 0.5}, seed=3)
    assert not recorder.check(golden, variation, same_spec=False).incidents
    assert recorder.check(golden, variation).incidents, "as the same spec, the configuration differs"
    assert broken(recorder.check(golden, variation.but(clip=None), same_spec=False), CLIPS)


def test_another_program_is_not_held_to_habits(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    outcome = recorder.check(golden, OTHER, same_spec=False)
    assert not outcome.incidents, describe(outcome.incidents)
    clips, pinned = verdict_on(outcome, CLIPS), rule(golden, "`AdamW[Net]` holds parameters of `Net` only.")
    assert (clips.verdict, clips.applicable) == (Verdict.NOT_TRIGGERED, False)
    assert clips.reason == "learned from one program and not general, and the candidate is a different program"
    assert "pinned to the golden's own command" in verdict_on(outcome, pinned.sentence).reason


def test_another_program_is_held_to_what_every_training_does(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    mistaken = OTHER.but(loss_value=float("nan"), stuck=("encoder.bias",), zero_grad="never")
    outcome = recorder.check(golden, mistaken, same_spec=False)
    assert broken(outcome, FINITE)
    assert broken(outcome, CHANGES).variables == ("Autoencoder.encoder.bias",)
    assert violations(outcome, "Accumulate")
    assert {item.invariant.relation for item in violations(outcome)} == {"APIOutput", "EventContain", "Accumulate"}


# What a pass means


def test_rules_that_do_not_apply_cannot_be_missed(recorder: Recorder) -> None:
    """Of another program's rules most do not apply, and those that do come up: the pass means something."""
    outcome = recorder.check(recorder.golden(Loop()), OTHER, same_spec=False)
    applicable = [item for item in outcome.verdicts if item.applicable]
    assert 0 < len(applicable) < len(outcome.verdicts) / 2
    assert {item.verdict for item in applicable} == {Verdict.HELD}
    assert not vacuous(outcome.verdicts)
    # The same verdicts, taken for rules that apply, would be a run in which hardly anything came up.
    (error,) = vacuous([replace(item, applicable=True) for item in outcome.verdicts])
    assert f"only {len(applicable)} of {len(outcome.verdicts)} rules of the golden came up" in error.message


def test_a_rule_that_applies_and_never_came_up_is_missed(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(layers=(LINEAR, DROPOUT)))
    outcome = recorder.check(golden, Loop(evaluate_after=()), same_spec=False)
    evaluation = verdict_on(outcome, "In evaluation, models are called without recording gradients.")
    assert (evaluation.verdict, evaluation.applicable) == (Verdict.NOT_TRIGGERED, True)


def test_a_golden_of_which_no_rule_applies_is_no_pass(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    pinned = replace(golden, invariants=tuple(item for item in golden.invariants if item.scope is Scope.PINNED))
    outcome = recorder.check(pinned, OTHER, same_spec=False)
    assert not any(item.applicable for item in outcome.verdicts)
    (error,) = vacuous(outcome.verdicts)
    assert error.message == (
        f"none of {len(pinned.invariants)} rules of the golden could be checked ({len(pinned.invariants)} not "
        "triggered: pinned to the golden's own command, and the candidate ran a different one)"
    )
    assert "traincheck refresh" in error.remedy


def test_a_golden_without_rules_is_no_pass() -> None:
    (error,) = vacuous(())
    assert "the golden has no rules" in error.message
