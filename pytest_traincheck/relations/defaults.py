"""Arguments that say in numbers what a function does without them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_ATTENTION = "torch.nn.functional.scaled_dot_product_attention"


def without_defaults(api: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments of one call, with None for one that has the value which None stands for.

    For attention that is `scale = 1 / sqrt(E)`, with `E` the last size of `query`; see PyTorch's documentation.
    """
    scale = values.get("scale")
    if api != _ATTENTION or not isinstance(scale, float):
        return values
    shape = values.get("query", {}).get("tensor", {}).get("shape") if isinstance(values.get("query"), Mapping) else None
    if not shape or shape[-1] <= 0 or not math.isclose(scale, 1 / math.sqrt(shape[-1]), rel_tol=1e-6):
        return values
    return {**values, "scale": None}
