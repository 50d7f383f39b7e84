"""accelerate. Its samplers give each rank its share of the batches, and leave out those of before a resume.

What a training loop goes through is observed, so that an audit sees what goes past it.
"""

from __future__ import annotations

from .description import Framework, Observation

_ACCELERATOR = "accelerate.accelerator:Accelerator"

FRAMEWORK = Framework(
    "accelerate",
    versions=("accelerate",),
    samplers=("accelerate.data_loader.BatchSamplerShard", "accelerate.data_loader.SkipBatchSampler"),
    observations=(
        Observation(f"{_ACCELERATOR}.accumulate", ("models",)),
        Observation(f"{_ACCELERATOR}.backward", ("loss",)),
        Observation(f"{_ACCELERATOR}.clip_grad_norm_", ("max_norm",)),
        Observation(f"{_ACCELERATOR}.clip_grad_value_", ("clip_value",)),
        Observation(f"{_ACCELERATOR}.prepare_data_loader", ("device_placement",)),
        Observation(f"{_ACCELERATOR}.prepare_model", ("device_placement",)),
        Observation("accelerate.optimizer:AcceleratedOptimizer", ("scaler",)),
        Observation("accelerate.optimizer:AcceleratedOptimizer.step", ("closure",)),
        Observation("accelerate.utils.dataclasses:KwargsHandler.to_kwargs"),
    ),
)
