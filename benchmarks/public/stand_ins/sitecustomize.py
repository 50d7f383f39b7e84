"""What public scripts leave open is fixed: the seeds of `random` and of numpy. Torch's own generator begins alike anyway.

With `PUBLIC_DIGEST` in the environment each process prints a digest of all parameters after every step of an optimizer:
two runs that print the same one trained alike to the last bit. With `PUBLIC_STEPS` as well it ends after so many steps.
"""

import os
import random
import sys

import numpy as np

random.seed(0)
np.random.seed(0)


def print_digest_of_training() -> None:
    """Hashes what every optimizer holds after each of its steps."""
    import atexit
    import hashlib

    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    digest, steps = hashlib.sha256(), 0
    last = int(os.environ.get("PUBLIC_STEPS", "0"))
    own = os.getpid()

    def after_step(optimizer, _args, _kwargs):
        nonlocal steps
        steps += 1
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                values = parameter.detach().contiguous().cpu().view(-1)
                digest.update(values.view(torch.uint8).numpy().tobytes())
        if steps == last:
            show()
            sys.stdout.flush()
            os._exit(0)

    def show():
        if steps and os.getpid() == own:
            rank = os.environ.get("RANK", "0")
            print(f"digest of rank {rank}: {digest.hexdigest()[:32]} in {steps} steps", flush=True)

    register_optimizer_step_post_hook(after_step)
    atexit.register(show)


if os.environ.get("PUBLIC_DIGEST"):
    print_digest_of_training()
