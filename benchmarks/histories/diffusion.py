"""denoising-diffusion-pytorch: a small network learns to take noise out of made-up images, and samples at the end.

Arguments `name=value` are settings of the diffusion.
"""

import argparse
import json
import random

import denoising_diffusion_pytorch as package
import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", default="GaussianDiffusion")
    parser.add_argument("--network", type=json.loads, default={})
    parser.add_argument("--settings", type=json.loads, default={})
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    torch.manual_seed(arguments.seed)
    network = package.Unet(dim=16, dim_mults=(1, 2), channels=3, **arguments.network)
    diffusion = getattr(package, arguments.kind)(network, image_size=8, **arguments.settings)
    optimizer = torch.optim.Adam(diffusion.parameters(), lr=1e-3)
    for _ in range(6):
        loss = diffusion(torch.rand(4, 3, 8, 8))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.4f}")
    network.eval()
    images = diffusion.sample(batch_size=2)
    print(f"sampled {tuple(images.shape)} mean {images.mean().item():.4f}")


main()
