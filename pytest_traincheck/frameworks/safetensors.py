"""safetensors: its functions that write files. What it reads is returned, and `load_state_dict` tells the rest."""

from __future__ import annotations

from .description import CallType, Framework, Observation

FRAMEWORK = Framework(
    "safetensors",
    versions=("safetensors",),
    observations=(
        Observation("safetensors.torch:save", ("tensors",), CallType.SAVE),
        Observation("safetensors.torch:save_file", ("tensors",), CallType.SAVE),
        Observation("safetensors.torch:save_model", ("model",), CallType.SAVE),
    ),
)
