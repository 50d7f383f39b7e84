"""The compiled core of the recorder, where it was built and fits this interpreter; without it Python does the same.

`native` is the extension or None. The environment variable `TRAINCHECK_CORE` set to `python` leaves it out.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

VARIABLE = "TRAINCHECK_CORE"
_INTERFACE = 22
"""That of `core.h`: what was built from another source is not used."""


def _loaded() -> Any:
    if os.environ.get(VARIABLE) == "python":
        return None
    try:
        found = import_module(f"{__name__}._core")
    except Exception:  # noqa: BLE001 - not built, or for another platform or another torch: Python does the same
        return None
    return found if found.INTERFACE == _INTERFACE else None


native = _loaded()
