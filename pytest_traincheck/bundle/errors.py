"""What goes wrong with a bundle."""

from __future__ import annotations


class BundleError(Exception):
    """A bundle cannot be used; the message says what happened, to which one, and what to do now."""
