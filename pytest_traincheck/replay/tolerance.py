"""How far two results may be apart that were computed from the same numbers in another way.

Another kernel, number of threads, memory format or compiler adds the same terms in another order. The error of a sum of
r terms grows like eps * sqrt(r) (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 4.2: the
statistical estimate), and a module is a chain of such sums. The constants leave room for badly conditioned functions;
the upper limit stays below the smallest change that means something, which is taken to be one part in a thousand.
"""

from __future__ import annotations

import math

EPSILON = {
    "float64": 2.0**-52,
    "complex128": 2.0**-52,
    "float32": 2.0**-23,
    "complex64": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}
"""Distance from 1 to the next number of a dtype."""

TENSOR_FLOAT = 2.0**-10
"""The same for products of `float32` on devices that compute them in TensorFloat-32."""

COARSE = 2.0**-20
"""Rounding units above this one outweigh what the order of a sum makes of them."""

_LEAST, _GREATEST, _SUM = 256, 2560, 16
_ONE_RESULT, _ROUNDED = 0.5, 2.5
_AMPLIFIED = 30.0
_SIGNS = 4.0


def epsilon(dtype: str, platform: str = "") -> float:
    """Rounding unit of a dtype; 0 for one that is exact."""
    if dtype in ("float32", "complex64") and "cuda" in platform:
        return TENSOR_FLOAT
    return EPSILON.get(dtype, 0.25 if dtype.startswith("float8") else 0.0)


def allowance(eps: float, terms: float, calls: int) -> float:
    """Relative distance that rounding explains between two results of `calls` calls that sum up to `terms` terms."""
    if eps > COARSE:
        # The result itself was rounded to few digits: that outweighs the order of any sum.
        return min(_ROUNDED, _ONE_RESULT * (1 + math.log2(1 + calls))) * eps
    wanted = _SUM * eps * math.sqrt(max(terms, 1.0)) * (1 + math.log2(1 + calls))
    return min(max(wanted, _LEAST * eps), _GREATEST * eps)


def agreement(eps: float) -> float:
    """Relative distance up to which two inputs count as the same."""
    return _ROUNDED * eps if eps > COARSE else _GREATEST * eps


def passed_on(off: float) -> float:
    """What inputs that are `off` apart add to the distance of the results of a smooth function."""
    return _AMPLIFIED * off


def passed_on_by_signs(off: float, negligible: float = 0.0, size: float = math.inf) -> float:
    """The same for the update of an optimizer that normalises its gradients, `size` elements of which a share
    `negligible` is close to zero: where they are not exactly golden's, such elements change their sign, and move as far
    as all others. One may always do so.
    """
    return _SIGNS * (math.sqrt(off) + math.sqrt(negligible) + math.sqrt(1 / size)) if off else 0.0
