"""lion-pytorch: a small classifier trained with Lion, the plain one or that of `foreach`."""

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--foreach", action="store_true")
    arguments = parser.parse_args()
    if arguments.foreach:
        from lion_pytorch.foreach import Lion
    else:
        from lion_pytorch import Lion
    torch.manual_seed(arguments.seed)
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 4))
    optimizer = Lion(model.parameters(), lr=1e-3, weight_decay=0.1)
    teacher = torch.randn(12, 4)
    for _ in range(10):
        inputs = torch.randn(16, 12)
        loss = nn.functional.cross_entropy(model(inputs), (inputs @ teacher).argmax(dim=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.4f}")


main()
