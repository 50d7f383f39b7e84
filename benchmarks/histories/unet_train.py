"""Pytorch-UNet: the training function of its train.py on made-up pictures, with a narrow network of its own parts."""

import argparse
import random
import sys
import types
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn


class Writer:
    """Takes the place of a log for TensorBoard or a web service, and keeps nothing."""

    def __init__(self, *_, **__):
        self.config = self

    def __getattr__(self, name):
        return lambda *_, **__: self


def stand_ins():
    board = types.ModuleType("torch.utils.tensorboard")
    board.SummaryWriter = Writer
    web = types.ModuleType("wandb")
    web.init = web.Image = web.Histogram = Writer
    sys.modules["torch.utils.tensorboard"], sys.modules["wandb"] = board, web


def pictures(seed):
    generator = np.random.default_rng(seed)
    for folder in ("data/imgs", "data/masks"):
        Path(folder).mkdir(parents=True, exist_ok=True)
    for number in range(24):
        image = generator.integers(0, 120, (16, 16, 3)).astype(np.uint8)
        mask = np.zeros((16, 16), dtype=np.uint8)
        top, left = generator.integers(0, 8, 2)
        image[top : top + 8, left : left + 8] += 100
        mask[top : top + 8, left : left + 8] = 1
        Image.fromarray(image).save(f"data/imgs/{number:02}.png")
        Image.fromarray(mask).save(f"data/masks/{number:02}.png")


def network(classes):
    from unet.unet_parts import DoubleConv, Down, OutConv, Up

    class Narrow(nn.Module):
        n_channels, n_classes, bilinear = 3, classes, False

        def __init__(self):
            super().__init__()
            self.begin, self.down = DoubleConv(3, 8), Down(8, 16)
            self.up, self.end = Up(16, 8, False), OutConv(8, classes)

        def forward(self, images):
            wide = self.begin(images)
            return self.end(self.up(self.down(wide), wide))

    return Narrow()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    random.seed(seed)
    torch.manual_seed(seed)
    stand_ins()
    pictures(seed)
    sys.path.insert(0, ".")
    import train

    loader = train.DataLoader
    train.DataLoader = lambda *given, **named: loader(*given, **{**named, "num_workers": 0})
    device = torch.device("cpu")
    if hasattr(train, "train_net"):
        train.train_net(network(1), device, epochs=1, batch_size=2, lr=1e-3, val_percent=0.2, img_scale=1)
    else:
        train.train_model(
            network(2), device, epochs=1, batch_size=2, learning_rate=1e-3, val_percent=0.2, img_scale=1, amp=True
        )


if __name__ == "__main__":
    main()
