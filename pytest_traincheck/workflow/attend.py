"""`traincheck watch`: a run that somebody else has started."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_traincheck.check.result import CheckResult, Incident, RunError, SideInfo
from pytest_traincheck.launch.run_directory import RUN_FILE
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.workflow.against import Against
from pytest_traincheck.workflow.watching import Watch

IDLE_S = 600.0
"""Seconds without a new event after which a run that never said that it ended is taken for dead."""
_PAUSE_S = 0.5


def command_of(run_dir: Path) -> tuple[str, ...]:
    """The words that a run was started with, as far as its directory says so. Raises `TraceError` for no directory."""
    if not run_dir.is_dir():
        raise TraceError(f"there is no directory {run_dir}; give the one that the run writes its trace into")
    command = _run_file(run_dir).get("command")
    if isinstance(command, str):
        return tuple(shlex.split(command))
    for meta in sorted(run_dir.glob("proc-*/meta.json")):
        words = _json(meta).get("argv")
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            return tuple(words)
    return ()


def attend(
    run_dir: Path,
    against: Against,
    tell: Callable[[Incident, int], None],
    *,
    idle: float = IDLE_S,
    looked: Callable[[int], None] | None = None,
) -> CheckResult:
    """Watch until every training process has said that it ended, the run is known to have ended, or nothing was written
    for `idle` seconds. Raises `GoldenError` where the numbers of the golden cannot be read.
    """
    watch = Watch(run_dir, against, tell)
    if looked is not None:
        watch.looked = looked
    command = shlex.join(command_of(run_dir))
    changed, rows = time.monotonic(), -1
    while not watch.over and not watch.failure:
        status = _run_file(run_dir).get("status", "running")
        watch.look()
        if watch.rows != rows:
            changed, rows = time.monotonic(), watch.rows
        if status != "running":
            error = None if status == "ok" else RunError("candidate", f"the run ended otherwise than well: {status}")
            return watch.result(SideInfo(path=str(run_dir), command=command), errors=[error] if error else [])
        if time.monotonic() - changed > idle:
            what = f"nothing was written to {run_dir} for {idle:g} s, and no process said that it ended"
            remedy = "Look whether it still runs; --idle S waits longer."
            return watch.result(
                SideInfo(path=str(run_dir), command=command), errors=[RunError("candidate", what, remedy)]
            )
        if not watch.over:
            time.sleep(_PAUSE_S)
    return watch.result(SideInfo(path=str(run_dir), command=command))


def _run_file(run_dir: Path) -> dict[str, Any]:
    return _json(run_dir / RUN_FILE)


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
