"""The directory of one run: what lies in it, and whether one that is there already may be used for another run.

Its first file says that it is ours. Nothing is removed from a directory that does not say so: whoever mistypes
`--output` must not lose the files that they named.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from pytest_traincheck.input_error import InputError

RUN_FILE = "run.json"
STDOUT_FILE = "stdout.txt"
STDERR_FILE = "stderr.txt"
END_STATE_FILE = "end-state.npz"
"""What another training may go on with; `traincheck run` writes it."""
COLLECT_FILE = "collect.json"
"""How `traincheck collect` was asked for the run; `traincheck infer` reads it."""
PROGRAMS = "bin"
"""Directory with the `python` that scripts find."""

FORMAT = 1
_FILES = (STDOUT_FILE, STDERR_FILE, COLLECT_FILE, END_STATE_FILE, RUN_FILE)
_KEYS = frozenset({"format", "side", "command", "argv", "cwd", "status"})
_PROCESS = re.compile(r"proc-\d+-\d+")
_MEETING = re.compile(r"limit-\d+")
"""Where ranks wait for each other at the end of a run, see `probe.meeting`."""
_TALLY = re.compile(r"mutants-[\w.-]+\.txt")
_SIZE_LIMIT = 4 * 2**20


class ForeignDirectoryError(InputError, ValueError):
    """A directory that no run may be recorded in, since it is not one of ours: which, and what to do now."""


def require_usable(run_dir: Path) -> None:
    """Raise `ForeignDirectoryError` unless `run_dir` is missing, empty, or the directory of an earlier run."""
    if not run_dir.is_dir():
        if run_dir.exists() or run_dir.is_symlink():
            raise ForeignDirectoryError(
                f"{run_dir} is no directory, and a run is recorded in one. Give the path of a new directory."
            )
        return
    found = sorted(path.name for path in run_dir.iterdir())
    if found and not is_run_directory(run_dir):
        named = ", ".join(f"`{name}`" for name in found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
        raise ForeignDirectoryError(
            f"{run_dir} is no directory of an earlier run and is not empty: it holds {named}. Nothing was changed in "
            "it. Give a new or an empty directory."
        )


def is_run_directory(run_dir: Path) -> bool:
    """Whether a run of ours was recorded in this directory: it has the file that every run writes first."""
    record = run_dir / RUN_FILE
    try:
        if record.is_symlink() or not record.is_file() or record.stat().st_size > _SIZE_LIMIT:
            return False
        content = json.loads(record.read_text(encoding="utf-8", errors="surrogateescape"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("format") == FORMAT and content.keys() >= _KEYS


def clear(run_dir: Path) -> None:
    """Make the directory, without what an earlier run left there. Files of others stay.

    The file that makes it ours goes last: killed half way, the directory can still be used again. Raises
    `ForeignDirectoryError`, and `OSError` when something cannot be removed.
    """
    require_usable(run_dir)
    clear_processes(run_dir)
    for path in list(run_dir.iterdir()):
        if _TALLY.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            path.unlink()
    _remove_programs(run_dir / PROGRAMS)
    for name in _FILES:
        (run_dir / name).unlink(missing_ok=True)


def clear_processes(run_dir: Path) -> None:
    """Make the directory, without what the probe recorded there. Raises `OSError`."""
    run_dir.mkdir(parents=True, exist_ok=True)
    for path in list(run_dir.iterdir()):
        if (_PROCESS.fullmatch(path.name) or _MEETING.fullmatch(path.name)) and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)


def _remove_programs(directory: Path) -> None:
    if directory.is_symlink() or not directory.is_dir():
        return
    for name in ("python", "python3"):
        (directory / name).unlink(missing_ok=True)
    if not any(directory.iterdir()):
        directory.rmdir()
