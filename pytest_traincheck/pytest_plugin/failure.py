"""A failure of an item as pytest shows it: the incident as text, without a traceback through this package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


class TraincheckFailure(Exception):
    """A failing item: the whole text, and the sentence that stands for it in a list."""

    def __init__(self, text: str, sentence: str) -> None:
        super().__init__(text)
        self.sentence = sentence


def representation(failure: TraincheckFailure, path: Path, line: int) -> Any:
    """What a report of pytest holds for the failure: its text, and the place in a golden file, lines from 0."""
    shown = pytest.ExceptionInfo.from_exception(failure).getrepr(style="value")
    if shown.reprcrash is not None:
        shown.reprcrash.path = str(path)
        shown.reprcrash.lineno = line + 1
        shown.reprcrash.message = failure.sentence
    return shown
