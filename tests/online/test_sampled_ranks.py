"""Ranks that sleep between steps, of which one wakes sooner than another: by something that it alone does."""

from __future__ import annotations

from pathlib import Path

import pytest
from judgements import sentences
from late_story import GOLDEN_STEPS, follow
from trace_builder import tensor
from training_story import Recorder, Training

REDUCE, BARRIER = "torch.distributed.all_reduce", "torch.distributed.barrier"
OBSERVED = {GOLDEN_STEPS + 2: 20, GOLDEN_STEPS + 4: 30, GOLDEN_STEPS + 6: 40}
"""Behind these steps the probe has slept, and what number the step has that comes next."""


def collective(t: Training, api: str = REDUCE, size: int = 12) -> None:
    given = {} if api == BARRIER else {"tensor": tensor(size)}
    with t.call(api, type="collective", args={**given, "group": {"tuple": [0, 1]}}, line=13):
        pass


def train(t: Training, steps: int, *, sooner: bool = False, wrong: int = -1) -> None:
    model = t.model()
    optimizer = t.adamw(list(model.parameters.values()))
    for step in range(steps):
        if step in OBSERVED:
            t.measure("steps.observed", float(OBSERVED[step]))
            if sooner:
                collective(t, BARRIER)
                collective(t, size=3)
        t.zero_grad(optimizer)
        t.batch()
        t.forward(model)
        t.loss()
        t.backward(model)
        collective(t, size=13 if step == wrong else 12)
        t.step(optimizer)
        if sooner and (step + 1 in OBSERVED or step + 1 == steps):
            collective(t, BARRIER)


def slept(recorder: Recorder, *, sooner: bool, wrong: int = -1) -> Path:
    path, steps = recorder.path(), GOLDEN_STEPS + 8
    for rank in range(2):
        t = Training(path, rank=rank, world_size=2, seed=5)
        train(t, steps, sooner=sooner and not rank, wrong=wrong if rank else -1)
        t.write(world_size=2, sampling={"steps": 42, "every": 10})
    return path


@pytest.mark.parametrize("sooner", [False, True])
@pytest.mark.parametrize("piece", [23, 10_000])
def test_what_one_rank_alone_has_seen_is_compared_with_nothing(recorder: Recorder, sooner: bool, piece: int) -> None:
    golden = recorder.learn(lambda t: train(t, GOLDEN_STEPS), ranks=2)
    assert sentences(golden, "CollectiveOrder")
    told, found = follow(slept(recorder, sooner=sooner), golden, piece=piece)
    assert not told
    assert found.steps == 42


@pytest.mark.parametrize(("wrong", "step"), [(GOLDEN_STEPS + 2, 20), (GOLDEN_STEPS + 5, 31)])
@pytest.mark.parametrize("piece", [23, 10_000])
def test_what_ranks_call_otherwise_in_a_step_is_told(recorder: Recorder, wrong: int, step: int, piece: int) -> None:
    golden = recorder.learn(lambda t: train(t, GOLDEN_STEPS), ranks=2)
    told, _ = follow(slept(recorder, sooner=True, wrong=wrong), golden, piece=piece)
    ((title, (incident, _)),) = told.items()
    assert "the same number of elements" in title
    assert incident.cause.step == step
