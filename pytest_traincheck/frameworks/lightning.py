"""Lightning, which is imported by either of two names.

Where its Trainer goes backward is observed, so that an audit sees what goes past it.
"""

from __future__ import annotations

from .description import Framework, Observation

_NAMES = ("lightning.pytorch", "pytorch_lightning")

FRAMEWORK = Framework(
    "lightning",
    versions=("lightning", "pytorch_lightning"),
    observations=tuple(
        Observation(f"{name}.strategies.strategy:Strategy.{method}", arguments)
        for name in _NAMES
        for method, arguments in (("backward", ("closure_loss",)), ("training_step", ()))
    ),
)
