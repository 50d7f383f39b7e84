"""Ranks with other numbers of batches, watched while they train."""

from __future__ import annotations

import pytest
from late_story import follow
from training_story import Recorder
from uneven_story import Uneven


@pytest.mark.parametrize("batches", [(3, 2), (1, 3)])
@pytest.mark.parametrize("piece", [43, 1000])
def test_a_long_training_is_watched_without_a_word(recorder: Recorder, batches: tuple[int, int], piece: int) -> None:
    golden = recorder.learn(Uneven(), ranks=2)
    told, found = follow(recorder.tell(Uneven(batches, epochs=60), seed=7, ranks=2).path, golden, piece=piece)
    assert not told
    assert not found.incidents
    assert found.steps == 180


def test_what_goes_wrong_late_is_told(recorder: Recorder) -> None:
    golden = recorder.learn(Uneven(), ranks=2)
    told, _ = follow(recorder.tell(Uneven(epochs=60, apart_since=40), seed=7, ranks=2).path, golden, piece=200)
    incident, _ = next(iter(told.values()))
    assert incident.cause.title.startswith("Gradients were equal on all ranks")
    assert 120 <= incident.cause.step <= 122
