"""LossTerms: terms that leave the loss in later steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from judgements import violations
from training_story import Measured, Recorder, Training


def followed(t: Training, later: Sequence[int], *, first: int = 3, resumed: int = 0) -> None:
    """Four steps that are measured, and later ones whose losses have so many terms; and of a process that goes on with
    the training so many that are measured again.
    """
    counts = (*(first,) * 4, *later, *(first,) * resumed)

    def measure(step: int) -> None:
        if step < 4 or step >= len(counts) - resumed:
            t.measure("loss.terms", float(counts[step]))
            t.measure("loss.terms.fine", float(counts[step]))
        else:
            t.measure("later.terms", float(counts[step]))

    Measured(backward=measure, steps=len(counts)).tell(t)


def test_a_term_that_is_detached_in_later_steps(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: followed(t, ()))
    outcome = recorder.judge(golden, lambda t: followed(t, (*(3,) * 5, *(2,) * 8, *(3,) * 2)))
    (violation,) = violations(outcome, "LossTerms")
    assert "of at least 3 terms that have gradients; in the candidate 2 have" in violation.title
    assert (violation.step, violation.count) == (9, 8)


@pytest.mark.parametrize(
    "story",
    [
        lambda t: followed(t, (3,) * 12),
        lambda t: followed(t, (4,) * 12),
        lambda t: followed(t, (3, *(2,) * 7, 3, *(2,) * 7)),
        lambda t: followed(t, (3,) * 12, resumed=4),
        lambda t: followed(t, (2,) * 12, first=2),
    ],
    ids=["the same", "more", "batches without what a term is about", "resumed", "another loss from the beginning"],
)
def test_what_later_steps_may_have(recorder: Recorder, story: Callable[[Training], None]) -> None:
    outcome = recorder.judge(recorder.learn(lambda t: followed(t, ())), story)
    assert not [each for each in violations(outcome, "LossTerms") if each.step is not None and each.step >= 4]
