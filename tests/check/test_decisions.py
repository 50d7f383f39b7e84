"""What was decided separately is an incident of its own, and an id stands for the value that a person was shown."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from judgements import describe
from training_story import Loop, Recorder, Training

from pytest_traincheck.check.evaluate import CheckOutcome
from pytest_traincheck.check.result import Incident, Verdict
from pytest_traincheck.config import Accept
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.workflow.policy import Rules, judge

DAY = datetime.date(2026, 6, 1)


@dataclass(frozen=True)
class WarmUp:
    """Two groups whose rates rise over `warm` steps to `lr`, times what `more` puts into the groups."""

    lr: tuple[float, float] = (0.003, 0.0003)
    warm: tuple[int, int] = (3, 3)
    more: tuple[tuple[str, float], ...] = ()
    steps: int = 6

    def tell(self, t: Training) -> None:
        net = t.model()
        parameters = list(net.parameters.values())
        hyper: list[dict[str, Any]] = [{"lr": lr, **{name: lr * share for name, share in self.more}} for lr in self.lr]
        optimizer = t.optimizer("torch.optim.SGD", [parameters[:1], parameters[1:]], hyper)
        for step in range(self.steps):
            # What a scheduler of any sort does, or a line in the loop.
            optimizer.rates[:] = [lr * min(1.0, (step + 1) / warm) for lr, warm in zip(self.lr, self.warm, strict=True)]
            t.zero_grad(optimizer)
            t.forward(net)
            t.backward(net)
            t.step(optimizer)


ONE = WarmUp(lr=(0.003, 0.003))


def check(recorder: Recorder, golden: WarmUp, candidate: WarmUp) -> CheckOutcome:
    return recorder.judge(learned(recorder, golden), candidate.tell)


def learned(recorder: Recorder, golden: WarmUp) -> Golden:
    return recorder.learn(golden.tell)


@pytest.mark.parametrize(
    ("golden", "candidate", "decisions"),
    [
        (ONE, ONE, 0),
        (ONE, WarmUp(lr=(0.002, 0.002)), 1),
        (ONE, WarmUp(lr=ONE.lr, warm=(300, 300)), 1),
        (ONE, WarmUp(lr=(0.002, 0.002), warm=(300, 300)), 2),
        (ONE, WarmUp(lr=ONE.lr, steps=4), 0),
        (ONE, WarmUp(lr=ONE.lr, steps=9), 0),
        (WarmUp(), WarmUp(lr=(0.002, 0.0002)), 1),
        (WarmUp(), WarmUp(lr=(0.003, 0.002)), 1),
        (WarmUp(), WarmUp(lr=(0.002, 0.5)), 2),
        (WarmUp(), WarmUp(warm=(3, 8)), 1),
        (WarmUp(), WarmUp(warm=(8, 8)), 1),
        (WarmUp(), WarmUp(warm=(8, 30)), 2),
        (WarmUp(), WarmUp(lr=(0.002, 0.0002), warm=(8, 8)), 2),
        (WarmUp(), WarmUp(lr=(0.0003, 0.003)), 1),
    ],
    ids=[
        "the same", "one rate", "warm-up", "one rate and warm-up", "shorter", "longer", "both groups by one factor",
        "one group", "each group by itself", "warm-up of one group", "warm-up of both", "each warm-up by itself",
        "both groups and warm-up", "groups exchanged",
    ],
)  # fmt: skip
def test_each_decision_is_one_incident(recorder: Recorder, golden: WarmUp, candidate: WarmUp, decisions: int) -> None:
    outcome = check(recorder, golden, candidate)
    # How long a run is has a rule of its own.
    incidents = [item for item in outcome.incidents if item.cause.invariant.relation != "Total"]
    assert len(incidents) == decisions, describe(incidents)


def test_the_rates_that_a_scheduler_derives_are_one_decision(recorder: Recorder) -> None:
    """`OneCycleLR` writes `max_lr` and `min_lr` into the groups; the course is told by `max_lr`."""
    derived = (("max_lr", 1.0), ("min_lr", 4e-6))
    golden = WarmUp(lr=(0.003, 0.003), more=derived)
    outcome = check(recorder, golden, WarmUp(lr=(0.002, 0.002), more=derived))
    (incident,) = outcome.incidents
    assert {item.invariant.claim.name for item in incident.violations} == {"lr", "max_lr", "min_lr"}
    assert (
        len(check(recorder, golden, WarmUp(lr=(0.003, 0.003), more=(("max_lr", 1.0), ("min_lr", 1e-3)))).incidents) == 1
    )
    outcome = check(recorder, golden, WarmUp(lr=(0.002, 0.002), more=(("max_lr", 1.0), ("min_lr", 1e-3))))
    assert len(outcome.incidents) == 2, describe(outcome.incidents)


def identities(incidents: Sequence[Incident]) -> set[str]:
    return {incident.id for incident in incidents}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (WarmUp(lr=(0.002, 0.002)), WarmUp(lr=(0.0001, 0.0001))),
        (WarmUp(lr=ONE.lr, warm=(300, 300)), WarmUp(lr=ONE.lr, warm=(30, 30))),
        # The same at the first step that differs, and another course after it.
        (WarmUp(lr=ONE.lr, warm=(4, 4)), WarmUp(lr=ONE.lr, warm=(4, 5))),
        # One group was accepted, and then the other changed as well.
        (WarmUp(lr=(0.002, 0.003)), WarmUp(lr=(0.002, 0.002))),
    ],
    ids=["rate", "warm-up", "later step", "other group"],
)
def test_another_value_is_another_incident(recorder: Recorder, one: WarmUp, other: WarmUp) -> None:
    first, again, second = (identities(check(recorder, ONE, item).incidents) for item in (one, one, other))
    assert first == again
    assert not second <= first


def test_a_change_of_course_keeps_its_id_when_the_base_changes_too(recorder: Recorder) -> None:
    (course,) = check(recorder, ONE, WarmUp(lr=ONE.lr, warm=(300, 300))).incidents
    (base,) = check(recorder, ONE, WarmUp(lr=(0.002, 0.002))).incidents
    both = check(recorder, ONE, WarmUp(lr=(0.002, 0.002), warm=(300, 300))).incidents
    assert identities(both) == {course.id, base.id}


def excused(outcome: CheckOutcome, *entries: Accept) -> tuple[list[str], tuple[str, ...]]:
    judged = judge(outcome.verdicts, outcome.incidents, Rules(entries, {}, DAY))
    accepted = [item.invariant.sentence for item in judged.verdicts if item.verdict is Verdict.ACCEPTED]
    assert bool(accepted) != bool(judged.incidents)
    return accepted, judged.notes


def test_an_exception_with_a_value_is_for_that_value(recorder: Recorder) -> None:
    golden = learned(recorder, ONE)
    smaller = recorder.judge(golden, WarmUp(lr=(0.002, 0.002)).tell)
    (incident,) = smaller.incidents
    rule = incident.cause.invariant
    entry = Accept(rule.id, "vision", "tuned", DAY, "0.002")
    assert excused(smaller, entry) == ([rule.sentence], ())
    other = recorder.judge(golden, WarmUp(lr=(0.0001, 0.0001)).tell)
    assert excused(other, entry) == (
        [],
        (f"vision accepted 0.002 for {rule.id} (torch.optim.SGD) until {DAY}; it is 0.0001 now",),
    )
    assert excused(other, Accept(rule.id, "vision", "tuned", DAY)) == ([rule.sentence], ())


def test_an_incident_without_its_root_has_the_id_of_what_is_left(recorder: Recorder) -> None:
    """The exception is for the cause. What it excused is not what an id stands for that is shown beside it."""
    outcome = recorder.check(recorder.golden(Loop()), Loop(schedule="never"))
    incident = next(item for item in outcome.incidents if item.consequences)
    entry = Accept(incident.cause.invariant.id, "vision", "known", DAY)
    (left,) = judge(outcome.verdicts, [incident], Rules((entry,), {}, DAY)).incidents
    assert left.cause == incident.consequences[0]
    assert left.id != incident.id


def test_two_arguments_of_one_call_are_two_decisions(recorder: Recorder) -> None:
    def clipped(t: Training, norm: float, kind: float) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for _ in range(6):
            t.zero_grad(optimizer)
            t.forward(net)
            t.backward(net)
            with t.call("torch.nn.utils.clip_grad_norm_", type="clip", args={"max_norm": norm, "norm_type": kind}):
                pass
            t.step(optimizer)

    golden = recorder.learn(lambda t: clipped(t, 1.0, 2.0))
    for norm, kind, decisions in ((1.0, 2.0, 0), (5.0, 2.0, 1), (1.0, 1.0, 1), (5.0, 1.0, 2)):
        outcome = recorder.judge(golden, lambda t, norm=norm, kind=kind: clipped(t, norm, kind))
        assert len(outcome.incidents) == decisions, describe(outcome.incidents)


def test_which_parameters_were_frozen_is_part_of_what_is_accepted(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    names = list(Loop().parameters)
    one = recorder.check(golden, Loop(frozen=(names[0],)))
    two = recorder.check(golden, Loop(frozen=(names[0], names[1])))
    assert one.incidents
    assert identities(one.incidents).isdisjoint(identities(two.incidents))


def clients(t: Training, rates: Sequence[float]) -> None:
    """Two steps for each client, with an optimizer of its own."""
    net = t.model()
    for rate in rates:
        optimizer = t.optimizer("torch.optim.SGD", [list(net.parameters.values())], [{"lr": rate}])
        for _ in range(2):
            t.zero_grad(optimizer)
            t.forward(net)
            t.backward(net)
            t.step(optimizer)


@pytest.mark.parametrize(
    ("rates", "decisions"),
    [((0.2, 0.16, 0.128, 0.1024), 1), ((0.2, 0.15, 0.16, 0.08), 2)],
    ids=["falls more often", "two by themselves"],
)
def test_a_rate_that_falls_more_often_is_one_decision(
    recorder: Recorder, rates: Sequence[float], decisions: int
) -> None:
    golden = recorder.learn(lambda t: clients(t, (0.2, 0.2, 0.16, 0.16)))
    outcome = recorder.judge(golden, lambda t: clients(t, rates))
    assert len(outcome.incidents) == decisions, describe(outcome.incidents)
