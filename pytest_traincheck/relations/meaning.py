"""What a finding means, in types: what others may decide by, so that nobody has to read its sentences."""

from __future__ import annotations

from enum import Enum


class Deviation(Enum):
    """What sort of deviation from golden a finding is."""

    DIFFERENT = "different"
    """Something else than golden has: another value, state or content."""
    MISPLACED = "misplaced"
    """What golden does is done, but at another place or in another order."""
    NEVER = "never"
    """Golden calls it, and the candidate's whole run never does."""
    LEFT_OUT = "left out"
    """What comes in every training step is missing in one of them."""
    LACKING = "lacking"
    """What golden does within a call, or to a variable, is not done."""
    FEWER = "fewer"
    """Less often, or over less, than in golden."""
    TOO_OFTEN = "too often"
    """More often than in golden."""
    EXTRA = "extra"
    """Something is done as well that golden does not do."""
    NOT_FINITE = "not finite"
    """NaN or infinite where golden has a number."""
    CUT_SHORT = "cut short"
    """The run ends before golden's does."""

    @property
    def is_absence(self) -> bool:
        """Whether something is not there, so that the line of a finding is only where that was noticed."""
        return self in (Deviation.NEVER, Deviation.LEFT_OUT, Deviation.LACKING)
