"""A run that is no reliable record of a training is refused: what happened, to which thing, what to do now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from training_story import Loop, Training

from pytest_traincheck.trace import TraceError, load_run


def leave(run: Path, loop: Loop | None = None, *, rank: int = 0, started: float = 1.0, **meta: Any) -> None:
    training = Training(run, rank=rank, started=started)
    if loop is not None:
        loop.tell(training)
    training.write(**meta)


def refused(run: Path) -> tuple[str, str, str]:
    """The message in its three parts."""
    with pytest.raises(TraceError) as caught:
        load_run(run)
    message = str(caught.value)
    what, separator, remedy = message.rpartition("; ")
    assert separator, f"no remedy in: {message}"
    happened, separator, thing = what.partition(": ")
    return happened, thing, remedy


def test_nothing_observed(tmp_path: Path) -> None:
    happened, thing, remedy = refused(tmp_path / "run")
    assert happened == "the probe observed no process"
    assert str(tmp_path / "run") in thing
    assert "imports torch" in thing + remedy


def test_nothing_trained(tmp_path: Path) -> None:
    leave(tmp_path, Loop(steps=0))
    with pytest.raises(TraceError, match=r"nothing was trained: .* 1 observed process.*; let the command run"):
        load_run(tmp_path)


@pytest.mark.parametrize(
    ("meta", "happened", "remedy"),
    [
        ({"finished": False}, "the training process of rank 1 did not finish", "look at its output for the reason"),
        ({"lost_events": 3}, "3 events were lost on rank 1", "free disk space and run again"),
        (
            {"probe_errors": [{"where": "forward hook", "error": "KeyError: 3"}], "probe_error_count": 1},
            "the probe failed inside the training process of rank 1",
            "the run is unreliable: please report this as a bug of pytest-traincheck",
        ),
    ],
)
def test_one_unreliable_rank_spoils_the_run(tmp_path: Path, meta: dict[str, Any], happened: str, remedy: str) -> None:
    leave(tmp_path, Loop())
    leave(tmp_path, Loop(), rank=1, **meta)
    what, thing, advice = refused(tmp_path)
    assert (what, advice) == (happened, remedy)
    assert "proc-101" in thing or "forward hook: KeyError: 3" in thing


def test_a_process_that_its_parent_has_ended_is_part_of_the_run(tmp_path: Path) -> None:
    """A pool ends its workers when all they were asked for is done."""
    leave(tmp_path, Loop())
    leave(tmp_path, Loop(), started=2.0, pid=7, ppid=100, finished=False)
    assert len(load_run(tmp_path).processes) == 2


def test_a_process_in_whose_place_another_program_came_is_part_of_the_run(tmp_path: Path) -> None:
    leave(tmp_path, Loop(), finished=False)
    leave(tmp_path, Loop(), started=2.0)
    assert len(load_run(tmp_path).processes) == 2


@pytest.mark.parametrize(
    "meta",
    [
        {"pid": 7, "ppid": 1, "started": 2.0},  # nobody knows who ended it
        {"pid": 7, "ppid": 100, "started": 2.0, "rank": 1, "world_size": 2},  # a rank below what launches it
        {"started": 0.5, "pid": 7, "ppid": 8},
    ],
)
def test_a_process_that_was_ended_from_without_spoils_the_run(tmp_path: Path, meta: dict[str, Any]) -> None:
    leave(tmp_path, Loop())
    leave(tmp_path, Loop(), **{"started": 2.0, **meta}, finished=False)
    assert refused(tmp_path)[0].endswith("did not finish")


def test_a_parent_that_did_not_finish_either_ends_nothing(tmp_path: Path) -> None:
    leave(tmp_path, Loop(), finished=False)
    leave(tmp_path, Loop(), started=2.0, pid=7, ppid=100, finished=False)
    assert refused(tmp_path)[0].endswith("did not finish")


def test_a_worker_that_lost_rows_spoils_the_run(tmp_path: Path) -> None:
    """What is left of its batches would be taken for all of them."""
    leave(tmp_path, Loop())
    worker = Training(tmp_path, started=2.0)
    with worker.call("torch.utils.data.DataLoader.worker", type="worker"):
        worker.measure("worker", 0.0, digest=7)
    worker.write(pid=2, ppid=100, finished=False, lost_events=5)
    what, _, advice = refused(tmp_path)
    assert (what, advice) == ("5 events were lost on rank 0", "free disk space and run again")


def test_a_failed_probe_explains_an_empty_run(tmp_path: Path) -> None:
    leave(tmp_path, None, probe_errors=[{"where": "install", "error": "boom"}], probe_error_count=1)
    assert "probe failed" in refused(tmp_path)[0]


def test_helpers_that_did_not_train_may_end_as_they_like(tmp_path: Path) -> None:
    leave(tmp_path, Loop())
    # A data loading worker is killed by its parent; that is how it ends.
    leave(tmp_path, None, rank=1, started=2.0, finished=False)
    assert len(load_run(tmp_path).processes) == 1


def test_workers_of_loaders_are_kept_apart_in_the_order_of_their_start(tmp_path: Path) -> None:
    leave(tmp_path, Loop())
    for started in (3.0, 2.0):
        worker = Training(tmp_path, started=started)
        with worker.call("torch.utils.data.DataLoader.worker", type="worker"):
            worker.measure("worker", 0.0, digest=7)
        worker.write(pid=int(started), ppid=100)
    leave(tmp_path, started=4.0)  # a helper that does neither
    run = load_run(tmp_path)
    assert len(run.processes) == 1
    assert [process.raw.meta["pid"] for process in run.workers] == [2, 3]
    assert run.renamed({"Net": "Other"}, {}).workers == run.workers


def test_two_launches_one_after_the_other(tmp_path: Path) -> None:
    for launch in (1.0, 2.0):
        for rank in (1, 0):
            leave(tmp_path, Loop(), rank=rank, started=launch)
    run = load_run(tmp_path)
    assert [process.rank for process in run.processes] == [0, 0, 1, 1]
    assert [process.raw.meta["started"] for process in run.processes] == [1.0, 2.0, 1.0, 2.0]
    assert run.peers == ((0, 2), (1, 3))


def test_a_directory_without_a_description_is_no_process(tmp_path: Path) -> None:
    leave(tmp_path, Loop())
    (tmp_path / "proc-9-9").mkdir()
    assert len(load_run(tmp_path).processes) == 1


def test_what_was_not_looked_at_is_told_once(tmp_path: Path) -> None:
    names = {f"f{number}": "no source" for number in range(5)}
    for rank in range(2):
        leave(tmp_path, Loop(), rank=rank, left_out={"sketches of inner calls": 3}, unobserved=names)
    assert load_run(tmp_path).left_out == {
        "sketches of inner calls": 6,
        "calls of `f0`, `f1`, `f2` and 2 more: no source": 1,
    }
