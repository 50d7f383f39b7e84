"""Lightning, which is imported by either of two names."""

from __future__ import annotations

from .description import Framework

FRAMEWORK = Framework("lightning", versions=("lightning", "pytorch_lightning"))
