"""Collectives of ranks that go on from what one of them saved."""

from __future__ import annotations

import pytest
from continued_story import load, save, take
from judgements import sentences
from late_story import FROZEN, GOLDEN_STEPS, PARAMETERS, follow
from trace_builder import ABSENT, tensor
from training_story import Recorder, Training

Values = dict[str, dict[str, tuple[int, int]]]
SAVED = 20
"""The step before which the first rank saves."""


def train(t: Training, begin: int, end: int, left: Values, *, wrong: bool = False) -> None:
    """Steps of a model. Random states of all ranks are gathered, as an object is: its size, then itself, and in every
    step a number.
    """
    model = t.model("Net", PARAMETERS, frozen=FROZEN)
    optimizer = t.adamw([one for name, one in model.parameters.items() if name not in FROZEN])
    if begin:
        for parameter in model.parameters.values():
            t.change(parameter.gradient, ABSENT, 0)
        with t.call("torch.load", type="io"):
            pass
        load(t, model, left["model"], ())
        with t.call("torch.optim.AdamW.load_state_dict", type="mode", optimizer=optimizer.number):
            pass
    t.mode(model, True)
    for step in range(begin, end):
        if step in (1, SAVED) and step != begin:
            gather(t, 1)
            gather(t, 96)
            if t.rank == 0 and step == SAVED:
                left["model"] = {
                    name: (t.state(p.variable), t.digest(p.variable)) for name, p in model.parameters.items()
                }
                save(t, model, exchanges=False)
            gather(t, 3)  # all wait for the one that saves
        take(t, model, optimizer, load=t.batch, clears=True, begins=step == begin, kept=begin > 0)
        gather(t, 7 if wrong and t.rank and step == 40 else 5)


def gather(t: Training, size: int) -> None:
    args = {"group": "default", "tensor": {"list": [tensor(size)] * 2}}
    with t.call("torch.distributed.all_gather", type="collective", args=args):
        pass


@pytest.mark.parametrize("ends", [30, SAVED + 1])
@pytest.mark.parametrize("wrong", [True, False])
def test_what_ranks_exchange_is_compared_from_the_resume_on(recorder: Recorder, ends: int, wrong: bool) -> None:
    """Of the rank that saves it is known what it exchanged before that, and of others what they did at their end."""
    golden = recorder.learn(lambda t: train(t, 0, GOLDEN_STEPS, {}), ranks=2)
    assert any("same number of elements" in text for text in sentences(golden, "CollectiveOrder"))
    path, left = recorder.path(), Values()
    for number, (begin, end) in enumerate([(0, ends), (SAVED, 60)]):
        for rank in range(2):
            t = Training(path, rank=rank, world_size=2, seed=7, started=1.0 + number)
            t._moment = 10_000 * number
            train(t, begin, end, left, wrong=wrong and begin > 0)
            t.write(finished=True, ended=1.5 + number, world_size=2)
    found = follow(path, golden)[1]
    steps = [incident.cause.step for incident in found.incidents]
    assert steps == [41] * wrong, [incident.cause.title for incident in found.incidents]
