"""The last lines of a run's own output, made safe to show."""

from __future__ import annotations

import re
from typing import BinaryIO

TAIL_LINES = 40
_TAIL_BYTES = 64 * 1024
_LINE_LENGTH = 400
_TORCHRUN_ERROR = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def read_tail(stream: BinaryIO, size: int = _TAIL_BYTES) -> str:
    """The last `size` bytes of an open file as text; bytes that are no UTF-8 become replacement characters."""
    end = stream.seek(0, 2)
    stream.seek(max(0, end - size))
    return stream.read(size).decode("utf-8", "replace")


def show_tail(text: str, lines: int = TAIL_LINES) -> str:
    """The last lines of `text` without terminal control; of a progress bar only its last state."""
    kept = [_plain(line) for line in text.rstrip().split("\n")[-lines:]]
    return "\n".join(kept).strip("\n")


def without_torchrun_traceback(text: str) -> str:
    """Leave out torchrun's own traceback, which says nothing and would push the worker's out of the last lines."""
    before, found, after = text.rpartition(_TORCHRUN_ERROR)
    start = before.rfind("Traceback (most recent call last):")
    if not found or start < 0 or "torch/distributed/" not in before[start:]:
        return text
    return before[:start] + after.lstrip("\n ")


def labelled(stderr: str, stdout: str) -> str:
    """Both outputs under a heading each; empty ones are left out."""
    parts = [
        f"--- {label}, last lines ---\n{text}"
        for label, text in (("stdout", show_tail(stdout)), ("stderr", show_tail(without_torchrun_traceback(stderr))))
        if text
    ]
    return "\n".join(parts)


def _plain(line: str) -> str:
    line = line.rstrip("\r").rpartition("\r")[2]
    line = _CONTROL.sub("", _ESCAPE_SEQUENCE.sub("", line))
    return line if len(line) <= _LINE_LENGTH else line[:_LINE_LENGTH] + " ..."
