"""A stand-in for torchvision of our own: as much of it as the drivers' repositories import, on small made-up images."""

from torchvision import datasets, transforms, utils

__all__ = ["datasets", "transforms", "utils"]
