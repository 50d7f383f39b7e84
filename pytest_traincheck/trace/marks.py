"""Marks in a trace that tell which step is the next, where not every one is observed."""

from __future__ import annotations

import numpy as np

from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.columns import Rows
from pytest_traincheck.trace.labels import Bools
from pytest_traincheck.trace.symbols import Tables


def are_marks(tables: Tables, rows: Rows) -> Bools:
    """Which rows say how many steps the process has made, as their value."""
    named = [number for number, each in enumerate(tables["measure"]) if each.get("name") in _NAMES]
    return np.asarray((rows["kind"] == fmt.MEASURE) & np.isin(rows["subject"], named), dtype=bool)


_NAMES = (fmt.OBSERVED, fmt.UNOBSERVED)
