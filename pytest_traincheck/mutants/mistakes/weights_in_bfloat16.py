"""Weights that are kept in half the precision, without a master copy of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..kind import Kind

if TYPE_CHECKING:
    from ..mutation import Mutation
    from ..patching import Function

KIND = Kind(
    "weights-in-bfloat16",
    "precision",
    "Weights are rounded to bfloat16 after every step.",
    "Small updates are lost, and training comes to a halt early.",
    "step of an optimizer with weights in float32",
)


def plant(mutation: Mutation) -> None:
    """Round what an optimizer holds in float32 behind each of its steps."""
    import torch

    from ..patching import around_optimizer_steps

    def behave(optimizer: Any, step: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = step(*args, **kwargs)
        held = [item for group in optimizer.param_groups for item in group["params"]]
        whole = [item for item in held if isinstance(item, torch.Tensor) and item.dtype == torch.float32]
        if whole and mutation.here():
            with torch.no_grad():
                for item in whole:
                    item.copy_(item.to(torch.bfloat16))
        return result

    around_optimizer_steps(behave)
