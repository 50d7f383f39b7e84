"""What goes wrong with a report."""

from __future__ import annotations

from pytest_traincheck.input_error import InputError


class ReportError(InputError):
    """A report cannot be written; the message says what happened, to which file, and what to do now."""
