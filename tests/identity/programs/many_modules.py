"""A model of a thousand small modules, one of many parameters without a module, and modules made in every step."""

import torch
from torch import nn
from showing import show, show_end, show_loss

torch.manual_seed(0)
model = nn.Sequential(*(nn.Sequential(nn.Linear(2, 2), nn.Tanh()) for _ in range(500)))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    loss = model(torch.randn(2, 2)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
loose = [torch.randn(2, requires_grad=True) for _ in range(300)]
optimizer = torch.optim.Adam(loose, 0.1)
for step in range(3):
    loss = torch.stack(loose).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
for step in range(3):
    fresh = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(fresh.parameters(), 0.1)
    loss = fresh(torch.stack(loose[:4])).sum()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
show("loose", *loose[:3])
show_end(model=model, fresh=fresh)
