"""What goes wrong with a pack."""

from __future__ import annotations

from pytest_traincheck.input_error import InputError


class PackError(InputError, ValueError):
    """A pack cannot be read or written; the message says what happened, to which file, and what to do now."""
