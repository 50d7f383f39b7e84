"""A training that goes on is judged stretch by stretch, in pieces as they come; a whole check finds the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from late_story import GOLDEN_STEPS, Late, follow
from training_story import Recorder, Training

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.check.result import Verdict
from pytest_traincheck.online import launch_group
from pytest_traincheck.online.findings import EPISODES
from pytest_traincheck.online.follow import Follower
from pytest_traincheck.online.launch_group import MANY, STRETCH
from pytest_traincheck.online.rank import Rank

WRONG = {
    "keeps gradients": "zero_grad",
    "does not clip": "clip_grad_norm_",
    "leaves one out": "unchanged",
    "calls backward twice": "backward",
    "stays in eval": "eval mode",
    "writes in evaluation": "embed.weight",
    "writes into what is trained": "something else is written into `Net.fc2.weight`",
}


@pytest.mark.parametrize("steps", [GOLDEN_STEPS + 1, 70, 300])
def test_a_right_training_is_told_nothing_at_any_length(recorder: Recorder, steps: int) -> None:
    golden = recorder.learn(Late())
    told, found = follow(recorder.tell(Late(steps=steps), seed=7).path, golden, piece=331)
    assert not told
    assert not found.incidents
    assert found.steps == steps


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("at", [8, 71])
def test_what_goes_wrong_late_is_told_within_two_steps(recorder: Recorder, what: str, at: int) -> None:
    golden = recorder.learn(Late())
    run = recorder.tell(Late(steps=at + 9, goes_wrong=what, at=at, since=what == "stays in eval"), seed=7)
    told, found = follow(run.path, golden, piece=29)
    (title, (incident, seen)), *_ = told.items()
    assert WRONG[what] in title
    assert at <= incident.cause.step <= at + 2
    assert seen <= at + 4, "one step shows it, and the next one shows that it was complete"
    assert [item.cause.title for item in found.incidents] == [title]


def test_of_many_steps_at_once_the_last_are_judged_at_the_next_look(recorder: Recorder) -> None:
    """Without a look in vain: what is behind a border would be judged again with all that comes."""
    golden = recorder.learn(Late())
    border = GOLDEN_STEPS + STRETCH
    run = recorder.tell(Late(steps=200, goes_wrong="keeps gradients", at=border + 4), seed=7)
    rows = len(run.processes[0].events) * (border + 20) // 200
    follower = Follower(run.path, golden, same_spec=True, other_length=True, piece=rows)
    assert not follower.advance()
    assert follower.steps == border
    follower.piece = 0  # nothing new has come
    (incident,) = follower.advance()
    assert incident.cause.step == border + 4
    assert border + 15 < follower.steps < border + 25


def test_of_few_steps_at_once_all_are_judged(recorder: Recorder) -> None:
    golden = recorder.learn(Late())
    border = GOLDEN_STEPS + STRETCH
    run = recorder.tell(Late(steps=200, goes_wrong="keeps gradients", at=border), seed=7)
    rows = len(run.processes[0].events) // 200
    follower = Follower(run.path, golden, same_spec=True, other_length=True, piece=rows)
    while follower.steps < border - 3:
        assert not follower.advance()
    follower.piece = rows * (MANY - 4)
    (incident,) = follower.advance()
    assert incident.cause.step == border
    assert border + 1 < follower.steps < border + MANY


def _sparing(first: int, steps: int) -> Callable[[Training], None]:
    """The loss does not reach one parameter in the `first` steps: its gradient is zero, and no other value changes."""

    def loop(t: Training) -> None:
        model, optimizer = Late()._made(t)
        for step in range(steps):
            t.zero_grad(optimizer)
            t.batch()
            t.forward(model)
            t.loss()
            t.backward(model, zero=("fc2.weight",) if step < first else ())
            t.step(optimizer)

    return loop


@pytest.mark.parametrize("steps", [GOLDEN_STEPS, 3 * GOLDEN_STEPS])
def test_a_gradient_that_is_zero_at_first_is_told_only_when_it_stays_so(recorder: Recorder, steps: int) -> None:
    golden = recorder.learn(_sparing(0, GOLDEN_STEPS))
    by_chance = recorder.tell(_sparing(4, steps), seed=7)
    assert not follow(by_chance.path, golden, piece=23)[0]
    never = recorder.tell(_sparing(99, steps), seed=7)
    told, found = follow(never.path, golden, piece=23)
    incidents = found.incidents if steps > GOLDEN_STEPS else check_run(golden, never, same_spec=True).incidents
    titles = [item.cause.title for item in incidents]
    assert any("fc2.weight" in title and "zero" in title for title in titles)
    assert not told or [*told] == titles


def test_ranks_that_drift_apart_are_told(recorder: Recorder) -> None:
    golden = recorder.learn(Late(), ranks=2)
    run = recorder.tell(Late(steps=150, goes_wrong="ranks drift", at=100), seed=7, ranks=2)
    told, _ = follow(run.path, golden, piece=400)
    incident, _ = next(iter(told.values()))
    assert 100 <= incident.cause.step <= 102
    assert not follow(recorder.tell(Late(steps=150), seed=7, ranks=2).path, golden, piece=400)[0]


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(piece=st.integers(1, 900), what=st.sampled_from(sorted(WRONG)), at=st.integers(0, 90))
def test_the_size_of_the_pieces_does_not_matter(recorder: Recorder, piece: int, what: str, at: int) -> None:
    golden = recorder.learn(Late())
    path = recorder.tell(Late(steps=100, goes_wrong=what, at=at), seed=7).path
    (_, whole), (_, pieces) = follow(path, golden), follow(path, golden, piece=max(piece, 20))
    assert whole.verdicts == pieces.verdicts
    assert whole.incidents == pieces.incidents


def test_where_the_steps_end_is_looked_up_once_for_all_stretches_that_come(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And once before, in golden's own steps: only with these it is known what a step is."""
    golden = recorder.learn(Late())
    run = recorder.tell(Late(steps=GOLDEN_STEPS + 5 * STRETCH + 9), seed=7)
    looked: list[int] = []
    steps_of = launch_group.LaunchGroup._steps

    def counting(group: launch_group.LaunchGroup, path: Path) -> object:
        looked.append(group.steps)
        return steps_of(group, path)

    monkeypatch.setattr(launch_group.LaunchGroup, "_steps", counting)
    follower = Follower(run.path, golden, same_spec=True, other_length=True)
    assert not follower.advance()
    assert follower.steps == GOLDEN_STEPS + 5 * STRETCH + 9
    assert looked == [0, GOLDEN_STEPS]


