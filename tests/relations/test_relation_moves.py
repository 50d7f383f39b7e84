"""Moves: trained weights move, frozen ones do not, an average follows, BatchNorm statistics move in training only."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judgements import broken, describe, rule, sentences, titles, violations
from trace_builder import NONZERO, Layer, digest_of
from training_story import DROPOUT, LINEAR, NORM, F, Loop, Recorder, Training

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.infer import learn
from pytest_traincheck.rules.model import Scope

torch = pytest.importorskip("torch")
from real_training import recorded  # noqa: E402

STATISTICS = ("norm.running_mean", "norm.running_var")
NORMALISED = Loop(layers=(LINEAR, NORM, DROPOUT), buffers=STATISTICS)
FOLLOWS = "Parameters that no optimizer holds change between two training steps."
STAYS = "Parameters that no optimizer holds do not change between two training steps."
BACKBONE = {"backbone.0.weight": (3, 3), "backbone.1.weight": (3, 3), "head.weight": (2, 3), "head.bias": (2,)}
FROZEN = Loop(parameters=BACKBONE, frozen=("backbone.0.weight", "backbone.1.weight"))


def test_what_an_optimizer_holds_is_the_business_of_its_step(recorder: Recorder) -> None:
    """A trained weight may stand still because its gradient cancels; `EventContain` knows about gradients."""
    assert not sentences(recorder.golden(Loop()), "Moves")


def test_an_average_follows_every_step(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(ema=True))
    assert rule(golden, FOLLOWS).examples == 30
    assert not recorder.check(golden, Loop(ema=True, seed=5)).incidents


def test_frozen_weights_stay(recorder: Recorder) -> None:
    golden = recorder.golden(FROZEN)
    assert rule(golden, STAYS).scope is Scope.TRANSFERABLE
    assert not recorder.check(golden, FROZEN.but(seed=9)).incidents


def test_a_frozen_weight_that_drifts(recorder: Recorder) -> None:
    def drifts(t: Training) -> None:
        net = t.model("Net", BACKBONE, frozen=FROZEN.frozen)
        optimizer = t.adamw([item for item in net.parameters.values() if item.requires_grad])
        for step in range(6):
            t.zero_grad(optimizer)
            t.forward(net)
            t.loss()
            t.backward(net)
            t.clip(optimizer)
            t.step(optimizer)
            t.schedule(optimizer)
            if step == 3:
                t.move(net.parameters["backbone.1.weight"])

    golden = recorder.golden(FROZEN)
    outcome = check_run(golden, recorder.tell(drifts), same_spec=True)
    violation = broken(outcome, STAYS)
    assert (violation.variables, violation.step) == (("Net.backbone.1.weight",), 4)
    assert "changes at step 4" in violation.title


def test_an_average_that_is_never_updated(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(ema=True))
    outcome = recorder.check(golden, Loop(ema=True, ema_moves=False))
    (incident,) = outcome.incidents
    assert incident.cause.invariant.relation == "Moves"
    assert set(incident.cause.variables) == {"Net#1.fc1.weight", "Net#1.fc1.bias", "Net#1.fc2.weight"}
    assert "a copy such as an EMA" in incident.cause.title


def test_statistics_move_in_training_and_rest_in_evaluation(recorder: Recorder) -> None:
    golden = recorder.golden(NORMALISED)
    assert rule(golden, "Buffers change in a forward pass, in training.").scope is Scope.TRANSFERABLE
    assert rule(golden, "Buffers do not change in a forward pass, in evaluation.")


def test_statistics_that_move_in_an_evaluation_are_a_consequence(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(NORMALISED), NORMALISED.but(eval_mode=False))
    violation = broken(outcome, "Buffers do not change in a forward pass, in evaluation.")
    assert (violation.step, violation.stage) == (3, "eval")
    assert set(violation.variables) == {f"Net.{name}" for name in STATISTICS}
    assert len(outcome.incidents) == 1, describe(outcome.incidents)
    assert outcome.incidents[0].cause.invariant.relation == "APIArg"


def test_what_moves_by_chance_has_no_rule(recorder: Recorder) -> None:
    """The average is updated when the data say so, at other steps under each seed."""

    def sometimes(t: Training) -> None:
        net = t.model()
        copy = t.model(frozen=tuple(net.parameters), layers=())
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(6):
            t.zero_grad(optimizer)
            t.forward(net)
            t.backward(net)
            t.step(optimizer)
            if (step + t.seed) % 2:
                for parameter in copy.parameters.values():
                    t.move(parameter)

    golden = learn([recorder.tell(sometimes, seed=seed) for seed in (0, 1)], pipeline="story")
    assert not sentences(golden, "Moves")


def test_a_longer_run_obeys_the_same_rules(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(NORMALISED), NORMALISED.but(steps=9, evaluate_after=(2, 5, 8)))
    assert {item.invariant.relation for item in violations(outcome)} == {"Total"}, describe(outcome.incidents)


def exchanged(t: Training, times: int = 2, *, odd: int = 0, average: bool = False) -> None:
    """A low-rank adapter is merged into frozen weights for an evaluation, and taken out again.

    Args:
        times: how often the merged weights change in evaluation.
        odd: how much more often one of them does.
        average: whether there is a model of its own that changes as well.
    """
    net = t.model("Net", BACKBONE, frozen=FROZEN.frozen)
    copy = t.model("Average", BACKBONE, frozen=tuple(BACKBONE), layers=()) if average else None
    optimizer = t.adamw([item for item in net.parameters.values() if item.requires_grad])
    t.mode(net, True)
    for _ in range(4):
        t.zero_grad(optimizer)
        t.forward(net)
        t.loss()
        t.backward(net)
        t.step(optimizer)
    t.mode(net, False)
    with t.no_grad():
        t.forward(net, line="evaluate")
        for index, name in enumerate(FROZEN.frozen):
            for number in range(times + odd * index):
                t.move(net.parameters[name], name, number)
        t.forward(net, line="evaluate")
        if copy is not None:
            for number in range(3):
                t.move(copy.parameters["head.bias"], number)


EXCHANGED = "Parameters of `Net` that no optimizer holds are seen to change twice outside training."


def test_weights_that_are_merged_for_an_evaluation_and_unmerged_after_it(recorder: Recorder) -> None:
    golden = recorder.learn(exchanged)
    assert rule(golden, EXCHANGED).scope is Scope.PINNED
    assert not violations(recorder.judge(golden, exchanged), "Moves")


def test_weights_that_stay_merged(recorder: Recorder) -> None:
    """An adapter that is merged and not taken out trains on top of itself."""
    outcome = recorder.judge(recorder.learn(exchanged), lambda t: exchanged(t, times=1))
    assert broken(outcome, EXCHANGED).title == (
        "`Net.backbone.0.weight`, `Net.backbone.1.weight` changed twice outside training in the golden run; in the "
        "candidate once: weights are merged, exchanged or restored differently."
    )


def test_weights_that_change_as_they_like_outside_training_are_no_rule(recorder: Recorder) -> None:
    assert EXCHANGED not in sentences(recorder.learn(lambda t: exchanged(t, odd=1)))
    by_seed = recorder.learn(lambda t: exchanged(t, times=1 + t.seed))
    assert not [line for line in sentences(by_seed) if "outside training" in line]


def test_a_candidate_that_exchanges_nothing_is_not_judged_by_the_exchange(recorder: Recorder) -> None:
    """What is never seen to change may be merged where no evaluation looks."""
    assert not violations(recorder.judge(recorder.learn(exchanged), lambda t: exchanged(t, times=0)), "Moves")


def test_an_average_of_its_own_is_no_exchange(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: exchanged(t, average=True))
    outside = [line for line in sentences(golden, "Moves") if "outside training" in line]
    assert outside == [EXCHANGED]


def in_parts(t: Training, *, still: str = "") -> None:
    """A model whose encoder and decoder are called by themselves, each with statistics of its own; those of `still`
    rest.
    """
    paths = ("encoder", "decoder")
    layers = tuple(Layer(path, "torch.nn.BatchNorm1d", F + "batch_norm") for path in paths)
    net = t.model(layers=layers, buffers=tuple(f"{path}.running_mean" for path in paths))
    optimizer = t.adamw(list(net.parameters.values()))
    for step in range(6):
        t.zero_grad(optimizer)
        for layer in net.layers:
            with t.call(layer.module, type="module", module=layer.number, training=True, entry=True):
                if layer.path != still:
                    name = f"{layer.path}.running_mean"
                    t.change(net.buffers[name], NONZERO, digest_of(t.seed, name, step))
        t.loss()
        t.backward(net)
        t.step(optimizer)


MOVES = "Buffers change in a forward pass, in training."


def test_a_part_that_is_called_by_itself_moves_its_own_statistics_only(recorder: Recorder) -> None:
    golden = recorder.learn(in_parts)
    assert rule(golden, MOVES).examples == 2 * 2 * 6, "one buffer for each call, not two"
    assert not recorder.judge(golden, in_parts).incidents
    violation = broken(recorder.judge(golden, lambda t: in_parts(t, still="decoder")), MOVES)
    assert (violation.variables, violation.count) == (("Net.decoder.running_mean",), 6)


def averaged(t: Training, rounds: tuple[int, ...] = (0, 1, 2), *, stops: int = 99, writes: int = -1) -> None:
    """An average of a student that is part of a larger model; its stem is frozen, and the optimizer holds it.

    Args:
        rounds: steps that move the average of the stem, by rounding.
        stops: a step from which the average follows no more.
        writes: a step behind which something is written into a parameter that nothing else moves.
    """
    parts = {"stem.weight": (4, 3), "head.weight": (2, 4)}
    student = {f"student.{name}": shape for name, shape in parts.items()}
    others = {"codes.used": (7,), "codes.fixed": (7,)}
    model = t.model("Distiller", {**student, **others}, frozen=("student.stem.weight", *others))
    average = t.model("Net", parts, frozen=tuple(parts), layers=())
    optimizer = t.adamw([model.parameters[name] for name in student])
    t.mode(model, True)
    for step in range(6):
        t.zero_grad(optimizer)
        t.forward(model)
        t.loss()
        t.backward(model)
        t.step(optimizer, without=("student.stem.weight",))
        t.move(model.parameters["codes.used"])
        if step < stops:
            t.move(average.parameters["head.weight"])
        if step in rounds:
            t.move(average.parameters["stem.weight"])
        if step == writes:
            t.move(model.parameters["codes.fixed"])


def test_the_average_of_what_stands_still_says_nothing(recorder: Recorder) -> None:
    golden = recorder.learn(averaged)
    assert not [text for text in sentences(golden, "Moves") if "Net.stem" in text or "in `Net`" in text]
    for rounds in [(), (3,), (0, 1, 2, 3, 4, 5)]:
        assert not recorder.judge(golden, lambda t, rounds=rounds: averaged(t, rounds)).incidents


def test_an_average_of_what_moves_is_told_beside_one_of_what_does_not(recorder: Recorder) -> None:
    outcome = recorder.judge(recorder.learn(averaged), lambda t: averaged(t, stops=0))
    assert [item.cause.variables for item in outcome.incidents] == [("Net.head.weight",)]
    assert "changed in every training step" in outcome.incidents[0].cause.title


def test_what_never_changed_is_told_in_the_step_in_which_it_does(recorder: Recorder) -> None:
    """Others of its model change all the time."""
    outcome = recorder.judge(recorder.learn(averaged), lambda t: averaged(t, writes=3))
    (found,) = violations(outcome, "Moves")
    assert (found.variables, found.step) == (("Distiller.codes.fixed",), 4)


class Normed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 1))

    def forward(self, x: Any) -> Any:
        return self.layers(x)


def following(until: int, seed: int) -> Callable[[], None]:
    """A training whose average, statistics included, is updated in the steps before `until`."""

    def run() -> None:
        torch.manual_seed(seed)
        net = Normed()
        average = copy.deepcopy(net).eval()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        for step in range(8):
            optimizer.zero_grad()
            net(torch.randn(12, 4)).square().mean().backward()
            optimizer.step()
            if step < until:
                with torch.no_grad():
                    for mine, theirs in zip(average.parameters(), net.parameters(), strict=True):
                        mine.lerp_(theirs, 0.1)
                    for mine, theirs in zip(average.buffers(), net.buffers(), strict=True):
                        mine.copy_(theirs)

    return run


def test_an_average_that_is_updated_no_more_is_one_incident(tmp_path: Path) -> None:
    """Its parameters and its statistics stay for one reason."""
    golden = learn([recorded(following(8, seed), tmp_path / str(seed)) for seed in (0, 1)], pipeline="a", seeds=(0, 1))
    outcome = check_run(golden, recorded(following(5, 3), tmp_path / "candidate"), same_spec=True)
    assert titles(outcome, "Moves")
    (incident,) = outcome.incidents
    assert "(in no optimizer: a copy such as an EMA)" in incident.cause.title
    assert {each.meaning.place.value for each in incident.violations} >= {"copy", "statistics"}
