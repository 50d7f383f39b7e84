"""Writes made-up pictures into a folder: python images.py [--count N] FOLDER"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=8)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    for number in range(arguments.count):
        coarse = Image.fromarray(generator.integers(0, 255, (16, 16, 3)).astype(np.uint8))
        coarse.resize((256, 256), Image.BICUBIC).save(arguments.folder / f"picture_{number}.png")


if __name__ == "__main__":
    main()
