"""Writes made-up sine waves, ten of forty points, for `torch.load`: python waves.py FILE"""

import sys

import numpy as np
import torch

starts = np.random.default_rng(0).integers(-80, 80, (10, 1))
torch.save(np.sin((np.arange(40) + starts) / 20.0), sys.argv[1])
