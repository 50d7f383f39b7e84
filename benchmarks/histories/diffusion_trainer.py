"""denoising-diffusion-pytorch: its Trainer on made-up images, interrupted once, saved and loaded into a new one."""

import argparse
import random
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from denoising_diffusion_pytorch import GaussianDiffusion, Trainer, Unet
from denoising_diffusion_pytorch import denoising_diffusion_pytorch as module
from PIL import Image


def trainer(steps):
    network = Unet(dim=16, dim_mults=(1, 2), channels=3)
    diffusion = GaussianDiffusion(network, image_size=8, timesteps=10)
    return Trainer(
        diffusion,
        "images",
        train_batch_size=4,
        train_lr=1e-3,
        train_num_steps=steps,
        ema_update_every=2,
        save_and_sample_every=1000,
        results_folder="results",
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    random.seed(seed)
    torch.manual_seed(seed)
    module.cpu_count = lambda: 0  # no worker processes
    # Older releases of accelerate gave back what is no module as it was; newer ones fail.
    unwrap = Accelerator.unwrap_model
    Accelerator.unwrap_model = lambda self, model: unwrap(self, model) if isinstance(model, torch.nn.Module) else model
    generator = np.random.default_rng(seed)
    Path("images").mkdir()
    for number in range(12):
        pixels = generator.integers(0, 256, (8, 8, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(f"images/{number:02}.png")
    before = trainer(4)
    before.train()
    before.save(1)
    after = trainer(8)
    after.load(1)
    after.train()


main()
