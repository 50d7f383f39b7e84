"""torch on several ranks."""

from __future__ import annotations

from .description import Framework, Wrapper

FRAMEWORK = Framework(
    "torch.distributed",
    wrappers=(
        Wrapper("CheckpointWrapper", inner="_checkpoint_wrapped_module"),
        Wrapper("DistributedDataParallel", inner="module", short="DDP"),
        Wrapper("FullyShardedDataParallel", inner="_fsdp_wrapped_module", short="FSDP"),
    ),
    parallel=("torch.distributed.", "torch.nn.parallel."),
)
