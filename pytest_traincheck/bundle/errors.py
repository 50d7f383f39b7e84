"""What goes wrong with a bundle."""

from __future__ import annotations

from pytest_traincheck.input_error import InputError


class BundleError(InputError):
    """A bundle cannot be used; the message says what happened, to which one, and what to do now."""
