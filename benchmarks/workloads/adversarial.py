"""A generator and a discriminator with an optimizer each, on random images of 16 by 16."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
arguments = parser.parse_args()

torch.manual_seed(arguments.seed)
generator = nn.Sequential(
    nn.ConvTranspose2d(32, 32, 4, bias=False),
    nn.BatchNorm2d(32),
    nn.ReLU(),
    nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.ConvTranspose2d(16, 1, 4, 2, 1),
    nn.Tanh(),
).to(arguments.device)
discriminator = nn.Sequential(
    nn.Conv2d(1, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 32, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(32, 1, 4)
).to(arguments.device)
of_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
real, fake = torch.ones(16, 1, 1, 1, device=arguments.device), torch.zeros(16, 1, 1, 1, device=arguments.device)
for _ in range(arguments.steps):
    images = torch.rand(16, 1, 16, 16, device=arguments.device) * 2 - 1
    made = generator(torch.randn(16, 32, 1, 1, device=arguments.device))
    of_discriminator.zero_grad()
    loss = criterion(discriminator(images), real) + criterion(discriminator(made.detach()), fake)
    loss.backward()
    of_discriminator.step()
    of_generator.zero_grad()
    loss = criterion(discriminator(made), real)
    loss.backward()
    of_generator.step()
print(f"loss {loss.item():.6f}")