@pytest.mark.parametrize("ranks", [1, 2])
def test_stretches_end_where_they_would_if_each_came_alone(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, ranks: int
) -> None:
    golden = recorder.learn(Late(), ranks=ranks)
    path = recorder.tell(Late(steps=GOLDEN_STEPS + 4 * STRETCH + 9), seed=7, ranks=ranks).path
    ended: list[tuple[int, ...]] = []
    close = Rank.close

    def closing(rank: Rank, last: int, steps: int, made: int, *, keep: bool) -> None:
        ended.append((rank.number, last, steps, made))
        close(rank, last, steps, made, keep=keep)

    monkeypatch.setattr(Rank, "close", closing)
    follow(path, golden)
    at_once, ended = ended, []
    follow(path, golden, piece=200)
    assert at_once == ended
    assert [made for number, _, _, made in ended if not number] == [GOLDEN_STEPS + n * STRETCH for n in range(5)]


def test_how_many_stretches_come_at_once_does_not_matter(recorder: Recorder) -> None:
    """Though each of them, or none, says that something is broken, holds again, and is broken once more."""
    golden = recorder.learn(Late())
    often = (150, 300, 301, 400, 530)
    path = recorder.tell(Late(steps=700, goes_wrong="keeps gradients", at=30, again=often), seed=7).path
    (_, at_once), (_, apart) = follow(path, golden), follow(path, golden, piece=300)
    assert [incident.cause.step for incident in at_once.incidents] == [30, 150, 300]
    assert at_once.verdicts == apart.verdicts
    assert at_once.incidents == apart.incidents


@pytest.mark.parametrize("what", WRONG)
def test_stretches_find_what_a_whole_check_finds(recorder: Recorder, what: str) -> None:
    """Of all rules that speak of single steps; those about whole runs say nothing of a part."""
    golden = recorder.learn(Late())
    run = recorder.tell(Late(steps=100, goes_wrong=what, at=80), seed=7)
    _, found = follow(run.path, golden)
    broken = {item.invariant.id for item in found.verdicts if item.verdict is Verdict.VIOLATED}
    whole = check_run(golden, run, same_spec=True)
    expected = {
        violation.invariant.id
        for violation in whole.violations
        if not (violation.meaning.per_run or violation.meaning.by_length)
    }
    assert broken == expected


def test_what_is_wrong_from_the_beginning_is_told_once(recorder: Recorder) -> None:
    golden = recorder.learn(Late())
    run = recorder.tell(Late(steps=90, clips=False), seed=7)
    told, found = follow(run.path, golden, piece=25)
    assert len(told) == len(found.incidents) == 1
    incident, seen = next(iter(told.values()))
    assert incident.cause.step == 0
    assert seen <= 2


def test_two_mistakes_are_two_incidents_however_alike(recorder: Recorder) -> None:
    """What held for a stretch and breaks again is news."""
    golden = recorder.learn(Late())
    run = recorder.tell(Late(steps=600, goes_wrong="keeps gradients", at=50, again=(400,)), seed=7)
    _, found = follow(run.path, golden)
    assert [incident.cause.step for incident in found.incidents] == [50, 400]
    assert [incident.number for incident in found.incidents] == [1, 2]


