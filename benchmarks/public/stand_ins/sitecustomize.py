"""Seeds what a public script leaves open, and prints a digest of all parameters after every step of an optimizer.

Two runs that print the same digest trained alike to the last bit. With `PUBLIC_STEPS` in the environment a process ends
after so many steps. On the path only where runs with the probe and without are compared.
"""

import atexit
import hashlib
import os
import random

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

random.seed(0)
np.random.seed(0)
torch.manual_seed(0)


class _Digest:
    def __init__(self):
        self.hash, self.steps = hashlib.sha256(), 0
        self.last = int(os.environ.get("PUBLIC_STEPS", "0"))
        self.process = os.getpid()

    def after_step(self, optimizer, _args, _kwargs):
        self.steps += 1
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                values = parameter.detach().contiguous().cpu().view(-1)
                self.hash.update(values.view(torch.uint8).numpy().tobytes())
        if self.steps == self.last:
            self.show()
            os._exit(0)

    def show(self):
        if self.steps and os.getpid() == self.process:
            rank = os.environ.get("RANK", "0")
            print(f"digest of rank {rank}: {self.hash.hexdigest()[:32]} in {self.steps} steps", flush=True)


digest = _Digest()
register_optimizer_step_post_hook(digest.after_step)
atexit.register(digest.show)
