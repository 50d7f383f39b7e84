"""A whole check of a run in which one process goes on with the training of another."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from continued_story import Part, tell
from training_story import Recorder

from pytest_traincheck.alignment.trainings import as_trainings, trainings
from pytest_traincheck.check.evaluate import CheckOutcome, check_run
from pytest_traincheck.golden.decode import decode
from pytest_traincheck.golden.encode import encode
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn
from pytest_traincheck.trace import Run, load_run

RIGHT = (Part(0, 4), Part(4, 8))


def record(recorder: Recorder, parts: Sequence[Part], *, seed: int = 7, ranks: int = 1) -> Run:
    return load_run(tell(recorder, parts, seed=seed, ranks=ranks))


def golden_of(recorder: Recorder, parts: Sequence[Part], *, ranks: int = 1) -> Golden:
    runs = [record(recorder, parts, seed=seed, ranks=ranks) for seed in (0, 1)]
    return learn(runs, pipeline="story", seeds=(0, 1))


def check(recorder: Recorder, golden: Golden, parts: Sequence[Part], *, ranks: int = 1) -> CheckOutcome:
    return check_run(golden, record(recorder, parts, ranks=ranks), same_spec=True)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("parts", [RIGHT, (Part(0, 3), Part(3, 6), Part(6, 9))], ids=["twice", "three times"])
def test_a_right_resume_is_one_training_and_silent(recorder: Recorder, parts: Sequence[Part], ranks: int) -> None:
    golden = golden_of(recorder, parts, ranks=ranks)
    assert golden.trainings == (0,) * len(parts)
    assert golden.steps == parts[-1].end
    assert [*golden.optimizers] == ["AdamW[Net]"]
    assert not check(recorder, golden, parts, ranks=ranks).incidents


@pytest.mark.parametrize(
    ("second", "relation"),
    [
        (Part(4, 8, keeps_state=False), "Carried"),
        (Part(4, 8, forgets=("fc2.weight",)), "Between"),
        (Part(4, 8, restores=False), "Between"),
    ],
    ids=["optimizer", "part of the model", "everything"],
)
def test_what_is_not_restored_is_told_at_the_first_resumed_step(
    recorder: Recorder, second: Part, relation: str
) -> None:
    outcome = check(recorder, golden_of(recorder, RIGHT), (Part(0, 4), second))
    cause = outcome.incidents[0].cause
    assert (cause.invariant.relation, cause.step) == (relation, 4), outcome.incidents


@pytest.mark.parametrize(
    "parts",
    [
        (Part(0, 4), Part(0, 4)),
        (Part(0, 4), Part(4, 8, restores=False)),
        (Part(0, 4), Part(4, 8, keeps_state=False)),
    ],
    ids=["trained twice", "begun anew", "begun with the weights alone"],
)
def test_trainings_that_do_not_go_on_stay_trainings_of_their_own(recorder: Recorder, parts: Sequence[Part]) -> None:
    run = record(recorder, parts)
    assert not trainings(run)
    assert as_trainings(run, ()) is run
    golden = golden_of(recorder, parts)
    assert not golden.trainings
    assert b"trainings" not in encode(golden)


def test_ranks_and_processes_at_the_same_time_do_not_go_on_with_each_other(recorder: Recorder) -> None:
    path = tell(recorder, RIGHT)
    for meta in path.glob("proc-*/meta.json"):
        content = json.loads(meta.read_text())
        meta.write_text(json.dumps(content | {"ended": 9.0}))
    assert not trainings(load_run(path))
    assert not trainings(record(recorder, [Part(0, 8)], ranks=2))


def test_processes_of_another_number_than_in_golden_are_left_as_they_are(recorder: Recorder) -> None:
    run = record(recorder, [Part(0, 8)])
    assert as_trainings(run, (0, 0)) is run


def test_a_golden_says_which_processes_are_one_training(recorder: Recorder) -> None:
    golden = golden_of(recorder, RIGHT)
    assert decode(encode(golden), "story.jsonl").trainings == (0, 0)
