"""What this machine has room for: cores and memory that this process may use, and what a command asks of them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import psutil

from pytest_traincheck.launch.fingerprint import accelerators

MEMORY_OF_A_RANK = 2 * 2**30
"""Bytes that are set aside for each rank of a run. torch alone takes a quarter of that."""

_GROUPS = Path("/sys/fs/cgroup")
_RANKS = re.compile(r"--(?:nproc[-_]per[-_]node|num[-_]processes)(?:=|\s+)[\"']?(\w+)")


def places(root: Path = _GROUPS) -> int:
    """How many ranks may run here at a time: as many as there are cores and memory for, at least one.

    One where there is an accelerator: all runs would take the first, and its memory is not ours to divide.
    """
    if accelerators() and os.environ.get("CUDA_VISIBLE_DEVICES") != "":
        return 1
    return max(1, min(cores(root), memory(root) // MEMORY_OF_A_RANK))


def cores(root: Path = _GROUPS) -> int:
    """Cores that this process may use; a container is often given fewer than the machine has."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _text(root / "cpu.max").partition(" ")
    if quota.isdecimal() and period.isdecimal() and int(period):
        return max(1, min(found, int(quota) // int(period)))
    return found


def memory(root: Path = _GROUPS) -> int:
    """Bytes of memory that are free for this process, which in a container are those of its limit."""
    free = int(psutil.virtual_memory().available)
    limit, used = _text(root / "memory.max"), _text(root / "memory.current")
    if limit.isdecimal() and used.isdecimal():
        return max(0, min(free, int(limit) - int(used)))
    return free


def ranks_of(command: str, root: Path = _GROUPS) -> int:
    """How many ranks a command line starts, as far as it says so: that of `torchrun` and `accelerate launch`."""
    found = _RANKS.findall(command)
    if not found:
        return 1
    return max(1, int(found[-1][:4])) if found[-1].isdecimal() else cores(root)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
