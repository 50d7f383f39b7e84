"""Which violation explains which: one root is one incident, and two roots stay two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from judgements import describe
from training_story import CLIP, DROPOUT, LINEAR, PARAMETERS, STEP_LR, F, Loop, Recorder, Training

from pytest_traincheck.check.evaluate import CheckOutcome, check_run
from pytest_traincheck.check.explain import explain
from pytest_traincheck.check.result import Violation
from pytest_traincheck.infer import learn
from pytest_traincheck.relations.meaning import Deviation
from pytest_traincheck.relations.stored import claim_of
from pytest_traincheck.rules.model import Invariant, Kind, Scope

BACKWARD = "torch.autograd.backward"
STEP = "torch.optim.AdamW.step"
NEVER, LEFT_OUT, NOT_FINITE = Deviation.NEVER, Deviation.LEFT_OUT, Deviation.NOT_FINITE

FORWARD = "torch.nn.Module.forward"
TRAINS: dict[str, Any] = {"api": FORWARD, "mode": "training", "stage": "train", "value": "on"}
CAST: dict[str, Any] = {"api": FORWARD, "mode": "autocast", "stage": "train", "value": "bfloat16"}


def violation(
    relation: str,
    subject: str,
    *,
    step: int = 0,
    variables: tuple[str, ...] = (),
    ranks: tuple[int, ...] = (0,),
    deviation: Deviation = Deviation.DIFFERENT,
    module: str = "",
    failure: Kind = Kind.BEHAVIOUR,
    **claim: object,
) -> Violation:
    rule = Invariant(relation, subject, claim_of(relation, claim), (), Scope.PINNED, failure, subject, 9, 3)
    return Violation(rule, subject, "", "", step, "train", ranks, 10, module, variables, deviation=deviation)


def no_gradient(*variables: str, step: int = 0) -> Violation:
    return violation("EventContain", BACKWARD, step=step, variables=variables, within=STEP, change="received")


def stands_still(*variables: str, step: int = 1) -> Violation:
    return violation(
        "Moves", "torch.nn.Parameter", step=step, variables=variables, kind="parameter", moves=True, per="step"
    )


def number(quantity: str, *, step: int = 0, root: str = "Net") -> Violation:
    variables = (f"{root}.fc1.weight",)
    return violation("Band", root, step=step, variables=variables, failure=Kind.NUMERIC, quantity=quantity)


def ranks_differ(kind: str) -> Violation:
    return violation("Consistent", f"across ranks ({kind})", ranks=(0, 1), across="ranks", kind=kind)


def roots(*violations: Violation) -> list[str]:
    return [incident.cause.invariant.subject for incident in explain(violations)]


def test_a_parameter_that_did_not_move_follows_from_its_gradient_that_did_not_arrive() -> None:
    assert roots(stands_still("Net.fc1.weight"), no_gradient("Net.fc1.weight")) == [BACKWARD]


def test_a_gradient_that_did_not_arrive_follows_from_a_parameter_that_requires_none() -> None:
    frozen = violation("Covered", "torch.nn.Parameter.requires_grad", variables=("Net.fc1.weight",), rule="trainable")
    found = explain([no_gradient("Net.fc1.weight"), stands_still("Net.fc1.weight"), frozen])
    assert [len(incident.consequences) for incident in found] == [2]
    assert found[0].cause == frozen


def test_clipping_does_not_explain_a_gradient_that_did_not_arrive() -> None:
    clip = violation("Count", CLIP, deviation=NEVER, api=CLIP, per="step", times="once")
    assert roots(no_gradient("Net.fc1.weight"), clip) == [CLIP, BACKWARD]


def test_clipping_does_not_explain_a_layer_that_returns_another_dtype() -> None:
    clip = violation("Count", CLIP, deviation=NEVER, api=CLIP, per="step", times="once")
    linear = violation("APIOutput", F + "linear", api=F + "linear", dtype="bfloat16")
    assert roots(clip, linear) == [CLIP, F + "linear"]
    cast = violation(
        "APIArg",
        "torch.autocast",
        module="Net",
        api="torch.nn.Module.forward",
        mode="autocast",
        stage="train",
        value="bfloat16",
    )
    assert roots(clip, linear, cast) == [CLIP, "torch.autocast"] or roots(linear, cast) == ["torch.autocast"]


def test_a_layer_that_is_not_called_explains_the_gradient_that_its_weights_lack() -> None:
    norm = F + "layer_norm"
    layer = violation("EventContain", norm, within="torch.nn.Module.forward", model="Net", stage="train", call=norm)
    assert roots(no_gradient("Net.norm.weight", step=1), layer) == [F + "layer_norm"]


@pytest.mark.parametrize("api", ["torch.distributed.all_reduce", "torch.nn.parallel.DistributedDataParallel.forward"])
def test_ranks_that_differ_follow_from_a_missing_collective(api: str) -> None:
    missing = violation("Count", api, ranks=(0, 1), deviation=NEVER, api=api, per="step", times="some")
    assert roots(ranks_differ("gradient"), ranks_differ("parameter"), missing) == [api]


def test_ranks_that_differ_follow_from_what_only_one_of_them_does() -> None:
    clip = violation("Count", CLIP, ranks=(1,), deviation=LEFT_OUT, api=CLIP, per="step", times="once")
    assert roots(ranks_differ("parameter"), clip) == [CLIP]


def test_what_all_ranks_do_alike_makes_none_of_them_differ() -> None:
    clip = violation("Count", CLIP, ranks=(0, 1), deviation=NEVER, api=CLIP, per="step", times="once")
    assert roots(ranks_differ("gradient"), ranks_differ("parameter"), clip) == [CLIP, "across ranks (gradient)"]


def test_gradients_that_differ_explain_parameters_that_do() -> None:
    found = explain([ranks_differ("gradient"), ranks_differ("parameter")])
    assert [incident.cause.invariant.claim.kind for incident in found] == ["gradient"]


def test_numbers_follow_from_behaviour_at_the_same_step_or_before() -> None:
    mode = violation(
        "APIArg",
        "torch.nn.Module.train",
        step=2,
        module="Net",
        api="torch.nn.Module.forward",
        mode="training",
        stage="train",
        value="on",
    )
    assert roots(number("gradient norm", step=2), number("loss", step=3), mode) == ["torch.nn.Module.train"]
    assert roots(number("loss", step=1), mode) == ["torch.nn.Module.train", "Net"]


def batch_size() -> Violation:
    found = violation("Bounded", "torch.utils.data.DataLoader", failure=Kind.CONFIG, of="batch size", sizes=[8])
    return replace(found, seq=1)  # a batch is loaded before anything is done with it


def test_what_comes_with_batches_of_another_size() -> None:
    """Sums are of another length, epochs too, and a batch without padding needs no mask."""
    evaluated, attention = "torch.nn.Module.forward|Net in eval", F + "scaled_dot_product_attention"
    rates: dict[str, Any] = {"optimizer": "SGD[Net]", "group": 0, "values": [0.1]}
    found = explain(
        [
            batch_size(),
            violation("LossScale", BACKWARD, per="mean", factor=1.0),
            violation("Count", "torch.nn.Module.forward", deviation=NEVER, api=evaluated, per="run", times="some"),
            violation("APIArg", attention, step=3, api=attention, argument="is_causal", value="False"),
            violation("Schedule", "torch.optim.SGD.lr", step=4, failure=Kind.CONFIG, **rates),
            number("loss"),
        ]
    )
    assert [incident.cause.invariant.relation for incident in found] == ["Bounded"]


def test_another_batch_size_explains_no_mistake_beside_it() -> None:
    momentum: dict[str, Any] = {"rule": "value", "optimizer": "SGD[Net]", "name": "momentum", "value": 0.9}
    beside = [
        violation("Count", CLIP, deviation=NEVER, api=CLIP, per="step", times="once"),
        violation("APIArg", F + "dropout", api=F + "dropout", argument="p", value="0.1"),
        violation(
            "APIArg",
            "torch.nn.Module.train",
            step=3,
            api="torch.nn.Module.forward",
            mode="training",
            stage="train",
            value="on",
            module="Net",
        ),
        violation("Hyperparameter", "torch.optim.SGD", failure=Kind.CONFIG, **momentum),
    ]
    assert len(explain([batch_size(), *beside])) == 1 + len(beside)


def test_a_step_without_a_backward_pass_makes_more_of_the_one_before() -> None:
    lacking = [
        violation("Count", api, step=3, deviation=LEFT_OUT, api=api, per="step", times="once")
        for api in (CLIP, BACKWARD)
    ]
    moved = violation("Replay", "torch.nn.Parameter", step=2, failure=Kind.NUMERIC, of="variable")
    assert roots(moved, *lacking) == [BACKWARD]
    earlier = violation("Replay", "torch.nn.Parameter", step=1, failure=Kind.NUMERIC, of="variable")
    assert roots(earlier, *lacking) == [BACKWARD, "torch.nn.Parameter"]


def test_numbers_of_another_model_do_not_follow() -> None:
    mode = violation(
        "APIArg",
        "torch.nn.Module.train",
        module="Net",
        api="torch.nn.Module.forward",
        mode="training",
        stage="train",
        value="on",
    )
    assert roots(number("loss", root="Critic", step=1), mode) == ["torch.nn.Module.train", "Critic"]


def test_numbers_flow_from_initial_values_to_updates() -> None:
    shuffled = ("update size", "loss", "gradient norm", "activation scale", "input scale", "initial scale")
    (incident,) = explain([number(what) for what in shuffled])
    order = [item.invariant.claim.quantity for item in incident.violations]
    assert order == ["initial scale", "input scale", "activation scale", "loss", "gradient norm", "update size"]


def test_behaviour_does_not_follow_from_a_number() -> None:
    assert set(roots(number("loss"), no_gradient("Critic.fc1.weight", step=2))) == {"Net", BACKWARD}


def test_a_loss_that_is_not_finite_follows_from_what_was_broken_in_a_step_before() -> None:
    diverged = violation("APIOutput", "torch.nn.functional", step=4, deviation=NOT_FINITE, finite=True)
    clip = violation("Count", CLIP, deviation=NEVER, api=CLIP, per="step", times="once")
    assert roots(diverged, clip) == [CLIP]
    at_once = violation("APIOutput", "torch.nn.functional", step=0, deviation=NOT_FINITE, finite=True)
    assert roots(at_once, clip) == [CLIP, "torch.nn.functional"]


def test_a_loss_that_is_not_finite_at_once_may_follow_from_what_the_batches_are() -> None:
    at_once = violation("APIOutput", "torch.nn.functional", step=0, deviation=NOT_FINITE, finite=True)
    assert roots(at_once, batch_size()) == ["torch.utils.data.DataLoader"]


def test_a_call_of_which_nobody_knows_where_it_belongs_may_be_behind_a_loss_that_is_not_finite_at_once() -> None:
    at_once = violation("APIOutput", "torch.nn.functional", step=0, deviation=NOT_FINITE, finite=True)
    api = "preparation.normalised"
    assert roots(at_once, violation("Count", api, deviation=NEVER, api=api, per="step", times="once")) == [api]


def test_parameters_that_changed_group_are_one_change() -> None:
    moved = ("Net.fc1.bias",)
    facts = {"failure": Kind.CONFIG, "rule": "per parameter", "optimizer": "AdamW[Net]"}
    decay, rate = (violation("Hyperparameter", "torch.optim.AdamW", variables=moved, name=name, value=0, **facts)
                   for name in ("weight_decay", "lr"))  # type: ignore[arg-type]  # fmt: skip
    assert len(explain([decay, rate])) == 1


def test_two_settings_of_one_optimizer_are_two_changes() -> None:
    facts = {"failure": Kind.CONFIG, "rule": "value", "optimizer": "AdamW[Net]", "value": 0}
    told = [violation("Hyperparameter", "torch.optim.AdamW", name=name, **facts) for name in ("weight_decay", "lr")]  # type: ignore[arg-type]
    assert len(explain(told)) == 2


# Whole loops


def _dqn(t: Training, *, held_too: bool = False, frozen: bool = False, no_grad: bool = False) -> None:
    """Q-learning: the target network is in eval mode, follows the network, and belongs in no optimizer."""
    layers = (LINEAR, DROPOUT)
    network = t.model("QNet", layers=layers)
    target = t.model("QNet", layers=layers, frozen=tuple(PARAMETERS) if frozen else ())
    t.mode(target, False)
    held = [*network.parameters.values(), *(target.parameters.values() if held_too else ())]
    optimizer = t.adamw(held)
    for _ in range(6):
        t.batch()
        t.forward(network)
        with t.context(grad=not no_grad):
            t.forward(target)
        t.loss()
        t.zero_grad(optimizer)
        t.backward(network)
        t.step(optimizer)
        for parameter in target.parameters.values():
            t.move(parameter)


@pytest.mark.parametrize("no_grad", [False, True], ids=["detached", "under no_grad"])
@pytest.mark.parametrize("frozen", [False, True], ids=["trainable", "frozen"])
def test_a_target_network_in_the_optimizer_is_one_incident(recorder: Recorder, frozen: bool, no_grad: bool) -> None:
    golden = learn(
        [recorder.tell(lambda t: _dqn(t, frozen=frozen, no_grad=no_grad), seed=seed) for seed in (0, 1)], pipeline="dqn"
    )
    run = recorder.tell(lambda t: _dqn(t, held_too=True, frozen=frozen, no_grad=no_grad))
    incidents = check_run(golden, run, same_spec=True).incidents
    assert len(incidents) == 1, describe(incidents)
    assert "it also holds `QNet#1.fc1.weight`" in incidents[0].cause.title


def _validated(t: Training, how: str) -> None:
    """Every second step is followed by two batches of the validation set; `how` says what is done with them."""
    model = t.model("Net")
    optimizer = t.adamw(list(model.parameters.values()))
    t.mode(model, True)
    for step in range(6):
        t.zero_grad(optimizer)
        t.batch()
        t.forward(model)
        t.loss()
        t.backward(model)
        t.clip(optimizer)
        t.step(optimizer)
        t.schedule(optimizer)
        if step % 2 == 0 or how == "not at all":
            continue
        if how in ("evaluate", "train in eval mode"):
            t.mode(model, False)
        for _ in range(2):
            if how == "evaluate":
                with t.no_grad():
                    t.batch()
                    t.forward(model, line="evaluate")
                    t.loss(line="evaluate")
                continue
            t.zero_grad(optimizer)
            t.batch()
            t.forward(model, line="evaluate")
            t.loss(line="evaluate")
            t.backward(model)
            if how == "train alike":
                t.clip(optimizer)
            t.step(optimizer)
        if how in ("evaluate", "train in eval mode"):
            t.mode(model, True)


def _check_validated(recorder: Recorder, how: str) -> CheckOutcome:
    golden = learn([recorder.tell(lambda t: _validated(t, "evaluate"), seed=seed) for seed in (0, 1)], pipeline="x")
    return check_run(golden, recorder.tell(lambda t: _validated(t, how)), same_spec=True)


@pytest.mark.parametrize("how", ["train alike", "train without clipping", "train in eval mode"])
def test_training_on_the_validation_set_is_one_incident_that_says_so(recorder: Recorder, how: str) -> None:
    incidents = _check_validated(recorder, how).incidents
    assert len(incidents) == 1, describe(incidents)
    assert "trains where the golden run evaluated" in incidents[0].cause.title
    assert incidents[0].consequences


def test_an_evaluation_that_was_taken_out_is_not_called_training_on_it(recorder: Recorder) -> None:
    (incident,) = _check_validated(recorder, "not at all").incidents
    assert "never calls it" in incident.cause.title


TWO_BUGS = {
    "a gradient that never arrives, clipping removed": ({"unreached": ("fc2.weight",), "clip": None}, {BACKWARD, CLIP}),
    "a gradient that never arrives, scheduler gone": (
        {"unreached": ("fc2.weight",), "schedule": "never"},
        {BACKWARD, f"{STEP_LR}.step"},
    ),
    "another learning rate, a gradient that never arrives": (
        {"lr": 0.5, "unreached": ("fc2.weight",)},
        {"torch.optim.AdamW", BACKWARD},
    ),
    "evaluation gone, zero_grad gone": (
        {"evaluate_after": (), "zero_grad": "never"},
        {"torch.nn.Module.forward", "torch.optim.AdamW.zero_grad"},
    ),
    "left in eval, another schedule": (
        {"back_to_train": False, "factor": 0.9},
        {"torch.nn.Module.train", "torch.optim.AdamW.lr"},
    ),
    "left in eval, average not updated": (
        {"back_to_train": False, "ema_moves": False},
        {"torch.nn.Module.train", "torch.nn.Parameter"},
    ),
    "clipping removed, ranks not in step": (
        {"clip": None, "synced": False},
        {CLIP, "torch.nn.Parameter across ranks (gradient)"},
    ),
}


@pytest.mark.parametrize("bugs", TWO_BUGS)
def test_two_bugs_planted_together_stay_two_incidents(recorder: Recorder, bugs: str) -> None:
    change, subjects = TWO_BUGS[bugs]
    loop = Loop(ema="ema_moves" in change, ranks=2 if "synced" in change else 1)
    incidents = recorder.check(recorder.golden(loop), loop.but(**change)).incidents
    assert {item.cause.invariant.subject for item in incidents} == subjects, describe(incidents)
    assert len(incidents) == 2, describe(incidents)
