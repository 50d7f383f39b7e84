"""A library that nobody here has heard of, such as one finds beside a paper: a wrapper, and a loss of its own."""

import torch

from .losses import focal_loss

__all__ = ["Monitored", "focal_loss"]
__version__ = "0.3"


class Monitored(torch.nn.Module):
    """Hands every call on to a network, and counts them."""

    def __init__(self, network):
        super().__init__()
        self.network = network
        self.calls = 0

    def forward(self, *args, **kwargs):
        self.calls += 1
        return self.network(*args, **kwargs)
