"""A barrier moves no data: how often ranks wait for each other, and where, is no rule, as long as all of them do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from judgements import describe, rule
from training_story import BACKWARD, Recorder, Training

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.check.result import Verdict
from pytest_traincheck.infer import learn
from pytest_traincheck.relations.api_sequence import Order
from pytest_traincheck.relations.called import Called
from pytest_traincheck.relations.count import PerRun, PerStep
from pytest_traincheck.relations.periodic import CalledAfter

BARRIER = "torch.distributed.barrier"


def waiting(*at: str) -> Callable[[Training], None]:
    """Ranks wait for each other before every `step`, after every `evaluation`, or in the `end`."""

    def trains(t: Training) -> None:
        def wait(place: str) -> None:
            if place in at:
                with t.call(BARRIER, type="collective", args={"group": {"tuple": [0, 1]}}, line=13):
                    pass

        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(6):
            t.zero_grad(optimizer)
            t.forward(net)
            t.loss()
            t.backward(net)
            wait("step")
            t.step(optimizer)
            if step % 3 == 2:
                wait("evaluation")
        wait("end")

    return trains


@pytest.mark.parametrize("golden", [("step",), ("evaluation",), ("end",)])
@pytest.mark.parametrize("candidate", [(), ("step",), ("evaluation", "end")])
def test_how_often_ranks_wait_is_no_rule(recorder: Recorder, golden: tuple[str], candidate: tuple[str, ...]) -> None:
    learned = learn([recorder.tell(waiting(*golden), seed=seed, ranks=2) for seed in range(3)], pipeline="net")
    told = {item.relation for item in learned.invariants if item.subject == BARRIER}
    assert told == {"CollectiveOrder"}
    outcome = check_run(learned, recorder.tell(waiting(*candidate), ranks=2), same_spec=True)
    assert not outcome.incidents, describe(outcome.incidents)


def test_rules_about_waiting_that_were_learned_once_are_not_asked(recorder: Recorder) -> None:
    """Goldens may hold them."""
    learned = learn([recorder.tell(waiting("step"), seed=seed) for seed in range(3)], pipeline="net")
    some = rule(learned, "`torch.autograd.backward` is called exactly once in every training step.")
    called = Called(BARRIER)
    old = [
        replace(some, subject=BARRIER, claim=PerStep(called, "some")),
        replace(some, subject=BARRIER, claim=PerRun(called)),
        replace(some, relation="APISequence", subject=BARRIER, claim=Order((BACKWARD, BARRIER, "step"))),
        replace(some, relation="Periodic", subject=BARRIER, claim=CalledAfter(called, (3,), 6)),
    ]
    outcome = check_run(replace(learned, invariants=tuple(old)), recorder.tell(waiting()), same_spec=True)
    assert {item.verdict for item in outcome.verdicts} == {Verdict.NOT_TRIGGERED}
