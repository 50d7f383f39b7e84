"""Writes files of made-up tokens of 16 bits, as nanoGPT reads them: python tokens.py FILE..."""

import sys
from pathlib import Path

import numpy as np

for number, name in enumerate(sys.argv[1:]):
    steps = np.random.default_rng(number).integers(1, 3, 4000)
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    (np.cumsum(steps) % 50).astype(np.uint16).tofile(name)
