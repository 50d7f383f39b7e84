"""Pools and processes by fork and by spawn that share tensors and queues with the one that trains."""

import multiprocessing
import os

import torch
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from showing import digest, show, show_end, show_loss


def simulate(seed):
    torch.manual_seed(seed)
    return torch.randn(4, 4), torch.randint(0, 2, (4,))


def count(shared, queue):
    shared += 1
    model = nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.fill_(0.5)
        model.bias.zero_()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    queue.put(digest(model))


def hogwild(model, seed):
    torch.manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        loss = F.cross_entropy(model(torch.randn(4, 4)), torch.tensor([0, 1, 1, 0]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        batches = pool.map(simulate, range(4))
    for step, (x, y) in enumerate(batches):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        show_loss(step, loss)
    shared = torch.zeros(3).share_memory_()
    for method in ("fork", "spawn"):
        context = mp.get_context(method)
        queue = context.SimpleQueue()
        process = context.Process(target=count, args=(shared, queue))
        process.start()
        print(method, queue.get())
        process.join()
        print(process.exitcode, shared)
    model.share_memory()
    process = mp.get_context("spawn").Process(target=hogwild, args=(model, 5))
    process.start()
    process.join()
    show("hogwild", process.exitcode, model)
    print(model.weight.is_shared(), len(multiprocessing.active_children()), os.path.exists("/dev/shm"))
    show_end(model=model)
