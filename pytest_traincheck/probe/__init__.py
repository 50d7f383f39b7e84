"""The probe: observes a training process without changing it.

This package runs inside the user's process. It needs the standard library and torch, nothing else, and importing
it does not import torch. Two ways in: `bootstrap/sitecustomize.py` for processes started by a launcher, and
`observe` for a block of code in this process. Both write the directory described in `docs/trace-format.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..frameworks.extensions import Extensions

__all__ = ["observe"]


@contextmanager
def observe(
    run_dir: Path,
    seed: int | None = None,
    extensions: Extensions | None = None,
    not_needed: frozenset[str] = frozenset(),
) -> Iterator[Path]:
    """Observe everything torch does inside the block and remove every trace of the probe afterwards.

    `run_dir` receives one `proc-...` directory, whose path is yielded; `seed` is noted in its `meta.json`;
    `extensions` is what plug-ins want observed or looked through; looks that are `not_needed` are left out.
    Raises `RuntimeError` when this process is observed already, since two probes would count everything twice.
    """
    from ..frameworks.extensions import NONE
    from .install import start

    probe = start(Path(run_dir), None if seed is None else str(seed), extensions or NONE, not_needed)
    try:
        yield probe.directory
    finally:
        probe.stop()
