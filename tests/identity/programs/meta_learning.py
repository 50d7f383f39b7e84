"""MAML with second derivatives through functional calls, a hypergradient of the learning rate, and Reptile."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call
from showing import show, show_end, show_loss

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
rate = nn.Parameter(torch.tensor(0.1))
optimizer = torch.optim.Adam([*model.parameters(), rate], 1e-2)
for step in range(4):
    total = 0.0
    for _ in range(3):
        phase, x = torch.rand(1), torch.randn(8, 1)
        fast = dict(model.named_parameters())
        for _ in range(2):
            inner = F.mse_loss(functional_call(model, fast, (x,)), torch.sin(x + phase))
            slopes = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
            fast = {name: value - rate * slope for (name, value), slope in zip(fast.items(), slopes)}
        x = torch.randn(8, 1)
        total = total + F.mse_loss(functional_call(model, fast, (x,)), torch.sin(x + phase))
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
    show_loss(step, total)
    show("rate", rate)
for step in range(3):
    task = copy.deepcopy(model)
    inner = torch.optim.SGD(task.parameters(), 0.05)
    for _ in range(3):
        x = torch.randn(8, 1)
        loss = F.mse_loss(task(x), torch.cos(x))
        inner.zero_grad()
        loss.backward()
        inner.step()
    with torch.no_grad():
        for slow, fast in zip(model.parameters(), task.parameters()):
            slow.lerp_(fast, 0.3)
    show_loss(step, loss)
show_end(model=model)
