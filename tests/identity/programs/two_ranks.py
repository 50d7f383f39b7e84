"""Two gloo ranks that the program spawns: DDP with a communication hook, FSDP2, ZeRO, collectives, pickled objects."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from showing import digest, show


def net():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def train(model, optimizer, rank, lines):
    for step in range(4):
        x, y = torch.randn(5, 6), torch.randint(0, 3, (5,))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lines.append(f"{type(model).__name__} rank {rank} step {step} {float(loss).hex()}")


def work(rank, path):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    lines = []
    torch.manual_seed(0)
    models = [net(), net(), net()]
    torch.manual_seed(100 + rank)
    ddp = DistributedDataParallel(models[0])
    ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
    train(ddp, torch.optim.AdamW(ddp.parameters(), 1e-2), rank, lines)
    fully_shard(models[1])
    train(models[1], torch.optim.AdamW(models[1].parameters(), 1e-2), rank, lines)
    evaluated = DistributedDataParallel(models[2].eval())
    zero = ZeroRedundancyOptimizer(evaluated.parameters(), torch.optim.AdamW, lr=1e-2)
    train(evaluated, zero, rank, lines)
    total = torch.tensor([rank + 1.0])
    handle = dist.all_reduce(total, async_op=True)
    handle.wait()
    gathered = [None, None]
    dist.all_gather_object(gathered, lines)
    everything = [torch.zeros(1) for _ in range(2)]
    dist.all_gather(everything, total + rank)
    dist.broadcast(total, 0)
    parameters = [p.full_tensor() for p in models[1].parameters()]
    dist.barrier()
    if rank == 0:
        for lines in gathered:
            print("\n".join(lines))
        show("sums", total, *everything)
        show("models", models[0], models[2], *(digest(p) for p in parameters))
        show("generator", torch.get_rng_state())
        sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.start_processes(work, (os.path.abspath("rendezvous"),), nprocs=2, start_method="spawn")
    os.remove("rendezvous")
