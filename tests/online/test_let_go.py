"""What was judged of a trace is given back to the disk while the training goes on."""

from __future__ import annotations

import platform

import numpy as np
import pytest
from late_story import GOLDEN_STEPS, Late, follow
from training_story import Recorder

from pytest_traincheck.online import let_go
from pytest_traincheck.online.follow import Follower
from pytest_traincheck.trace import TraceError, load_run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.reader import read_process
from pytest_traincheck.trace.show import summarise

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="makes no holes in files")


def test_the_first_steps_and_the_last_events_are_kept(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(let_go, "LEAST", 1 << 12)
    monkeypatch.setattr("pytest_traincheck.online.rank.LEAST", 1 << 12)
    golden = recorder.learn(Late())
    run = recorder.tell(Late(steps=300, goes_wrong="keeps gradients", at=250), seed=7)
    (process,) = run.processes
    before, path = process.events[:], process.raw.path
    size = (path / "events.bin").stat().st_size
    follower = Follower(run.path, golden, same_spec=True, other_length=True, piece=100)
    found = []
    while not follower.over or follower.behind:
        found += [incident.cause.step for incident in follower.advance()]
        follower.let_go(200 * fmt.EVENT.itemsize)
    assert found[0] == 250
    assert follower.gone
    raw = read_process(path)
    assert raw.gone > len(before) // 2
    head = int((before["seq"] <= process.step_ends[GOLDEN_STEPS - 1]).sum())
    kept = raw.events[:]
    assert len(kept) + raw.gone == len(before)
    assert np.array_equal(kept["seq"][:head], before["seq"][:head])
    assert np.array_equal(kept["seq"][-200:], before["seq"][-200:])
    assert (path / "events.bin").stat().st_size == size
    assert (path / "events.bin").stat().st_blocks * 512 < before.nbytes // 2 + (1 << 15)
    assert f"{raw.gone} events behind the first steps" in summarise(run.path)


def test_what_does_not_hold_every_step_is_neither_checked_nor_learned_from(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(let_go, "LEAST", 1 << 10)
    run = recorder.tell(Late(steps=60), seed=7)
    (process,) = run.processes
    assert let_go.let_go(process.raw.path, 100, 500, 0) == 500
    with pytest.raises(TraceError, match=r"400 of its events were let go \(`--keep`\)"):
        load_run(run.path)
    with pytest.raises(TraceError, match="were let go"):
        follow(run.path, recorder.learn(Late()))
    (process.raw.path / "gone.json").write_text('{"rows": [5, -1]}')
    with pytest.raises(TraceError, match="does not say which rows"):
        read_process(process.raw.path)
