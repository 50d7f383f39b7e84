"""transformers: its version, and how programs that fine-tune with its Trainer take their options."""

from __future__ import annotations

from .description import CommandLine, Framework

FRAMEWORK = Framework("transformers", versions=("transformers",))

COMMAND_LINE = CommandLine(
    libraries=("transformers", "trl"),
    trains="train",
    settings=("TrainingArguments", "Config"),
    fields=(
        ("max_steps", -1),
        ("num_train_epochs", 3.0),
        ("per_device_train_batch_size", 8),
        ("per_device_eval_batch_size", 8),
        ("output_dir", "trainer_output"),
        ("seed", 42),
    ),
)
