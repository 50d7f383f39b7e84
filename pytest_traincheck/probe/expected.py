"""Modules whose functions are observed, waited for from the start of the process.

Such a module may be what imports torch, and with it the probe. By then it is being executed, and nothing could be
called when that has ended. So each is waited for before, by a callback that does nothing, to which the probe adds its
own.
"""

from __future__ import annotations

import os

from ..frameworks.built_in import built_in
from ..frameworks.extensions import NONE, VARIABLE, Extensions
from .imports import after_import


def expect_from_environment() -> None:
    """As the launcher asks by a variable, and as the libraries that are known have it. Raises as `Extensions.from_text`
    does where the variable says nonsense.
    """
    told = Extensions.from_text(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else NONE
    frameworks = (*built_in(), *told.frameworks)
    for observation in (*told.observations, *(item for framework in frameworks for item in framework.observations)):
        # What lies below torch cannot be what imports it.
        if observation.module.partition(".")[0] != "torch":
            after_import(observation.module, _nothing)


def _nothing() -> None:
    """The probe is not there yet, or has added what it wants to do."""
