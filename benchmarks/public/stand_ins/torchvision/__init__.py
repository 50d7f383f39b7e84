"""A stand-in for torchvision of our own: as much of it as public training scripts use, on small made-up images."""

from torchvision import datasets, models, transforms, utils

__version__ = "0.0"
__all__ = ["datasets", "models", "transforms", "utils"]
