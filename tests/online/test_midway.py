"""A training that goes on with one that nobody watched: how that began is not known, and nothing else is forgiven."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from continued_story import Part, process, take
from judgements import sentences
from late_story import FROZEN, GOLDEN_STEPS, PARAMETERS
from training_story import Recorder, Training

from pytest_traincheck.check.result import SideInfo
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.online.follow import Follower
from pytest_traincheck.workflow.against import Against
from pytest_traincheck.workflow.policy import NO_RULES
from pytest_traincheck.workflow.watching import Watch

FIRST = 20
"""Steps of the training that nobody watched."""


@pytest.fixture
def golden(recorder: Recorder) -> Golden:
    known = recorder.learn(lambda t: process(t, Part(0, GOLDEN_STEPS), {}))
    assert any("without any state" in text for text in sentences(known, "Restored"))
    return known


def unwatched(recorder: Recorder, second: Part, *, ranks: int = 1) -> Path:
    """The trace of the second process of a training alone."""
    path = recorder.path()
    for rank in range(ranks):
        values: dict[int, dict[str, tuple[int, int]]] = {}
        first = Training(recorder.path(), rank=rank, world_size=ranks, seed=7)
        process(first, Part(0, FIRST), values)
        t = Training(path, rank=rank, world_size=ranks, seed=7)
        t._moment = 10_000
        process(t, second, values)
        t.write(world_size=ranks)
    return path


def followed(path: Path, golden: Golden, *, piece: int = 67) -> tuple[Follower, dict[str, int]]:
    follower = Follower(path, golden, same_spec=True, other_length=True, piece=piece)
    told: dict[str, int] = {}
    while True:
        for incident in follower.advance():
            told.setdefault(incident.cause.title, incident.cause.step)
        if not follower.behind:
            break
    for incident in follower.advance(ended=True):
        told.setdefault(incident.cause.title, incident.cause.step)
    found = follower.finish()
    assert {incident.cause.title for incident in found.incidents} == {*told}, "taken back, or told too late"
    return follower, told


@pytest.mark.parametrize("steps", [3, GOLDEN_STEPS, 14, 200])
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("piece", [67, 10_000])
def test_it_is_silent_and_known(recorder: Recorder, golden: Golden, steps: int, ranks: int, piece: int) -> None:
    path = unwatched(recorder, Part(FIRST, FIRST + steps), ranks=ranks)
    follower, told = followed(path, golden, piece=piece)
    assert (told, follower.midway) == ({}, True)


@pytest.mark.parametrize("at", [1, 5, 12, 100])
def test_what_goes_wrong_in_it_is_told(recorder: Recorder, golden: Golden, at: int) -> None:
    second = Part(FIRST, FIRST + 120, wrong=FIRST + at, stays_wrong=True)
    _, told = followed(unwatched(recorder, second), golden)
    ((title, step),) = told.items()
    assert ("zero_grad" in title, step) == (True, at)


@pytest.mark.parametrize("second", [Part(0, 12), Part(FIRST, 32, keeps_state=False)], ids=["new", "without state"])
def test_a_training_without_an_optimizer_state_is_none(recorder: Recorder, golden: Golden, second: Part) -> None:
    assert not followed(unwatched(recorder, second), golden)[0].midway


@pytest.mark.parametrize(("kept", "decay"), [(False, 0.01), (True, 0.01), (True, 0.05)])
def test_an_optimizer_is_loaded_with_what_another_one_had(recorder: Recorder, kept: bool, decay: float) -> None:
    """A state without anything in it is none; settings that come with one were chosen by the training before."""

    def story(t: Training, steps: int, *, loads: bool) -> None:
        model = t.model("Net", PARAMETERS, frozen=FROZEN)
        held = [one for name, one in model.parameters.items() if name not in FROZEN]
        optimizer = t.adamw(held, weight_decay=decay if loads else 0.01)
        if loads:
            with t.call("torch.optim.AdamW.load_state_dict", type="mode", optimizer=optimizer.number):
                pass
        t.mode(model, True)
        for step in range(steps):
            take(t, model, optimizer, load=t.batch, clears=True, begins=step == 0, kept=loads and kept)

    golden = recorder.learn(lambda t: story(t, GOLDEN_STEPS, loads=False))
    path = recorder.path()
    t = Training(path, seed=5)
    story(t, 40, loads=True)
    t.write()
    follower, told = followed(path, golden)
    assert (told, follower.midway) == ({}, kept)


@pytest.mark.parametrize("steps", [GOLDEN_STEPS, 40])
@pytest.mark.parametrize("strict", [False, True])
def test_golden_s_own_command_may_go_on_by_itself(recorder: Recorder, golden: Golden, steps: int, strict: bool) -> None:
    """As where a job is queued again: the end says what was said on the way."""
    path = unwatched(recorder, Part(FIRST, FIRST + steps))
    against = Against(golden, None, True, False, replace(NO_RULES, strict=strict), SideInfo())
    watch = Watch(path, against, lambda incident, _: pytest.fail(incident.cause.title))
    watch._follower = Follower(path, golden, same_spec=True)
    result = watch.result(SideInfo())
    assert (watch.failure, result.errors, result.incidents) == ("", (), ())
    assert [warning.fails for warning in result.warnings if "not watched" in warning.title] == [strict]


def test_where_golden_goes_on_itself_nothing_is_taken_for_it(recorder: Recorder) -> None:
    values: dict[int, dict[str, tuple[int, int]]] = {}

    def story(t: Training) -> None:
        if not values:
            process(Training(recorder.path(), seed=7), Part(0, FIRST), values)
        process(t, Part(FIRST, FIRST + GOLDEN_STEPS), values)

    golden = recorder.learn(story)
    assert any("with restored state" in text for text in sentences(golden, "Restored"))
    follower, told = followed(unwatched(recorder, Part(FIRST, FIRST + 30)), golden)
    assert (told, follower.midway) == ({}, False)
    follower, told = followed(unwatched(recorder, Part(FIRST, FIRST + 30, keeps_state=False)), golden)
    assert any("state of the optimizer was not restored" in title for title in told)
