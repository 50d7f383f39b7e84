"""What a candidate's run is observed for: all of it where its trace is kept, else what the rules of its golden need."""

from __future__ import annotations

from pathlib import Path

from pytest_traincheck.golden.model import Golden
from pytest_traincheck.looks import NOTHING, Looks


def left_out(golden: Golden, stored: Path | None, *, same_spec: bool, kept: bool) -> Looks:
    """What is not observed of a run that is checked by a golden, and by nothing else.

    Args:
        stored: the file of the golden, beside which its numbers lie; None for one that was learned just now.
        same_spec: as in `check_run`.
        kept: whether the trace stays when the run was checked: nobody knows what it will be asked then.
    """
    if kept:
        return NOTHING
    # Imported here, since numpy is not needed to say that an option is wrong.
    from pytest_traincheck.check.needs import not_needed
    from pytest_traincheck.golden.numbers import has_numbers

    numbers = bool(golden.numbers) or golden.recording is not None or (stored is not None and has_numbers(stored))
    return not_needed(golden, same_spec=same_spec, numbers=numbers)
