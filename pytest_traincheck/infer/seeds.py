"""What golden runs say about seeds: whether one that is run twice repeats, and whether another one changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_traincheck import replay
from pytest_traincheck.golden.recording import Recording
from pytest_traincheck.replay import compare, compare_with_itself, record
from pytest_traincheck.replay.portray import portrait
from pytest_traincheck.trace import Run


def with_repeats(recording: Recording | None, repeated: Sequence[Run], platform: str) -> Recording | None:
    """The recording of the first run with what other runs of its seed repeat of it."""
    if recording is None:
        return None
    again = [found for run in repeated if (found := record(run)) is not None]
    return replay.with_repeats(recording, again, platform)


def with_portrait(recording: Recording | None, runs: Sequence[Run]) -> Recording | None:
    """The recording of the first run with what is drawn of it and of the other golden runs."""
    return None if recording is None else replace(recording, portrait=portrait(runs[0], runs[1:]))


def ignores_seed(recording: Recording | None, runs: Sequence[Run], platform: str) -> bool:
    """Whether runs with other seeds than the recording's begin with the same values, are given the same batches, draw
    the same random numbers and compute the same.

    False where there is no such run, or nothing was recorded.
    """
    others = [found for run in runs if run.seed != _seed(recording) and (found := record(run)) is not None]
    if recording is None or not others:
        return False
    own = compare_with_itself(recording, platform, workers=others[0].workers).made
    compared = [compare(recording, other, platform) for other in others]
    return bool(own) and all(not item.deviating and item.parting is None and own <= item.made for item in compared)


def _seed(recording: Recording | None) -> str:
    return recording.seed if recording is not None else ""
