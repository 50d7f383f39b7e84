"""What goes wrong with a golden file."""

from __future__ import annotations

from pytest_traincheck.input_error import InputError


class GoldenError(InputError):
    """A golden file cannot be read or written; the message says what happened, to which file, and what to do now."""
