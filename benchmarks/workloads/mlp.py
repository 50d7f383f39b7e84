"""A three-layer perceptron on random vectors: many small calls, the hardest case for an observer."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
arguments = parser.parse_args()

torch.manual_seed(arguments.seed)
model = nn.Sequential(
    nn.Linear(256, 512), nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
).to(arguments.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
inputs = torch.randn(arguments.steps, 128, 256, device=arguments.device)
labels = torch.randint(0, 10, (arguments.steps, 128), device=arguments.device)
for batch, target in zip(inputs, labels, strict=True):
    optimizer.zero_grad()
    loss = criterion(model(batch), target)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}")
