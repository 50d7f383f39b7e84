"""Ranks of one launch that end together, without a word to each other that their training would not have said.

A rank that left while another is still in the last collective with it would break that. So each leaves a file in the
directory of the run and waits for those of the others, which are at most a step behind. Nothing of `torch.distributed`
is used: a collective more on one rank than on another would hang both.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

DIRECTORY, THROUGH = "limit-", "through-"
"""Of the files by which ranks say that they have come to the end, and that they are through with the last step."""
PATIENCE_S = 20.0
"""Seconds that a rank waits for the others; who has not come by then takes another number of steps."""
BEHIND_S = 5.0
"""Seconds that a rank waits for others that are through with their last step as well. Who has not come by then may wait
for this rank behind its loop, where one rank alone evaluates or saves and all meet again.
"""
_LOOK_EVERY_S = 0.02
_APART = 2
"""Steps that ranks can be apart, at most, as they work together."""


class Meeting:
    """Where the ranks of one launch on this machine wait for each other: the children of one parent."""

    def __init__(self, run_dir: Path) -> None:
        self._directory = run_dir / f"{DIRECTORY}{os.getppid()}"
        self._through = run_dir / f"{THROUGH}{os.getppid()}"
        self.missing: list[int] = []
        """Ranks on this machine that did not come and are not through with the last step."""
        self._last: int | None = None

    @property
    def size(self) -> int:
        """How many ranks there are on this machine."""
        return _from_environment("LOCAL_WORLD_SIZE") or _of_group("get_world_size", 1)

    @property
    def _rank(self) -> int:
        if _from_environment("LOCAL_WORLD_SIZE"):
            return _from_environment("LOCAL_RANK") or 0
        return _of_group("get_rank", 0)

    def leave(self) -> None:
        """Say that this rank is not to be waited for. Raises `OSError`."""
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / str(self._rank)).touch()

    def through(self) -> None:
        """Say that the last step of this rank has ended. Raises `OSError`."""
        if self.size > 1:
            self._through.mkdir(parents=True, exist_ok=True)
            (self._through / str(self._rank)).touch()

    def hold(self) -> None:
        """Wait until all have come, or for so long as they may take. Raises `OSError`."""
        self.leave()
        begun = time.monotonic()
        while True:
            away = [rank for rank in range(self.size) if not (self._directory / str(rank)).exists()]
            self.missing = [rank for rank in away if not (self._through / str(rank)).exists()]
            if not away or time.monotonic() > begun + (PATIENCE_S if self.missing else BEHIND_S):
                return
            time.sleep(_LOOK_EVERY_S)

    def last(self, taken: int, until: float) -> int | None:
        """The number of the last step, the same for all; None as long as the time `until` (seconds since the epoch)
        has not come. The first rank for which it has names a step that none of the others can have passed.
        """
        if self._last is not None:
            return self._last
        over = time.time() > until
        if self.size == 1:
            self._last = taken if over else None
            return self._last
        path = self._directory / "last"
        if over:
            self._directory.mkdir(parents=True, exist_ok=True)
            own = self._directory / f"last.{os.getpid()}"
            own.write_text(str(taken + _APART), encoding="utf-8")
            # A link is made whole or not at all, and only by the first.
            with contextlib.suppress(FileExistsError):
                os.link(own, path)
        if path.exists():
            self._last = int(path.read_text(encoding="utf-8"))
        return self._last


def _from_environment(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None


def _of_group(function: str, default: int) -> int:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return default
    return int(getattr(distributed, function)())
