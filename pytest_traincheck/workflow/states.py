"""Where trainings leave what another one may go on with: beside a trace that is kept, and among the files of this user.

A training that goes on mostly does so on the machine, and against the golden, of the one before it.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_traincheck.launch.cache import cache_directory
from pytest_traincheck.launch.run_directory import END_STATE_FILE
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.workflow.against import Against

if TYPE_CHECKING:
    from pytest_traincheck.online.ending import Ending

MOST = 16
"""Files of one golden that are kept."""
LOOKED_AT = 8
MAX_AGE_S = 60 * 24 * 3600.0


def place(against: Against) -> Path:
    """The file of a training that begins now."""
    where, rules = _keys(against)
    return cache_directory("states") / f"{where}.{rules}-{time.time_ns()}-{os.getpid()}.npz"


def earlier(against: Against, but: Sequence[Path] = ()) -> list[Ending]:
    """What earlier trainings of the same golden have left on this machine, the latest first."""
    from pytest_traincheck.online.ending_file import read

    found = []
    for path in [each for each in _files(against) if each not in but][:LOOKED_AT]:
        with suppress(TraceError, OSError):
            found.append(read(path))
    return found


def tidy(against: Against) -> None:
    """Remove what is old, and what is too much."""
    for number, path in enumerate(_files(against)):
        with suppress(OSError):
            if number >= MOST or path.stat().st_mtime < time.time() - MAX_AGE_S:
                path.unlink()


def told(path: Path, against: Against) -> Ending:
    """What a training has left, given its file or the directory of its trace. Raises `TraceError`, and `GoldenError` as
    watching does.
    """
    from pytest_traincheck.online.ending_file import read
    from pytest_traincheck.online.follow import Follower

    file = path / END_STATE_FILE if path.is_dir() else path
    if file.exists():
        return read(file)
    if not path.is_dir():
        raise TraceError(f"there is no {path}; give a directory that `run --keep-trace` or `collect` wrote")
    follower = Follower(path, against.golden, against.same_spec, against.other_length)
    follower.advance()
    while follower.behind:
        follower.advance()
    follower.advance(ended=True)
    ending = follower.ending()
    if ending is None:
        raise TraceError(f"no training has left anything in {path}: it holds no step of an optimizer")
    return ending


def gone_on_with(path: Path, against: Against) -> Against:
    """What a training is held against that goes on with what is in a file, or in the directory of a trace: by all of
    golden's rules where that was. That its command says what it goes on with makes it no other one.
    """
    from pytest_traincheck.online.ending_file import read

    file = path / END_STATE_FILE if path.is_dir() else path
    with suppress(TraceError, OSError):  # which is said when it is needed
        if file.exists() and read(file).same_spec:
            return replace(against, same_spec=True)
    return against


def _files(against: Against) -> list[Path]:
    where, rules = _keys(against)
    directory = cache_directory("states")
    found = {*directory.glob(f"{where}.*-*.npz"), *directory.glob(f"*.{rules}-*.npz")}
    return sorted(found, key=lambda each: each.name.split("-")[1:], reverse=True)


def _keys(against: Against) -> tuple[str, str]:
    """What tells a golden by where it is, since it may be learned again between two trainings, and by its rules, since
    the same golden may be in two clones.
    """
    golden = against.golden
    where = f"{golden.pipeline}\0{against.path or golden.commit}"
    rules = "\0".join([golden.pipeline, *sorted(rule.id for rule in golden.invariants)])
    place, content = (hashlib.blake2b(os.fsencode(each), digest_size=10).hexdigest() for each in (where, rules))
    return place, content
