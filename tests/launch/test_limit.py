"""Runs that are ended after so many steps: politely, by all ranks, and with nothing recorded of what comes behind."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ending_stories as stories
import pytest

from pytest_traincheck.launch import limit as limits
from pytest_traincheck.launch.limit import Limit, Overdue, judge, watched
from pytest_traincheck.launch.run import RunOutcome, RunRequest, RunStatus, execute
from pytest_traincheck.trace import load_run

Make = Callable[..., RunRequest]
Ended = Callable[..., tuple[RunOutcome, str]]


@pytest.fixture
def ended(project: Path, request_for: Make) -> Ended:
    """Runs a story to a limit: what became of it, and what it printed."""

    def run(story: str, limit: Limit, command: str = "python train.py", **options: Any) -> tuple[RunOutcome, str]:
        (project / "train.py").write_text(story if story.startswith("import torch") else stories.BEGIN + story)
        request = request_for(command, limit=limit, timeout=240.0, **options)
        outcome = execute(request)
        return outcome, (request.run_dir / "stdout.txt").read_text()

    return run


def taken(outcome: RunOutcome) -> int:
    return load_run(outcome.run_dir).steps


pytestmark = pytest.mark.slow


def test_the_end_comes_behind_the_last_step_and_before_the_next(ended: Ended, project: Path) -> None:
    outcome, said = ended(stories.EPOCHS, Limit(steps=6))
    assert (outcome.status, outcome.exit_code, outcome.notes) == (RunStatus.OK, 0, ())
    assert said.splitlines() == ["evaluated 16", "finally 6"]
    assert (project / "log.txt").read_text().splitlines()[-1] == "step 6"
    assert (outcome.run_dir / "stderr.txt").read_text() == ""
    run = load_run(outcome.run_dir)
    (process,) = run.processes
    assert run.steps == 6
    # What belongs to the last step stands behind it.
    assert [len(process.rows_of_type(kind)) for kind in ("optimizer", "scheduler", "zero_grad")] == [6, 6, 6]


def test_an_evaluation_behind_the_last_step_is_not_reached(ended: Ended) -> None:
    outcome, said = ended(stories.EPOCHS, Limit(steps=4))
    assert outcome.status is RunStatus.OK
    assert said.splitlines() == ["finally 4"]


@pytest.mark.parametrize(
    ("story", "last", "status"),
    [
        pytest.param(stories.SWALLOWED, ["step 4", "caught", "caught", "caught", "at exit"], 0, id="bare except"),
        pytest.param(stories.OTHER_STATUS, ["step 4"], 3, id="other status"),
        pytest.param(stories.IN_A_THREAD, ["step 4", "joined"], 0, id="thread"),
        pytest.param(stories.GAN, ["step 12", "generator 4"], 0, id="GAN"),
        pytest.param(stories.BY_HAND, ["step 4"], 0, id="by hand"),
        *(
            pytest.param(story, last, 0, id=name, marks=pytest.mark.sweep)
            for name, story, last in [
                ("except Exception", stories.CONTINUED, ["step 4", "generator closed"]),
                ("LBFGS", stories.LBFGS, ["step 4"]),
                ("scaler skips", stories.SKIPPED, ["step 4"]),
            ]
        ),
    ],
)
def test_loops_of_every_sort(ended: Ended, story: str, last: list[str], status: int) -> None:
    outcome, said = ended(story, Limit(steps=4))
    assert (outcome.status, outcome.exit_code, outcome.notes) == (RunStatus.OK, status, ())
    assert said.splitlines()[-len(last) :] == last
    assert (outcome.run_dir / "stderr.txt").read_text() == ""
    if story is not stories.SKIPPED:
        assert taken(outcome) == 4


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(stories.TRAINER, id="transformers"),
        pytest.param(stories.LIGHTNING, id="lightning", marks=pytest.mark.sweep),
        pytest.param(stories.ACCELERATE, id="accelerate", marks=pytest.mark.sweep),
    ],
)
def test_loops_of_libraries(ended: Ended, story: str) -> None:
    outcome, said = ended(story, Limit(steps=4))
    assert (outcome.status, outcome.exit_code, outcome.notes) == (RunStatus.OK, 0, ())
    assert "not reached" not in said
    assert "Traceback" not in (outcome.run_dir / "stderr.txt").read_text()
    assert taken(outcome) == 4


def test_a_run_that_has_lost_its_steps_ends_too(ended: Ended) -> None:
    outcome, _ = ended(stories.NEVER_STEPS, Limit(steps=4))
    assert outcome.status is RunStatus.OK
    assert taken(outcome) == 0


def test_a_run_that_ends_before_its_limit_has_simply_finished(ended: Ended) -> None:
    outcome, said = ended(stories.SHORT, Limit(steps=4))
    assert (outcome.status, outcome.notes, said.splitlines()[-1]) == (RunStatus.OK, (), "reached")
    assert taken(outcome) == 2


def test_all_ranks_end_at_the_same_step(ended: Ended) -> None:
    outcome, said = ended(stories.RANKS, Limit(steps=4), "torchrun --nproc-per-node 2 train.py")
    assert outcome.status is RunStatus.OK, outcome
    assert sorted(said.splitlines()) == ["rank 0 finally 4", "rank 1 finally 4"]
    assert [process.windows for process in load_run(outcome.run_dir).processes] == [4, 4]


@pytest.mark.sweep
def test_ranks_that_take_different_numbers_of_steps(ended: Ended) -> None:
    outcome, _ = ended(stories.RANKS, Limit(steps=4), "torchrun --nproc-per-node 2 train.py", env={"SELDOM": "1"})
    assert outcome.status is RunStatus.FAILED
    assert "was to end after 4 steps: rank 0 did, rank 1 did not come so far" in outcome.message
    assert "different numbers of steps" in outcome.remedy


@pytest.mark.sweep
def test_ranks_that_meet_behind_a_loop_of_as_many_steps_where_one_alone_evaluates(ended: Ended) -> None:
    outcome, _ = ended(stories.MEETS_BEHIND, Limit(steps=4), "torchrun --nproc-per-node 2 train.py")
    assert (outcome.status, outcome.notes) == (RunStatus.OK, ()), outcome
    assert [process.windows for process in load_run(outcome.run_dir).processes] == [4, 4]


def test_a_limit_in_seconds_ends_with_the_step_that_is_under_way(ended: Ended, monkeypatch: pytest.MonkeyPatch) -> None:
    # Over before torch has been imported, so that it does not matter how fast the machine is.
    monkeypatch.setattr(limits, "STEP_S", 200.0)
    outcome, said = ended("while True:\n    train_step()\n", Limit(seconds=0.5))
    assert (outcome.status, outcome.exit_code, outcome.notes) == (RunStatus.OK, 0, ())
    assert said.splitlines() == ["step 1"]
    assert taken(outcome) == 1


@pytest.mark.sweep
def test_a_step_that_takes_longer_than_the_limit(ended: Ended, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STEP_S", 1.0)
    begun = time.monotonic()
    ended(stories.SHORT, Limit(steps=4))
    # Several times what this machine takes for a first step: the limit comes in the middle of the second one.
    seconds = 2 + math.ceil(3 * (time.monotonic() - begun))
    outcome, _ = ended("import time\nwhile True:\n    train_step()\n    time.sleep(1000)\n", Limit(seconds=seconds))
    assert outcome.status is RunStatus.OK
    assert f"was ended after {seconds} s, its limit, in the middle of a step" in outcome.notes[0]
    assert taken(outcome) == 1


def test_a_run_that_does_not_leave_is_ended(ended: Ended, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_S", 1.0)
    story = "import time\ntry:\n    while True:\n        train_step()\nfinally:\n    time.sleep(1000)\n"
    outcome, _ = ended(story, Limit(steps=2))
    assert outcome.status is RunStatus.OK
    assert "had come to its limit, step 2, and did not leave within 1 s: it was ended" in outcome.notes[0]


def test_the_training_is_the_same_up_to_the_end(ended: Ended) -> None:
    story = (
        "import atexit\natexit.register(lambda: print(model.weight.tolist()))\nfor _ in range(4):\n    train_step()\n"
    )
    _, plain = ended(story, Limit(steps=100))
    _, cut = ended(story.replace("range(4)", "range(100)"), Limit(steps=4))
    assert plain == cut


class TestJudgements:
    """What the launcher makes of what ranks have left; no process is needed for that."""

    @staticmethod
    def rank(run_dir: Path, rank: int, *, ended: bool, finished: bool = True, taken: int = 4,
             missing: tuple[int, ...] = (), through: bool = False) -> None:  # fmt: skip
        directory = run_dir / f"proc-{rank}-1"
        directory.mkdir(parents=True)
        told = {"steps": 4, "taken": taken, "ended": ended, "missing": list(missing), "through": through}
        (directory / "meta.json").write_text(json.dumps({"rank": rank, "finished": finished, "limit": told}))

    def test_a_failure_before_the_limit_is_none_of_its_business(self, tmp_path: Path) -> None:
        self.rank(tmp_path, 0, ended=False, finished=True, taken=2)
        assert judge(Limit(steps=4), tmp_path, timed_out=False) is None
        assert judge(Limit(steps=4), tmp_path, timed_out=True) is None

    def test_a_rank_that_failed_beside_one_that_ended(self, tmp_path: Path) -> None:
        self.rank(tmp_path, 0, ended=True)
        self.rank(tmp_path, 1, ended=False, taken=3)
        assert judge(Limit(steps=4), tmp_path, timed_out=False) is None

    def test_a_rank_that_did_not_come(self, tmp_path: Path) -> None:
        self.rank(tmp_path, 0, ended=True, missing=(1,))
        self.rank(tmp_path, 1, ended=False, finished=False, taken=3)
        judged = judge(Limit(steps=4), tmp_path, timed_out=False)
        assert judged is not None
        assert not judged.counts
        assert "rank 0 did, rank 1 did not" in judged.what

    def test_a_rank_that_failed_behind_its_loop_where_another_one_was_to_meet_it(self, tmp_path: Path) -> None:
        self.rank(tmp_path, 0, ended=True, through=True)
        self.rank(tmp_path, 1, ended=False, through=True)
        judged = judge(Limit(steps=4), tmp_path, timed_out=False)
        assert judged is not None
        assert (judged.counts, judged.note) == (True, "")

    def test_a_failure_behind_the_loop_that_no_other_rank_has_to_do_with(self, tmp_path: Path) -> None:
        self.rank(tmp_path, 0, ended=False, through=True)
        assert judge(Limit(steps=4), tmp_path, timed_out=False) is None

    def test_how_it_was_left_does_not_matter(self, tmp_path: Path) -> None:
        self.rank(tmp_path, 0, ended=True)
        self.rank(tmp_path, 1, ended=True)
        judged = judge(Limit(steps=4), tmp_path, timed_out=False)
        assert judged is not None
        assert (judged.counts, judged.note) == (True, "")

    def test_descriptions_that_cannot_be_read_are_left_out(self, tmp_path: Path) -> None:
        self.rank(tmp_path, 0, ended=True)
        (tmp_path / "proc-1-1").mkdir()
        (tmp_path / "proc-1-1" / "meta.json").write_text("{")
        (tmp_path / "proc-2-1").mkdir()
        (tmp_path / "proc-2-1" / "meta.json").write_text('{"limit": 3}')
        assert limits.reached(tmp_path) == limits.Reached(ended=(0,), steps=4)

    def test_nothing_is_overdue_while_nobody_has_come(self, tmp_path: Path) -> None:
        seen: list[float] = []
        look = watched(Limit(steps=4), tmp_path, seen.append)
        look(1000.0)
        (tmp_path / "limit-1").mkdir()
        (tmp_path / "limit-1" / "0").touch()
        look(1001.0)
        with pytest.raises(Overdue):
            look(1001.0 + limits.GRACE_S + 1)
        assert len(seen) == 3
