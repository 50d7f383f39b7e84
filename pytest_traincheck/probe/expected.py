"""Modules whose functions plug-ins want observed, waited for from the start of the process.

Such a module may be what imports torch, and with it the probe. By then it is being executed, and nothing could be
called when that has ended. So each is waited for before, by a callback that does nothing, to which the probe adds its
own.
"""

from __future__ import annotations

import os

from ..frameworks.extensions import VARIABLE, Extensions
from .imports import after_import


def expect_from_environment() -> None:
    """As the launcher asks by a variable. Raises as `Extensions.from_text` does where it says nonsense."""
    for observation in Extensions.from_text(os.environ[VARIABLE]).observations:
        after_import(observation.module, _nothing)


def _nothing() -> None:
    """The probe is not there yet, or has added what it wants to do."""
