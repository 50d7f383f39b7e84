"""Two images through one convolutional net, and a loss on the distance of what comes out."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
arguments = parser.parse_args()


class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4)
        )
        self.head = nn.Sequential(nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, left, right):
        both = [self.body(images).flatten(1) for images in (left, right)]
        return self.head(torch.cat(both, dim=1)).squeeze(1)


torch.manual_seed(arguments.seed)
model = Twin().to(arguments.device)
optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=100, gamma=0.7)
for _ in range(arguments.steps):
    left, right = torch.randn(2, 24, 1, 28, 28, device=arguments.device)
    same = torch.randint(0, 2, (24,), device=arguments.device).float()
    optimizer.zero_grad()
    loss = nn.functional.binary_cross_entropy_with_logits(model(left, right), same)
    loss.backward()
    optimizer.step()
    scheduler.step()
print(f"loss {loss.item():.6f}")
