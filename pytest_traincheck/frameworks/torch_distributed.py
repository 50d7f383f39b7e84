"""torch on several ranks."""

from __future__ import annotations

from .description import CallType, Framework, Observation, Wrapper

_SAVING, _LOADING = (f"torch.distributed.checkpoint.state_dict_{what}" for what in ("saver", "loader"))
_STAGE = "torch.distributed.pipelining.stage:PipelineStage"
_JOIN = "torch.distributed.algorithms.join"
_DDP = "torch.nn.parallel.distributed:DistributedDataParallel"

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
        # To learn the shapes of what it is given and returns, a stage is run once on memory that nobody has filled.
        Observation(f"{_STAGE}._prepare_forward_infra", type=CallType.APART),
        Observation(f"{_STAGE}._prepare_backward_infra", type=CallType.APART),
        Observation(f"{_JOIN}:Join.__exit__", type=CallType.WAIT),
        # By these the other ranks are told that one has data, and asked what is to be exchanged in this pass.
        Observation(f"{_JOIN}:Join.notify_join_context", type=CallType.APART),
        Observation(f"{_DDP}._check_global_requires_backward_grad_sync", type=CallType.APART),
        Observation(f"{_DDP}._find_common_rank", type=CallType.APART),
    ),
)
