"""What the tensors of `torch.func` hold. Inside `vmap`, `grad` and the like an argument is a tensor that wraps another
one, and the innermost has the numbers: of all examples that are mapped over, and with the graph of the outer training.
"""

from __future__ import annotations

import torch

_functorch = torch._C._functorch

aside = torch._C._DisableFuncTorch
"""While it is entered no transform sees what is computed. Its stack is not asked for, see `context.unobservable`."""


def innermost(tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor with the numbers; of one that is mapped over once with that dimension first, wherever it was. `None`
    where nobody knows what it holds. Call under `aside`.
    """
    mapped: list[int] = []
    while _functorch.is_functorch_wrapped_tensor(tensor):
        if _functorch.is_batchedtensor(tensor):
            mapped.append(_functorch.maybe_get_bdim(tensor))
        elif not _functorch.is_gradtrackingtensor(tensor):
            return None
        tensor = _functorch.get_unwrapped(tensor)
    return tensor.detach().movedim(mapped[0], 0) if len(mapped) == 1 else tensor
