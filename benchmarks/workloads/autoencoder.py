"""A variational autoencoder of linear layers, with a loss in two parts and a gradient norm that is clipped."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
arguments = parser.parse_args()


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(784, 400)
        self.mean = nn.Linear(400, 20)
        self.spread = nn.Linear(400, 20)
        self.decoder = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784), nn.Sigmoid())

    def forward(self, images):
        hidden = torch.relu(self.encoder(images))
        mean, spread = self.mean(hidden), self.spread(hidden)
        return self.decoder(mean + torch.randn_like(mean) * (spread / 2).exp()), mean, spread


torch.manual_seed(arguments.seed)
model = Autoencoder().to(arguments.device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loader = DataLoader(torch.rand(min(64 * arguments.steps, 4096), 784), batch_size=64, shuffle=True, drop_last=True)
done = 0
while done < arguments.steps:
    for images in loader:
        images = images.to(arguments.device)
        optimizer.zero_grad()
        made, mean, spread = model(images)
        likelihood = nn.functional.binary_cross_entropy(made, images, reduction="sum")
        loss = (likelihood - 0.5 * (1 + spread - mean**2 - spread.exp()).sum()) / len(images)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        done += 1
        if done == arguments.steps:
            break
print(f"loss {loss.item():.6f}")
