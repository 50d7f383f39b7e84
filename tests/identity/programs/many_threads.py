"""Threads that train models of their own at the same time, an executor, thread-local modes, a lock around steps."""

import concurrent.futures
import threading

import torch
import torch.nn.functional as F
from torch import nn
from showing import digest, show, show_end

results = {}
lock = threading.Lock()


def net(seed):
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model, generator


def train(seed):
    model, generator = net(seed)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(8):
        loss = F.cross_entropy(model(torch.randn(4, 4, generator=generator)), torch.tensor([0, 1, 1, 0]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()).hex())
    results[seed] = (losses, digest(model))
    return seed


def shared_step(index):
    with lock:
        optimizer.zero_grad()
        loss = shared(torch.full((2, 4), float(index))).square().mean()
        loss.backward()
        optimizer.step()
    return float(loss.detach()).hex()


torch.manual_seed(0)
threads = [threading.Thread(target=train, args=(seed,)) for seed in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    print(list(pool.map(train, range(4, 7))))
    shared, _ = net(9)
    optimizer = torch.optim.SGD(shared.parameters(), 1e-3)
    print(list(pool.map(shared_step, range(4))))
for seed in sorted(results):
    print(seed, *results[seed])
grad_modes = []
with torch.no_grad(), torch.autocast("cpu"):
    thread = threading.Thread(
        target=lambda: grad_modes.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
    )
    thread.start()
    thread.join()
show("modes", grad_modes)
show_end(shared=shared)
