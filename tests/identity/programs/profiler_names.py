"""The profiler's table of a step: which operators ran, how often, under which names."""

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function
from showing import show_end, show_loss

torch.manual_seed(2)
model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(), nn.Linear(8, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(4):
    with profile(activities=[ProfilerActivity.CPU]) as found:
        with record_function("forward"):
            loss = model(torch.randn(2, 6)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    show_loss(step, loss)
print(sorted((event.key, event.count) for event in found.key_averages()))
show_end(model=model)
