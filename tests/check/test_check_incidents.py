"""Incidents: one bug is one incident with its cause on top; two bugs are two."""

from __future__ import annotations

import pytest
from judgements import describe
from training_story import CLIP, LINEAR, PARAMETERS, F, Loop, Recorder

from pytest_traincheck.rules.model import Kind

# What a pull request broke -> the relation and the subject that the top incident should name.
BUGS: dict[str, tuple[dict[str, object], str, str]] = {
    "zero_grad missing": ({"zero_grad": "never"}, "Accumulate", "torch.optim.AdamW.zero_grad"),
    "clipping removed": ({"clip": None}, "Count", CLIP),
    "clipping after the step": ({"clip_after_step": True}, "APISequence", CLIP),
    "clip norm changed": ({"clip": 9.0}, "APIArg", CLIP),
    "scheduler never stepped": ({"schedule": "never"}, "Count", "torch.optim.lr_scheduler.StepLR.step"),
    "parameter forgotten": (
        {"held": ("fc1.weight", "fc1.bias")},
        "Covered",
        "torch.optim.Optimizer.param_groups",
    ),
    "parameter frozen": (
        {"frozen": ("fc1.bias",), "held": tuple(PARAMETERS)},
        "Covered",
        "torch.optim.Optimizer.param_groups",
    ),
    "left in eval": ({"back_to_train": False}, "APIArg", "torch.nn.Module.train"),
    "evaluated in training mode": ({"eval_mode": False}, "APIArg", "torch.nn.Module.train"),
    "evaluated with gradients": ({"eval_no_grad": False}, "APIArg", "torch.no_grad"),
    "dropout removed": ({"layers": (LINEAR,)}, "Count", F + "dropout"),
    "loss not finite": ({"loss_value": float("nan")}, "APIOutput", "torch.nn.functional"),
    "backward removed": ({"backward": False}, "Count", "torch.autograd.backward"),
    "learning rate changed": ({"lr": 0.5}, "Hyperparameter", "torch.optim.AdamW"),
    "parameter not reached": ({"unreached": ("fc2.weight",)}, "EventContain", "torch.autograd.backward"),
    "autocast forgotten": ({"autocast": "float16"}, "APIArg", "torch.autocast"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_one_bug_is_one_incident_that_names_its_cause(recorder: Recorder, bug: str) -> None:
    change, relation, subject = BUGS[bug]
    outcome = recorder.check(recorder.golden(Loop()), Loop().but(**change))
    (incident,) = outcome.incidents or pytest.fail("nothing was found")
    assert (incident.cause.invariant.relation, incident.cause.invariant.subject) == (relation, subject), describe(
        outcome.incidents
    )
    assert incident.number == 1
    assert all(item.step >= 0 and item.title.endswith(".") for item in incident.violations)


INDEPENDENT = [
    ("clip norm changed", "evaluated with gradients"),
    ("parameter forgotten", "clipping removed"),
    ("zero_grad missing", "dropout removed"),
    ("learning rate changed", "left in eval"),
    ("clip norm changed", "learning rate changed"),
]


@pytest.mark.parametrize(("first", "second"), INDEPENDENT)
def test_two_independent_bugs_are_two_incidents(recorder: Recorder, first: str, second: str) -> None:
    change = {**BUGS[first][0], **BUGS[second][0]}
    outcome = recorder.check(recorder.golden(Loop()), Loop().but(**change))
    roots = sorted((item.cause.invariant.relation, item.cause.invariant.subject) for item in outcome.incidents)
    assert roots == sorted([BUGS[first][1:], BUGS[second][1:]]), describe(outcome.incidents)
    assert [incident.number for incident in outcome.incidents] == [1, 2]


def test_the_earlier_of_two_bugs_comes_first(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(clip=None, back_to_train=False))
    assert [incident.cause.step for incident in outcome.incidents] == [0, 3]


def test_effects_are_folded_under_their_cause(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(backward=False))
    (incident,) = outcome.incidents
    assert {item.invariant.relation for item in incident.consequences} >= {"EventContain"}


def test_one_step_left_out_is_one_incident_although_every_count_of_its_window_doubles(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(skip_step=(3,)))
    (incident,) = outcome.incidents
    assert (incident.cause.invariant.subject, incident.cause.step) == ("torch.autograd.backward", 3)
    assert "an optimizer step is missing" in incident.cause.title


def test_a_scheduler_before_the_first_step_is_the_cause_of_the_rates_that_differ(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(schedule="before"))
    assert outcome.incidents[0].cause.invariant.relation == "APISequence", describe(outcome.incidents)
    assert len(outcome.incidents) == 1, describe(outcome.incidents)


def test_another_class_of_optimizer_is_one_change_of_configuration(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(optimizer="torch.optim.SGD"))
    (incident,) = outcome.incidents
    assert incident.kind is Kind.CONFIG
    assert "`torch.optim.AdamW`" in incident.cause.title
    assert "`torch.optim.SGD`" in incident.cause.title


def test_configuration_is_a_kind_of_its_own(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    kinds = {bug: recorder.check(golden, Loop().but(**BUGS[bug][0])).incidents[0].kind for bug in BUGS}
    config = {bug for bug, kind in kinds.items() if kind is Kind.CONFIG}
    assert config == {"clip norm changed", "learning rate changed"}


def test_an_incident_keeps_its_identity_from_run_to_run(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    first, second = (recorder.check(golden, Loop(clip=None, seed=seed)).incidents for seed in (0, 8))
    assert [item.id for item in first] == [item.id for item in second]


def test_every_violation_is_in_exactly_one_incident(recorder: Recorder) -> None:
    loop = Loop(clip=None, back_to_train=False, held=("fc1.weight",), zero_grad="never", lr=1.0)
    outcome = recorder.check(recorder.golden(Loop()), loop)
    everything = [item.invariant.id for incident in outcome.incidents for item in incident.violations]
    assert len(everything) == len(set(everything))
