"""What can be wrong with a trace."""

from pathlib import Path

from pytest_traincheck.input_error import InputError


class TraceError(InputError, ValueError):
    """A trace is missing, unreadable, or not a reliable record of the run. The message says which and what to do."""


def damaged(path: Path, what: str) -> TraceError:
    """The error for a file that the probe would not have left like this."""
    return TraceError(f"the trace is damaged: {path}: {what}; collect the run again, or take it from its origin again")
