"""Two linear layers and plain SGD on a few numbers: a step of half a millisecond, the shortest of these workloads."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
arguments = parser.parse_args()

torch.manual_seed(arguments.seed)
model = nn.Sequential(nn.Linear(16, 128), nn.Tanh(), nn.Linear(128, 1)).to(arguments.device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(4096, 16, device=arguments.device)
targets = inputs.sum(dim=1, keepdim=True).sin()
for _ in range(arguments.steps):
    picked = torch.randint(0, len(inputs), (512,), device=arguments.device)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs[picked]), targets[picked])
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}")
