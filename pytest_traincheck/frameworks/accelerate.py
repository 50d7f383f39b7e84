"""accelerate. Its samplers give each rank its share of the batches, and leave out those of before a resume."""

from __future__ import annotations

from .description import Framework

FRAMEWORK = Framework(
    "accelerate",
    versions=("accelerate",),
    samplers=("accelerate.data_loader.BatchSamplerShard", "accelerate.data_loader.SkipBatchSampler"),
)
