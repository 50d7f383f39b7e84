"""Whether a program is a Python that a run can be observed in; asked once of each."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from pytest_traincheck.launch.command import CommandError
from pytest_traincheck.launch.output import show_tail

OLDEST = (3, 8)
"""The oldest Python that can read the probe."""

_TIMEOUT_S = 60.0
_ANSWER = re.compile(r"traincheck-python (\d+)\.(\d+)")
# Every Python understands this one.
_QUESTION = "import sys; print('traincheck-python %d.%d' % sys.version_info[:2])"
_REMEDY = "give the path of a Python interpreter that has torch, for example .venv/bin/python"


def require_python(interpreter: Path) -> None:
    """Raise `CommandError` for a program that is no Python, and for a Python that is too old."""
    if interpreter == Path(sys.executable):
        return
    try:
        changed = interpreter.stat().st_mtime_ns
    except OSError as error:
        raise CommandError(
            f"the interpreter {interpreter} cannot be looked at: {error.strerror or error}", _REMEDY
        ) from error
    version = _version(interpreter, changed)
    if version < OLDEST:
        raise CommandError(
            f"the interpreter {interpreter} is Python {version[0]}.{version[1]}, and runs are observed in Python "
            f"{OLDEST[0]}.{OLDEST[1]} and later",
            _REMEDY,
        )


@lru_cache(maxsize=64)
def _version(interpreter: Path, changed: int) -> tuple[int, int]:  # noqa: ARG001 - another program under the same name
    try:
        done = subprocess.run(
            [interpreter, "-E", "-S", "-c", _QUESTION],
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        raise CommandError(
            f"the interpreter {interpreter} cannot be executed: {error.strerror or error}", _REMEDY
        ) from error
    except subprocess.TimeoutExpired as error:
        raise CommandError(
            f"the interpreter {interpreter} does not say which Python it is within {_TIMEOUT_S:g} s", _REMEDY
        ) from error
    found = _ANSWER.search(done.stdout.decode("utf-8", "replace"))
    if found is None:
        said = show_tail((done.stderr or done.stdout)[-1000:].decode("utf-8", "replace"), 1)
        said = f"it says `{said}`" if said else f"it ends with exit status {done.returncode}"
        raise CommandError(f"the interpreter {interpreter} is no Python: {said}", _REMEDY)
    return int(found[1]), int(found[2])
