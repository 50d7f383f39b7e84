"""ema-pytorch: a network with batch normalisation and dropout, its moving average, and evaluations in between."""

import argparse

import torch
from ema_pytorch import EMA
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    torch.manual_seed(parser.parse_args().seed)
    network = nn.Sequential(
        nn.Linear(10, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(.2), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 1)
    )  # fmt: skip
    average = EMA(network, beta=0.9, update_after_step=2, update_every=1)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    direction = torch.randn(10, 1)
    network.train()
    for step in range(10):
        inputs = torch.randn(16, 10)
        loss = nn.functional.mse_loss(network(inputs), inputs @ direction)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update()
        if step % 4 == 3:
            average.eval()
            with torch.no_grad():
                probe = torch.randn(32, 10)
                error = nn.functional.mse_loss(average(probe), probe @ direction)
            print(f"step {step} loss {loss.item():.4f} average {error.item():.4f}")


main()
