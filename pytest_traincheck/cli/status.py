"""Exit statuses."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """What the exit status of `traincheck` means."""

    CLEAN = 0
    INCIDENTS = 1
    BAD_INPUT = 2
    RUN_FAILED = 3
    INTERRUPTED = 130
    BROKEN_PIPE = 141
