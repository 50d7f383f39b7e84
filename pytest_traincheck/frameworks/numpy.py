"""numpy: nothing but its version."""

from __future__ import annotations

from .description import Framework

FRAMEWORK = Framework("numpy", versions=("numpy",))
