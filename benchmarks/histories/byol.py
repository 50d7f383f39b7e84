"""byol-pytorch: a small convolutional network that learns from two noisy views of made-up images."""

import argparse
import random

import torch
from byol_pytorch import BYOL
from torch import nn


class Noise(nn.Module):
    def forward(self, images):
        return images + 0.1 * torch.randn_like(images)


def network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trainer", action="store_true", help="with the trainer of the repository")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    torch.manual_seed(arguments.seed)
    settings = {"projection_size": 16, "projection_hidden_size": 32, "augment_fn": Noise()}
    if arguments.trainer:
        from byol_pytorch.trainer import BYOLTrainer, MockDataset

        BYOLTrainer(
            network(),
            image_size=12,
            hidden_layer="4",
            learning_rate=3e-3,
            dataset=MockDataset(12, 24),
            num_train_steps=8,
            batch_size=8,
            byol_kwargs=settings,
        )()
        return
    learner = BYOL(network(), image_size=12, hidden_layer=-2, **settings)
    optimizer = torch.optim.Adam(learner.parameters(), lr=3e-3)
    for _ in range(8):
        loss = learner(torch.randn(8, 3, 12, 12))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        learner.update_moving_average()
        print(f"loss {loss.item():.4f}")


main()
