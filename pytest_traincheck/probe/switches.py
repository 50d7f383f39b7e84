"""What the compiled core asks of the parts of the probe at every call, where it lies without a look-up of Python's."""

from __future__ import annotations

from .core import native


class Switches:
    """A part of the probe with attributes that the compiled core reads, by names that `switches.c` lists."""


if native is not None:
    Switches = native.Switches  # type: ignore[misc]
