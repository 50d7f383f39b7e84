"""A training that another process goes on with is one training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from continued_story import Data, Part, process, tell
from judgements import sentences
from late_story import GOLDEN_STEPS, follow
from thinned import thin
from training_story import Recorder, Training

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.check.result import Verdict
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn
from pytest_traincheck.online.ending import MOST, Ending
from pytest_traincheck.online.ending_file import read, write
from pytest_traincheck.online.findings import TOLD_BEFORE
from pytest_traincheck.online.follow import Followed, Follower
from pytest_traincheck.online.launch_group import STRETCH
from pytest_traincheck.optimizer_label import models_in
from pytest_traincheck.trace import Run, load_run
from pytest_traincheck.trace.as_one import goes_on as goes_on_from
from pytest_traincheck.trace.errors import TraceError


@pytest.fixture
def golden(recorder: Recorder) -> Golden:
    def story(t: Training) -> None:
        process(t, Part(0, GOLDEN_STEPS), {})

    known = recorder.learn(story)
    assert sentences(known, "Carried")
    assert sentences(known, "Between")
    assert sentences(known, "Distinct")
    return known


@pytest.mark.parametrize(
    "parts",
    [
        [Part(0, 20), Part(20, 40)],
        [Part(0, 20), Part(20, 40), Part(40, 100)],
        [Part(0, 3), Part(3, 40)],
        [Part(0, 25, killed=True, saves=[20]), Part(20, 40)],
        [Part(0, 150, killed=True, saves=[20, 140]), Part(20, 220)],
        [Part(0, 20, killed=True, saves=[4, 15]), Part(4, 40)],
        [Part(0, 5, killed=True, saves=[3]), Part(3, 40)],
        [Part(0, 25, killed=True, saves=[20]), Part(20, 24, killed=True), Part(20, 90)],
    ],
    ids=[
        "twice", "three times", "within golden's steps", "killed", "killed long after it was saved",
        "back to golden's steps", "killed within golden's steps", "killed before it was saved again",
    ],
)  # fmt: skip
@pytest.mark.parametrize("piece", [67, 10_000])
def test_a_training_that_goes_on_in_another_process_is_one(
    recorder: Recorder, golden: Golden, parts: Sequence[Part], piece: int
) -> None:
    told, found = follow(tell(recorder, parts), golden, piece=piece)
    assert not told
    assert found.steps == parts[-1].end


@pytest.mark.parametrize(
    ("first", "at"), [(Part(0, 20), 20), (Part(0, 90, killed=True, saves=[71]), 71), (Part(0, 9), 9)]
)
def test_what_the_second_process_did_not_restore_is_told_at_its_first_step(
    recorder: Recorder, golden: Golden, first: Part, at: int
) -> None:
    without_state = [first, Part(at, at + 20, keeps_state=False)]
    ((title, (incident, _)),) = follow(tell(recorder, without_state), golden)[0].items()
    assert (incident.cause.invariant.relation, incident.cause.step) == ("Carried", at), title
    in_part = [first, Part(at, at + 20, forgets=("fc2.weight",))]
    ((title, (incident, _)),) = follow(tell(recorder, in_part), golden)[0].items()
    assert "without what `Net.fc2.weight` had: a resume restored only the others" in title
    assert incident.cause.step == at


@pytest.mark.parametrize("first", [Part(0, 20, exchanges=True), Part(0, 25, killed=True, saves=[20], exchanges=True)])
@pytest.mark.parametrize("saves_averages", [True, False])
@pytest.mark.parametrize("keeps_state", [True, False])
def test_what_was_saved_counts_where_averages_were_seen_in_its_place(
    recorder: Recorder, golden: Golden, first: Part, saves_averages: bool, keeps_state: bool
) -> None:
    """An evaluation of averages stands before what is saved, and nobody has looked at the parameters since."""
    first = replace(first, saves_averages=saves_averages)
    told, found = follow(tell(recorder, [first, Part(20, 40, keeps_state=keeps_state)]), golden)
    assert [incident.cause.step for incident, _ in told.values()] == ([] if keeps_state else [20])
    assert found.steps == 40


def of_data(recorder: Recorder, parts: Sequence[Part], data: Data, *, piece: int) -> tuple[list[str], list[str]]:
    """What is told while parts of a training with such data are followed, and what in the end."""
    golden = recorder.learn(lambda t: process(t, Part(0, GOLDEN_STEPS, data=replace(data, forgets=False)), {}))
    assert sentences(golden, "Distinct")
    told, found = follow(tell(recorder, [replace(part, data=data) for part in parts]), golden, piece=piece)
    return [*told], [incident.cause.title for incident in found.incidents]


@pytest.mark.parametrize("end", [24, 27, 60, 160])
@pytest.mark.parametrize("piece", [67, 211, 10_000])
@pytest.mark.parametrize("augmented", [False, True])
def test_an_order_that_begins_again_is_told_whenever_one_looks(
    recorder: Recorder, end: int, piece: int, augmented: bool
) -> None:
    data = Data(epoch=7, forgets=True, augmented=augmented)
    told, found = of_data(recorder, [Part(0, 22), Part(22, end)], data, piece=piece)
    assert ["the same as in step 0" in title for title in told] == [True], told
    assert found == told


@pytest.mark.parametrize(
    ("data", "at"),
    [
        (Data(epoch=7), 22),
        (Data(epoch=7), 21),
        (Data(epoch=40), 22),
        (Data(epoch=40), 4),
        (Data(epoch=40, shuffled=False), 22),
        (Data(epoch=40, shuffled=False), 62),
        (Data(epoch=43, shuffled=False), 86 - STRETCH),
    ],
    ids=[
        "a later epoch", "its beginning", "the first epoch", "golden's steps", "in order", "in order, a later epoch",
        "in order, an epoch begins with the second stretch",
    ],
)  # fmt: skip
@pytest.mark.parametrize("piece", [67, 10_000])
@pytest.mark.parametrize("augmented", [False, True])
def test_batches_that_are_loaded_to_get_behind_them_are_no_order_that_begins_again(
    recorder: Recorder, data: Data, at: int, piece: int, augmented: bool
) -> None:
    data = replace(data, augmented=augmented)
    assert of_data(recorder, [Part(0, at), Part(at, at + 80)], data, piece=piece) == ([], [])


def test_whole_traces_are_one_training_where_averages_were_seen_last(recorder: Recorder) -> None:
    raw = load_run(tell(recorder, [Part(0, 20, exchanges=True), Part(20, 40)])).processes
    assert goes_on_from(raw[0].raw, raw[1].raw)
    raw = load_run(tell(recorder, [Part(0, 20, exchanges=True), Part(20, 40, restores=False)])).processes
    assert not goes_on_from(raw[0].raw, raw[1].raw)


def test_what_goes_wrong_in_the_second_process_is_told_at_the_step_of_the_whole_training(
    recorder: Recorder, golden: Golden
) -> None:
    told, found = follow(tell(recorder, [Part(0, 30), Part(30, 60, wrong=50)]), golden, piece=67)
    ((title, (incident, _)),) = told.items()
    assert "zero_grad" in title
    assert incident.cause.step == 50
    assert found.steps == 60


def test_a_process_that_waits_for_what_it_goes_on_with_is_not_held_in_memory(
    recorder: Recorder, golden: Golden
) -> None:
    path = tell(recorder, [Part(0, 60), Part(60, 120)])
    follower = Follower(path, golden, same_spec=False, piece=67)
    held = 0
    while not follower.advance(ended=True) and follower.behind:
        waiting = [len(seen.rows()) for seen in follower._known.values() if seen.rank is None]
        held = max([held, *waiting])
    found = follower.finish()
    assert not found.incidents
    assert found.steps == 120
    assert 0 < held <= 200


def test_what_went_wrong_in_steps_that_are_taken_once_more_stays_told(recorder: Recorder, golden: Golden) -> None:
    told, found = follow(
        tell(recorder, [Part(0, 30, killed=True, wrong=27, saves=[20]), Part(20, 60)]), golden, piece=67
    )
    assert [incident.cause.step for incident in found.incidents] == [27]
    assert len(told) == 1


def test_several_ranks_go_on_together(recorder: Recorder) -> None:
    known = recorder.learn(lambda t: process(t, Part(0, GOLDEN_STEPS), {}), ranks=2)
    told, found = follow(tell(recorder, [Part(0, 25, killed=True, saves=[20]), Part(20, 90)], ranks=2), known, piece=67)
    assert not told
    assert found.steps == 90


@pytest.mark.parametrize("copies", [(), (2,)], ids=["later", "in golden's steps"])
@pytest.mark.parametrize("keeps_state", [True, False])
@pytest.mark.parametrize("piece", [67, 10_000])
def test_ranks_of_which_one_alone_copies_the_model_go_on_together(
    recorder: Recorder, copies: tuple[int, ...], keeps_state: bool, piece: int
) -> None:
    """What goes on has another number on each of them."""
    known = recorder.learn(lambda t: process(t, Part(0, GOLDEN_STEPS, copies=copies), {}), ranks=2)
    parts = [Part(0, 25, copies=(*copies, 15, 20)), Part(25, 90, copies=(40,), keeps_state=keeps_state)]
    told, found = follow(tell(recorder, parts, ranks=2), known, piece=piece)
    assert found.steps == 90
    assert [incident.cause.step for incident, _ in told.values()] == ([] if keeps_state else [25]), [*told]
    assert all("it takes a step without any state" in title for title in told)


def test_golden_knows_a_model_that_goes_on_by_its_name_on_each_rank(recorder: Recorder) -> None:
    """Golden itself goes on in another process, and one rank alone has copied the model before."""

    def story(seed: int) -> Run:
        parts = [Part(0, 4, copies=(2,)), Part(4, GOLDEN_STEPS, copies=(5,))]
        return load_run(tell(recorder, parts, ranks=2, seed=seed))

    golden = learn([story(0), story(1)], pipeline="two", seeds=(0, 1))
    assert golden.trainings
    outcome = check_run(golden, story(7), same_spec=True)
    assert not outcome.incidents
    models = {name for label in golden.optimizers for name in models_in(label)}
    assert models == {"Net"}


def test_a_process_that_begins_anew_is_a_training_of_its_own(recorder: Recorder, golden: Golden) -> None:
    told, found = follow(tell(recorder, [Part(0, 20), Part(20, 50, restores=False)]), golden)
    assert not told
    assert found.steps == 30


def ended(path: Path, golden: Golden) -> Ending:
    follower = Follower(path, golden, same_spec=True, other_length=True)
    follower.advance(ended=True)
    follower.finish()
    ending = follower.ending()
    assert ending is not None
    return ending


def goes_on(path: Path, golden: Golden, ending: Ending) -> Followed:
    follower = Follower(path, golden, same_spec=False, told=ending)
    while follower.advance(ended=True) is not None and follower.behind:
        pass
    return follower.finish()


def apart(recorder: Recorder, parts: Sequence[Part]) -> list[Path]:
    """The traces of the same processes, in a directory for each."""
    whole = tell(recorder, parts)
    found = []
    for number, directory in enumerate(sorted(whole.glob("proc-*"))):
        place = recorder.path()
        place.mkdir()
        directory.rename(place / directory.name)
        found.append(place)
        assert number < len(parts)
    return found


@pytest.mark.parametrize(("second", "step"), [(Part(20, 60), -1), (Part(20, 60, keeps_state=False), 20)])
def test_a_training_goes_on_with_a_file_of_what_another_one_has_left(
    recorder: Recorder, golden: Golden, tmp_path: Path, second: Part, step: int
) -> None:
    first, then = apart(recorder, [Part(0, 25, killed=True, saves=[20]), second])
    write(tmp_path / "state.npz", ended(first, golden))
    for file in first.glob("proc-*/*"):
        file.unlink()
    ending = read(tmp_path / "state.npz")
    assert ending.observed == 25
    found = goes_on(then, golden, ending)
    assert [incident.cause.step for incident in found.incidents] == ([step] if step > 0 else [])
    assert found.steps == 60


@pytest.mark.parametrize("more", [-1, 0, 1, STRETCH])
@pytest.mark.parametrize("killed", [True, False])
def test_a_training_that_ends_where_its_steps_were_let_go_of_is_gone_on_with_there(
    recorder: Recorder, golden: Golden, more: int, killed: bool
) -> None:
    """Nothing is there any more of the last step, and what was saved behind it was saved behind that step."""
    end = GOLDEN_STEPS + STRETCH + more
    at = end - 1 if killed else end
    first, then = apart(recorder, [Part(0, end, killed=killed, saves=[at] if killed else ()), Part(at, at + 20)])
    ending = ended(first, golden)
    assert ending.steps == at
    assert max(saved.steps for saved in ending.ranks[0].saved) == end
    follower = Follower(then, golden, same_spec=False, told=ending)
    while follower.advance(ended=True) is not None and follower.behind:
        pass
    found = follower.finish()
    assert not found.incidents
    assert [resume.steps for resume in follower.resumes] == [at]
    assert found.steps == at + 20


@pytest.mark.parametrize(
    ("second", "told", "reasons"),
    [
        (Part(20, 60, wrong=20, stays_wrong=True), [], {TOLD_BEFORE}),
        (Part(20, 160, wrong=100, stays_wrong=True), [100], {""}),
        (Part(20, 60), [], set()),
    ],
    ids=["as before", "anew", "no more"],
)
def test_what_is_broken_as_it_was_told_before_says_so(
    recorder: Recorder, golden: Golden, second: Part, told: Sequence[int], reasons: set[str]
) -> None:
    first, then = apart(recorder, [Part(0, 20, wrong=12, stays_wrong=True), second])
    ending = ended(first, golden)
    assert ending.broken
    found = goes_on(then, golden, ending)
    assert [incident.cause.step for incident in found.incidents] == told
    assert {item.reason for item in found.verdicts if item.verdict is Verdict.VIOLATED} == reasons


@pytest.mark.parametrize(("end", "state", "step"), [(75, True, -1), (70, True, -1), (75, False, 28)])
def test_steps_are_counted_on_where_not_each_is_observed(
    recorder: Recorder, golden: Golden, end: int, state: bool, step: int
) -> None:
    """The first process saves behind steps that were not observed, and so does the second."""
    first, then = apart(recorder, [Part(0, 28), Part(28, end, keeps_state=state)])
    for path in (first, then):
        thin(load_run(path), GOLDEN_STEPS + 2, 7)
    ending = ended(first, golden)
    assert ending.steps == 28
    follower = Follower(then, golden, same_spec=False, told=ending)
    while follower.advance(ended=True) is not None and follower.behind:
        pass
    found = follower.finish()
    assert [incident.cause.step for incident in found.incidents] == ([step] if step > 0 else [])
    assert found.steps == end
    assert [resume.steps for resume in follower.resumes] == [28]
    assert (ending.observed, follower.observed) == (10, 23 if end == 75 else 22)
    left = follower.ending()
    assert left is not None
    assert left.steps == (70 if end == 70 else 28), "what was saved behind a step that nobody observed is not known"


def test_what_is_left_stays_small(recorder: Recorder, golden: Golden, tmp_path: Path) -> None:
    (short,) = apart(recorder, [Part(0, 40, saves=range(0, 40, 2))])
    (long,) = apart(recorder, [Part(0, 400, saves=range(0, 400, 2))])
    sizes = []
    for path in (short, long):
        ending = ended(path, golden)
        assert len(ending.ranks[0].saved) <= MOST
        write(tmp_path / "state.npz", ending)
        sizes.append((tmp_path / "state.npz").stat().st_size)
    assert sizes[1] < 1.2 * sizes[0] < 120_000


@pytest.mark.parametrize("damage", ["cut", "other", "nothing", "rows", "format"])
def test_a_damaged_file_is_one_clear_error(recorder: Recorder, golden: Golden, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "state.npz"
    (first,) = apart(recorder, [Part(0, 20)])
    write(path, ended(first, golden))
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:2000])
    elif damage == "other":
        path.write_text("a letter")
    elif damage == "nothing":
        path.unlink()
    else:
        arrays = dict(np.load(path))
        if damage == "rows":
            arrays["head-0"]["subject"] = 1 << 30
        else:
            arrays["state"] = np.frombuffer(bytes(arrays["state"]).replace(b'"format": 1', b'"format": 9'), np.uint8)
        np.savez(path, **arrays)
    with pytest.raises(TraceError, match=r"state\.npz"):
        read(path)
