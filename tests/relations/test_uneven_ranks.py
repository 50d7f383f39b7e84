"""Ranks with other numbers of batches: who has no more data waits for the others, and has from them what they have."""

from __future__ import annotations

import numpy as np
import pytest
from judgements import describe, sentences, titles
from training_story import Recorder
from uneven_story import REDUCE, Uneven

from pytest_traincheck.trace.side_by_side import side_by_side

TOGETHER = f"If one rank calls `{REDUCE}`, all ranks of its process group do, in the same order."
GRADIENTS = "Gradients are equal on all ranks when an optimizer step begins."
PARAMETERS = "Parameters are equal on all ranks after every optimizer step."
STEPS = "`torch.optim.AdamW.step` is called exactly 6 times in a run by the rank with most steps."
UNTOUCHED = "Between two optimizer steps nothing is written into the trained parameters of `Net`."


def test_steps_stand_side_by_side_from_each_wait_on(recorder: Recorder) -> None:
    run = recorder.tell(Uneven((3, 2)), ranks=2)
    beside = side_by_side(run, (0, 1))
    assert [mine.tolist() for mine in beside.windows] == [[0, 1, 3, 4], [0, 1, 2, 3]]
    first, second = (process.lead_steps for process in run.processes)
    # The third step of the first rank has nothing beside it, and neither has what the second did until it ended.
    assert beside.together(0, np.array([first[1].begin, first[2].begin, first[3].begin])).tolist() == [
        True,
        False,
        True,
    ]
    waited = int(run.processes[1].events["seq"][run.processes[1].measures("ranks.waited")[0]])
    assert beside.together(1, np.array([waited - 1, second[2].begin])).tolist() == [False, True]


def test_without_a_wait_steps_are_taken_as_they_come(recorder: Recorder) -> None:
    run = recorder.tell(Uneven((3, 2), waits=False), ranks=2)
    beside = side_by_side(run, (0, 1))
    assert [mine.tolist() for mine in beside.windows] == [[0, 1, 2, 3], [0, 1, 2, 3]]
    assert beside.together(0, np.arange(5)).all()


def test_what_ranks_share_is_learned_of_the_steps_that_all_take(recorder: Recorder) -> None:
    golden = recorder.learn(Uneven(), ranks=2)
    assert {TOGETHER, GRADIENTS, PARAMETERS, UNTOUCHED} <= set(sentences(golden))
    assert "`torch.optim.AdamW.step` is called exactly 6 times in a run by the rank with most steps." in sentences(
        golden
    )


@pytest.mark.parametrize("batches", [(3, 2), (3, 1), (2, 3), (3, 3)])
@pytest.mark.parametrize("learned", [(3, 2), (3, 3)])
def test_who_ends_earlier_is_no_rule(recorder: Recorder, learned: tuple[int, int], batches: tuple[int, int]) -> None:
    golden = recorder.learn(Uneven(learned), ranks=2)
    outcome = recorder.judge(golden, Uneven(batches), ranks=2)
    # On how much the model is trained in all is one.
    others = [incident for incident in outcome.incidents if "or more examples" not in incident.cause.title]
    assert not others, describe(others)
    assert bool(outcome.incidents) == (sum(batches) < sum(learned))


@pytest.mark.parametrize("learned", [(3, 2), (3, 3)])
def test_a_rank_that_is_never_synchronised(recorder: Recorder, learned: tuple[int, int]) -> None:
    golden = recorder.learn(Uneven(learned), ranks=2)
    outcome = recorder.judge(golden, Uneven(apart_since=0), ranks=2)
    assert any(title.startswith("Gradients were equal on all ranks") for title in titles(outcome, "Consistent"))


def test_a_training_without_the_wait_is_no_shorter(recorder: Recorder) -> None:
    golden = recorder.learn(Uneven(), ranks=2)
    outcome = recorder.judge(golden, Uneven(waits=False, apart_since=0), ranks=2)
    assert not titles(outcome, "Total")
    assert titles(outcome, "Consistent")


def test_a_training_of_fewer_epochs_is_shorter(recorder: Recorder) -> None:
    outcome = recorder.judge(recorder.learn(Uneven(), ranks=2), Uneven(epochs=1), ranks=2)
    assert "ends early" in titles(outcome, "Total")[0]


def test_a_rank_that_leaves_an_exchange_out(recorder: Recorder) -> None:
    golden = recorder.learn(Uneven(), ranks=2)
    outcome = recorder.judge(golden, Uneven(without=(1, 1)), ranks=2)
    assert "nothing on rank 1" in " ".join(titles(outcome, "CollectiveOrder"))
