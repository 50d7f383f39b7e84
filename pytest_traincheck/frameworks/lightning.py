"""Lightning, which is imported by either of two names.

Where its Trainer goes backward is observed, so that an audit sees what goes past it.
"""

from __future__ import annotations

from .description import CommandLine, Framework, Observation

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

COMMAND_LINE = CommandLine(
    libraries=("lightning", "pytorch_lightning"),
    trains="fit",
    clis=("LightningCLI",),
    command="fit",
    seed="seed_everything",
    # Eight steps, an evaluation and a checkpoint after every four.
    short=(("max_epochs", "2"), ("limit_train_batches", "4"), ("limit_val_batches", "2"), ("limit_test_batches", "2")),
    directory="default_root_dir",
)
