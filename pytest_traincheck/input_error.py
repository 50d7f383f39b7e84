"""What all errors have in common that are wrong use or bad input: one clear message, exit status 2."""

from __future__ import annotations


class InputError(Exception):
    """Something that was asked for or handed in is wrong. Its text says what, of which thing, and what to do now."""
