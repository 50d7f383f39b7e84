"""Hyperparameter: the configuration of optimizers is behaviour of its own kind."""

from __future__ import annotations

import pytest
from judgements import broken, describe, rule, sentences
from training_story import Loop, Recorder, Training

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.infer import learn
from pytest_traincheck.rules.model import Kind, Scope

DECAY = "`torch.optim.AdamW(weight_decay)` is 0.01 for `AdamW[Net]`."


def test_every_hyper_parameter_is_pinned_configuration(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    for line in sentences(golden, "Hyperparameter"):
        assert (rule(golden, line).scope, rule(golden, line).kind) == (Scope.PINNED, Kind.CONFIG)
    assert DECAY in sentences(golden)


@pytest.mark.parametrize(
    ("change", "title"),
    [
        (
            {"lr": 0.1},
            "The learning rate `torch.optim.AdamW(lr)` was 0.01 in the golden run and is 0.1 in the candidate.",
        ),
        (
            {"hyper": {"weight_decay": 0.0}},
            "`torch.optim.AdamW(weight_decay)` was 0.01 in the golden run and is 0 in the candidate.",
        ),
        (
            {"hyper": {"betas": {"tuple": [0.8, 0.999]}}},
            "`torch.optim.AdamW(betas)` was [0.9, 0.999] in the golden run and is [0.8, 0.999] in the candidate.",
        ),
    ],
)
def test_one_change_is_one_config_incident(recorder: Recorder, change: dict[str, object], title: str) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop().but(**change))
    (incident,) = outcome.incidents
    assert incident.kind is Kind.CONFIG
    assert (incident.cause.title, incident.cause.step, incident.cause.source) == (title, 0, "train.py:5")


def test_two_changes_are_two_incidents_or_one_subject(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(lr=0.1, clip=5.0))
    assert sorted(incident.cause.invariant.relation for incident in outcome.incidents) == ["APIArg", "Hyperparameter"]


@pytest.mark.parametrize(
    "kept", [{"list": [{"type": "builtins.list"}] * 2}, {"list": [None, None]}, {"tuple": []}, {"type": "own.Cache"}]
)
def test_what_an_optimizer_keeps_in_its_groups_is_no_configuration(recorder: Recorder, kept: object) -> None:
    golden = recorder.golden(Loop(hyper={"buffer": kept, "betas": {"tuple": [0.9, None]}}))
    found = [line for line in sentences(golden, "Hyperparameter") if "(b" in line]
    assert found == ["`torch.optim.AdamW(betas)` is [0.9, None] for `AdamW[Net]`."]


def test_which_kernel_does_the_work_is_no_configuration(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(hyper={"foreach": True, "fused": False}))
    assert not outcome.incidents, describe(outcome.incidents)


def _groups(t: Training, *, decay_all: bool = False) -> None:
    parameters = {
        "a.weight": (3, 3),
        "b.weight": (3, 3),
        "c.weight": (3, 3),
        "a.bias": (3,),
        "b.bias": (3,),
        "c.bias": (3,),
    }
    net = t.model("Net", parameters)
    matrices = [item for item in net.parameters.values() if item.name.endswith("weight")]
    vectors = [item for item in net.parameters.values() if item.name.endswith("bias")]
    optimizer = t.optimizer(
        "torch.optim.AdamW",
        [matrices, vectors],
        [{"lr": 0.01, "weight_decay": 0.1}, {"lr": 0.01, "weight_decay": 0.1 if decay_all else 0.0}],
        line=5,
    )
    for _ in range(6):
        t.zero_grad(optimizer)
        t.forward(net)
        t.backward(net)
        t.step(optimizer)


def test_no_decay_for_vectors_is_a_rule_by_shape(recorder: Recorder) -> None:
    golden = learn([recorder.tell(_groups), recorder.tell(_groups, seed=1)], pipeline="groups")
    vectors = rule(golden, "`torch.optim.AdamW(weight_decay)` is 0 for `AdamW[Net]`, where the parameter is a vector.")
    outcome = check_run(golden, recorder.tell(lambda t: _groups(t, decay_all=True)), same_spec=True)
    violation = broken(outcome, vectors.sentence)
    assert set(violation.variables) == {"Net.a.bias", "Net.b.bias", "Net.c.bias"}
    assert len(outcome.incidents) == 1, describe(outcome.incidents)


def test_another_pipeline_may_be_configured_as_it_likes(recorder: Recorder) -> None:
    assert not recorder.check(recorder.golden(Loop()), Loop(lr=0.5, factor=0.9), same_spec=False).incidents


def test_what_differs_between_golden_runs_is_no_rule(recorder: Recorder) -> None:
    golden = learn([recorder.record(Loop()), recorder.record(Loop(hyper={"weight_decay": 0.3}))], pipeline="story")
    assert not [line for line in sentences(golden) if "weight_decay" in line]
    assert [line for line in sentences(golden) if "AdamW(lr)" in line]
