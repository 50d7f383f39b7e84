"""torch on several ranks."""

from __future__ import annotations

from .description import CallType, Framework, Observation, Wrapper

_SAVING, _LOADING = (f"torch.distributed.checkpoint.state_dict_{what}" for what in ("saver", "loader"))

FRAMEWORK = Framework(
    "torch.distributed",
    wrappers=(
        Wrapper("CheckpointWrapper", inner="_checkpoint_wrapped_module"),
        Wrapper("DistributedDataParallel", inner="module", short="DDP"),
        Wrapper("FullyShardedDataParallel", inner="_fsdp_wrapped_module", short="FSDP"),
    ),
    parallel=("torch.distributed.", "torch.nn.parallel."),
    observations=(
        Observation(f"{_SAVING}:save", ("state_dict",), CallType.SAVE),
        Observation(f"{_SAVING}:async_save", ("state_dict",), CallType.SAVE),
        Observation(f"{_LOADING}:load", ("state_dict",), CallType.LOAD),
        # It takes a step with a learning rate of 0, after which an optimizer has a state that can be asked for.
        Observation("torch.distributed.checkpoint.state_dict:_init_optim_state", type=CallType.APART),
    ),
)
