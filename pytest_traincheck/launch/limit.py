"""Runs that are ended after so many steps, or so many seconds: what is asked for, and what became of it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_traincheck.launch.meta import META, rewrite

GRACE_S = 60.0
"""Seconds that a run may take to leave once all has come to its end: to write a checkpoint, for instance."""
STEP_S = 10.0
"""Seconds that the step may take which is under way when the time is over."""
_REACHED = "limit-*/*"
"""What ranks leave in the directory of a run when they have come to the end, see `probe.meeting`."""


@dataclass(frozen=True)
class Limit:
    """When a run is ended: after so many steps of its training, or with the step that is under way after so many
    seconds since it was started, whichever comes first.
    """

    steps: int | None = None
    seconds: float | None = None

    def to_text(self) -> str:
        """For the probe, at the start of a run."""
        until = None if self.seconds is None else time.time() + self.seconds
        return json.dumps({"steps": self.steps, "until": until})


def limited(steps: int | None, seconds: float | None = None) -> Limit | None:
    """The limit of a run; None where neither is said."""
    return None if steps is None and seconds is None else Limit(steps, seconds)


@dataclass(frozen=True)
class Reached:
    """How far the training processes of a run came, by rank: those that ended at the limit, those that were waited for
    there and did not come, and those that ended in another way before they were through with the last step.
    """

    ended: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    otherwise: tuple[int, ...] = ()
    steps: int = 0


class Overdue(Exception):
    """A run has come to its limit and does not end."""


def reached(run_dir: Path) -> Reached:
    """What the training processes of a run say of its limit."""
    found = [(int(meta.get("rank", 0)), meta["limit"]) for _, meta in _metas(run_dir)]
    training = [(rank, told) for rank, told in found if told.get("taken") or told.get("ended")]
    return Reached(
        ended=tuple(sorted({rank for rank, told in training if told.get("ended")})),
        missing=tuple(sorted({int(rank) for _, told in training for rank in told.get("missing") or ()})),
        otherwise=tuple(sorted({rank for rank, told in training if not told.get("ended") and not told.get("through")})),
        steps=max((int(told["taken"]) for _, told in training), default=0),
    )


def cut(run_dir: Path) -> bool:
    """Note in the traces of a run that was ended in the middle of a step that they hold what there was to be told;
    whether there was any.
    """
    there = False
    for path, meta in _metas(run_dir):
        if not meta.get("finished"):
            rewrite(path, {**meta, "limit": {**meta["limit"], "cut": True}})
            there = True
    return there


def watched(limit: Limit, run_dir: Path, progress: Callable[[float], None] | None = None) -> Callable[[float], None]:
    """As `progress`; raises `Overdue` where a run does not end when it has come to its limit."""
    most = math.inf if limit.seconds is None else limit.seconds + STEP_S
    since: list[float] = []

    def look(seconds: float) -> None:
        if progress is not None:
            progress(seconds)
        if not since and any(run_dir.glob(_REACHED)):
            since.append(seconds)
        if seconds > (since[0] + GRACE_S if since else most):
            raise Overdue

    return look


@dataclass(frozen=True)
class Judged:
    """What is said of a run that did not end by itself: it counts as one that did, with a note, or failed because of
    the limit, with what happened and what to do now.
    """

    counts: bool
    note: str = ""
    what: str = ""
    cure: str = ""


def judge(limit: Limit, run_dir: Path, *, timed_out: bool) -> Judged | None:
    """What a limit has to do with a run that ended badly, or had to be ended (`timed_out`); None: nothing."""
    found = reached(run_dir)
    if found.ended and not found.missing and not found.otherwise:
        # How it was left is no part of what is compared: a handler of its own may have made another exit status of it,
        # and a rank that goes on behind its loop may wait there for one that has left.
        late = f"had come to its limit, step {found.steps}, and did not leave within {GRACE_S:g} s: it was ended"
        return Judged(counts=True, note=late if timed_out else "")
    if found.missing:
        return Judged(
            counts=False,
            what=f"was to end after {found.steps} steps: {ranks(found.ended)} did, {ranks(found.missing)} did not come "
            "so far",
            cure="the ranks take different numbers of steps, or one of them hangs: look in its output; where they are "
            "meant to differ, leave the limit of steps out and end the training by an argument of its own",
        )
    if timed_out and limit.seconds is not None and cut(run_dir):
        return Judged(counts=True, note=f"was ended after {limit.seconds:g} s, its limit, in the middle of a step")
    return None


def ranks(numbers: Sequence[int]) -> str:
    """`rank 1`, `ranks 1, 2`."""
    return ("rank " if len(numbers) == 1 else "ranks ") + ", ".join(map(str, numbers))


def _metas(run_dir: Path) -> list[tuple[Path, Mapping[str, Any]]]:
    """What processes with a limit say of themselves. What cannot be read is left out: its reader says so."""
    found: list[tuple[Path, Mapping[str, Any]]] = []
    for path in sorted(run_dir.glob(META)):
        try:
            meta = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(meta, dict) and isinstance(meta.get("limit"), dict):
            found.append((path, meta))
    return found
