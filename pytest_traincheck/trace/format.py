"""The layout of `events.bin`, as `docs/trace-format.md` defines it."""

from __future__ import annotations

import numpy as np

FORMAT = 1

EVENT = np.dtype(
    [
        ("kind", "<u1"),
        ("flags", "<u1"),
        ("thread", "<u2"),
        ("seq", "<u4"),
        ("end", "<u4"),
        ("parent", "<u4"),
        ("subject", "<u4"),
        ("ctx", "<u4"),
        ("args", "<u4"),
        ("ret", "<u4"),
        ("src", "<u4"),
        ("mod", "<u4"),
        ("opt", "<u2"),
        ("old", "<u1"),
        ("new", "<u1"),
        ("spare", "<u4"),
        ("digest", "<u8"),
        ("value", "<f8"),
    ]
)

SKETCH = np.dtype(
    [
        ("at", "<u4"),
        ("call", "<u4"),
        ("slot", "<u4"),
        ("var", "<u4"),
        ("size", "<u4"),
        ("faint", "<u4"),
        ("digest", "<u8"),
        ("norm", "<f8"),
        ("mean", "<f8"),
        ("projections", "<f8", (4,)),
    ]
)
"""A row of `sketches.bin`."""

END, CALL, CHANGE, MEASURE = 0, 1, 2, 3

RAISED, ENTRY, TRAINING, NONFINITE_RESULT = 1, 2, 4, 8

ABSENT, ZERO, NONZERO, NONFINITE, FALSE, TRUE, VALUE, UNSEEN = range(8)

STATE_NAMES = ("absent", "zero", "nonzero", "non-finite", "false", "true", "value", "not seen before")

NO_CONTENT = 0x9E3779B97F4A7C15
"""The hash of inputs that hold nothing, or nothing that can be read."""

OBSERVED, UNOBSERVED = "steps.observed", "steps.unobserved"
"""Measures where not every step is observed: the number of the step that is, from here on, and of the first that was
not.
"""

COPY_OF = "copy of "
"""Prefix of the name of what stands for tensors that no module holds and that began as copies of a model."""
PLACED = "parameter.placed="
"""Prefix of the measure of a parameter of which ranks hold parts; how it is placed follows, as torch writes it."""

WAITED = "ranks.waited"
"""A measure: ranks that had come to the end of their data have waited for the others."""

SYMBOL_KINDS = ("api", "ctx", "args", "ret", "src", "root", "mod", "opt", "group", "var", "thread", "measure", "slot",
                "attribute")  # fmt: skip
