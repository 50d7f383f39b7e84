"""deepspeed: nothing but its version."""

from __future__ import annotations

from .description import Framework

FRAMEWORK = Framework("deepspeed", versions=("deepspeed",))
