"""Which rows of a process were let go while it was watched, as `gone.json` beside them says."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_traincheck.trace.errors import damaged

FILE = "gone.json"


def note_gone(process: Path, first: int, last: int) -> None:
    """Say that rows `first` to `last` (without it) are no longer there. Raises `OSError`."""
    temporary = process / f"{FILE}.new"
    temporary.write_text(json.dumps({"rows": [first, last]}), encoding="utf-8")
    temporary.replace(process / FILE)


def gone_rows(process: Path) -> tuple[int, int]:
    """The rows that are no longer there: the first, and the first that is there again. Raises `TraceError`."""
    path = process / FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return 0, 0
    except (OSError, UnicodeDecodeError) as error:
        raise damaged(path, str(error)) from error
    try:
        first, last = json.loads(text)["rows"]
        if type(first) is int and type(last) is int and 0 <= first <= last < 1 << 40:
            return first, last
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise damaged(path, "it does not say which rows")