def test_what_breaks_off_and_on_is_not_told_for_ever(recorder: Recorder) -> None:
    golden = recorder.learn(Late())
    often = tuple(range(50, 1500, 200))
    run = recorder.tell(Late(steps=1500, goes_wrong="keeps gradients", at=50, again=often), seed=7)
    _, found = follow(run.path, golden)
    assert len(found.incidents) == EPISODES


def test_what_is_held_does_not_grow_with_the_training(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = recorder.learn(Late())
    held: list[int] = []
    close = Rank.close

    def closing(rank: Rank, last: int, steps: int, made: int, *, keep: bool) -> None:
        close(rank, last, steps, made, keep=keep)
        held.append(len(rank.head) + len(rank.states) + len(rank.rows))

    monkeypatch.setattr(Rank, "close", closing)
    run = recorder.tell(Late(steps=1000), seed=7)
    follow(run.path, golden, piece=200)
    assert len(held) > 10
    assert max(held[1:]) < len(run.processes[0].events) / 10
    assert max(held[-3:]) <= max(held[1:4]) + 400


def test_a_variable_that_took_its_value_between_the_stretches_has_it_later(recorder: Recorder) -> None:
    """Without that, two names that changed together would look different from then on."""
    golden = recorder.learn(Late(), ranks=2)

    def restored(t: object) -> None:
        Late(steps=200, evaluates_every=1000)(t)  # type: ignore[arg-type]

    run = recorder.tell(restored, seed=7, ranks=2)
    assert not follow(run.path, golden)[1].incidents


def test_a_launch_of_several_ranks_waits_for_all_of_them(recorder: Recorder) -> None:
    golden = recorder.learn(Late(), ranks=2)
    run = recorder.tell(Late(steps=50, goes_wrong="does not clip", at=20), seed=7, ranks=2)
    (second,) = [path for path in run.path.iterdir() if path.name.startswith("proc-101-")]
    away = second.rename(run.path.parent / second.name)
    follower = Follower(run.path, golden, same_spec=True, other_length=True)
    assert not follower.advance()
    away.rename(second)
    assert follower.advance()


def test_a_training_that_resumes_is_followed_from_its_first_step_on(recorder: Recorder) -> None:
    """With one step of what was made anew in sight, and with many."""
    golden = recorder.learn(Late())
    told, found = follow(recorder.tell(Late(steps=150, resumes_at=75), seed=7).path, golden, piece=5)
    assert not told
    assert not found.incidents


@pytest.mark.parametrize("at", [3, 70, 75, 141])
def test_what_a_resume_does_not_restore_is_told(recorder: Recorder, at: int) -> None:
    golden = recorder.learn(Late())
    run = recorder.tell(Late(steps=150, resumes_at=at, forgets=("fc2.weight",)), seed=7)
    told, _ = follow(run.path, golden, piece=50)
    ((title, (incident, seen)),) = told.items()
    assert "without what `Net.fc2.weight` had: a resume restored only the others" in title
    assert (incident.cause.step, seen <= at + 3) == (at, True)


def test_a_call_around_the_step_belongs_to_it(recorder: Recorder) -> None:
    """A gradient scaler ends its own call after the step that ends the iteration."""

    def scaled(t: Training) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        for _ in range(steps):
            t.zero_grad(optimizer)
            t.batch()
            t.forward(model)
            t.loss()
            t.backward(model)
            with t.call("torch.amp.GradScaler.step", type="scaler"):
                t.step(optimizer)

    steps = GOLDEN_STEPS
    golden = recorder.learn(scaled)
    assert any("GradScaler.step" in rule.subject for rule in golden.invariants)
    steps = 30
    told, _ = follow(recorder.tell(scaled, seed=7).path, golden, piece=3)
    assert not told


def test_nobody_takes_the_first_steps_of_a_critic_for_iterations(recorder: Recorder) -> None:
    def taking_turns(t: Training) -> None:
        critic, generator = t.model("Critic"), t.model("Generator")
        optimizers = {model.name: t.adamw(list(model.parameters.values())) for model in (critic, generator)}
        for _ in range(steps):
            for model in (critic, critic, critic, generator):
                t.zero_grad(optimizers[model.name])
                t.batch()
                t.forward(model)
                t.loss()
                t.backward(model)
                t.step(optimizers[model.name])

    steps = GOLDEN_STEPS
    golden = recorder.learn(taking_turns)
    assert golden.optimizers["AdamW[Generator]"]["lead"]
    steps = 20
    told, _ = follow(recorder.tell(taking_turns, seed=7).path, golden, piece=3)
    assert not told
