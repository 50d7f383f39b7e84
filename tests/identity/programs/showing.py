"""What the programs of the farm print with: content of tensors as hashes, numbers to the last bit.

Seeds the generators that torch does not.
"""

import hashlib
import random

import numpy
import torch

random.seed(0)
numpy.random.seed(0)


def digest(*tensors):
    """A hash of the bytes of dense tensors, in logical order."""
    found = hashlib.sha256()
    for tensor in tensors:
        if isinstance(tensor, torch.nn.Module):
            found.update(digest(*tensor.state_dict().values()).encode())
            continue
        plain = tensor.detach().to("cpu").contiguous().reshape(-1)
        found.update(str((tuple(tensor.shape), tensor.dtype)).encode())
        found.update(plain.view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:20]


def show(label, *values):
    """Print a label with tensors as hashes, floats in hexadecimal, and everything else as it is."""
    words = []
    for value in values:
        if isinstance(value, (torch.Tensor, torch.nn.Module)):
            words.append(digest(value))
        elif isinstance(value, float):
            words.append(value.hex())
        else:
            words.append(str(value))
    print(label, *words, flush=True)


def show_loss(step, loss):
    """Print the number of a step and its loss."""
    show(f"step {step} loss", float(loss.detach()))


def show_end(**modules):
    """Print what is left at the end: parameters and buffers of each module, and the states of the random generators."""
    for name, module in modules.items():
        show(name, *(digest(value) for value in module.state_dict().values() if isinstance(value, torch.Tensor)))
    show("torch generator", torch.get_rng_state())
    show("python generator", hashlib.sha256(repr(random.getstate()).encode()).hexdigest()[:20])
    show("numpy generator", hashlib.sha256(repr(numpy.random.get_state()).encode()).hexdigest()[:20])
