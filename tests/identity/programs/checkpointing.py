"""Activation checkpointing of both kinds, selective and sequential, with dropout, and saved tensors kept elsewhere."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)
from showing import show, show_end, show_loss

calls = []


def policy(ctx, op, *args, **kwargs):
    calls.append(str(op))
    return CheckpointPolicy.MUST_SAVE if op == torch.ops.aten.addmm.default else CheckpointPolicy.PREFER_RECOMPUTE


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2), nn.GELU()) for _ in range(4))

    def forward(self, x):
        x = checkpoint(self.blocks[0], x, use_reentrant=False)
        x = checkpoint(self.blocks[1], x, use_reentrant=True)
        x = checkpoint(
            self.blocks[2], x, use_reentrant=False, context_fn=lambda: create_selective_checkpoint_contexts(policy)
        )
        x = checkpoint(lambda y: self.blocks[3](y), x, use_reentrant=False, preserve_rng_state=False)
        return checkpoint_sequential(nn.Sequential(*self.blocks), 2, x, use_reentrant=False)


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-2)
packed = []
for step in range(5):
    with torch.autograd.set_detect_anomaly(step == 2):
        x = torch.randn(4, 8, requires_grad=True)
        if step == 3:
            with save_on_cpu():
                loss = net(x).square().mean()
        elif step == 4:
            with saved_tensors_hooks(lambda t: packed.append(tuple(t.shape)) or t.double(), lambda t: t.float()):
                loss = F.mse_loss(net.blocks[0](x), x)
        else:
            loss = net(x).square().mean()
        loss.backward()
    optimizer.step()
    net.zero_grad()
    show_loss(step, loss)
    show("input", x.grad)
print(packed, len(calls), calls[:20])
with torch.autograd.graph.disable_saved_tensors_hooks("none allowed"):
    try:
        with save_on_cpu():
            net.blocks[0](x)
    except RuntimeError as error:
        print(error)
show_end(net=net)
