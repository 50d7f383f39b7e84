"""A small residual network with BatchNorm, SGD with momentum and a `DataLoader`, on random images."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
arguments = parser.parse_args()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)

    def forward(self, images):
        hidden = torch.relu(self.norm1(self.conv1(images)))
        return torch.relu(images + self.norm2(self.conv2(hidden)))


torch.manual_seed(arguments.seed)
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1),
    *(Block(32) for _ in range(4)),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(32, 10),
).to(arguments.device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
count = 16 * arguments.steps
dataset = TensorDataset(torch.randn(count, 3, 16, 16), torch.randint(0, 10, (count,)))
for images, labels in DataLoader(dataset, batch_size=16, shuffle=True):
    images, labels = images.to(arguments.device), labels.to(arguments.device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}")
