"""What goes wrong with a report."""

from __future__ import annotations


class ReportError(Exception):
    """A report cannot be written; the message says what happened, to which file, and what to do now."""
