"""A vision transformer on random images, with a warm-up of the learning rate: a step of some hundred milliseconds."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
arguments = parser.parse_args()


class Vision(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, stride=8)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 65, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, images):
        patches = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(images), -1, -1), patches], dim=1)
        return self.head(self.encoder(tokens + self.positions)[:, 0])


torch.manual_seed(arguments.seed)
model = Vision(256, 4).to(arguments.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.05)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10))
for _ in range(arguments.steps):
    images = torch.randn(16, 3, 64, 64, device=arguments.device)
    labels = torch.randint(0, 10, (16,), device=arguments.device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    scheduler.step()
print(f"loss {loss.item():.6f}")
