"""DTensor, FSDP2 and tensor parallelism on one rank, state dicts that are full and sharded, checkpoints."""

import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from showing import digest, show, show_end


def train(model, optimizer, steps=4):
    for step in range(steps):
        loss = F.cross_entropy(model(torch.randn(5, 6)), torch.randint(0, 3, (5,)))
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        show(f"step {step}", float(loss), type(norm).__name__)


def full(state):
    return [digest(value.full_tensor() if isinstance(value, DTensor) else value) for value in state.values()]


def net():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))
sharded = distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)])
print(sharded.placements, (sharded @ sharded).redistribute(placements=[Replicate()]).to_local().shape)
print((sharded + 1).sum().full_tensor().item().hex(), sharded)
model = parallelize_module(net(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
print([type(p).__name__ for p in model.parameters()], [type(p.data).__name__ for p in model.parameters()])
train(model, torch.optim.AdamW(model.parameters(), 1e-2))
print(full(model.state_dict()))
model = net()
for layer in (model[0], model[2], model):
    fully_shard(layer)
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
train(model, optimizer)
print(full(model.state_dict()), type(model).__name__, [type(layer).__name__ for layer in model])
state = {"model": get_model_state_dict(model), "optimizer": get_optimizer_state_dict(model, optimizer)}
dcp.save(state, checkpoint_id="checkpoint", no_dist=True)
train(model, optimizer, 1)
dcp.load(state, checkpoint_id="checkpoint", no_dist=True)
os.remove("checkpoint/.metadata")  # holds names that are drawn anew each time
set_model_state_dict(model, state["model"])
model.load_state_dict(model.state_dict())
print(full(model.state_dict()))
model.to(torch.float64).float()
train(model, torch.optim.SGD(model.parameters(), 0.1), 2)
print(full(model.state_dict()))
zero = net()
from torch.distributed.optim import ZeroRedundancyOptimizer  # noqa: E402

optimizer = ZeroRedundancyOptimizer(zero.parameters(), torch.optim.AdamW, lr=1e-2)
train(zero, optimizer)
dist.destroy_process_group()
show_end(zero=zero)
