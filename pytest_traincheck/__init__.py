"""Training invariants for PyTorch: learned on golden code, checked on a candidate, reported through pytest."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_traincheck.workflow.audit_block import Found

try:
    from pytest_traincheck._version import version as __version__  # a wheel has it
except ImportError:
    __version__ = "0.1.0"

__all__ = ["__version__", "audit"]


def audit(packs: Sequence[str] = ()) -> AbstractContextManager[Found]:
    """Observe the training in a `with` block of this process, and say what in it contradicts how training works.

    `with pytest_traincheck.audit() as found: train()`, and then `print(found)`, `found.errors`, `found.warnings`.
    `packs` are names of packs or files; those that ship unless given. Raises `PackError` for one that is not there.
    """
    # The probe is a part of this package, and is loaded where nothing else of it can be.
    from pytest_traincheck.workflow.audit_block import audited

    return audited(packs)
