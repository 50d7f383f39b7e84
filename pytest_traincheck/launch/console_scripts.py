"""The commands that distributions bring, such as `torchrun`, for an environment that borrows the distributions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_TARGET = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)(?:\s*\[.*\])?")

# A shell finds the interpreter, whatever is in its path and however long that is; Python sees a string.
_SCRIPT = """\
#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import sys
from {module} import {name}
sys.exit({call}())
"""


def write_console_scripts(python: Path, targets: Mapping[str, str]) -> Sequence[str]:
    """A script beside `python` for each command that is not there; `targets` are as in entry points: `module:function`.

    A script of the base starts the base's interpreter, and would bring the base's versions into the run. Returns the
    names of what was written.
    """
    written = []
    if any(character in str(python) for character in '"$`\\\n'):
        return ()
    for name, target in sorted(targets.items()):
        match = _TARGET.fullmatch(target.strip())
        path = python.parent / name
        if match is None or not _NAME.fullmatch(name) or path.exists() or path.is_symlink():
            continue
        first = match[2].partition(".")[0]
        path.write_text(
            _SCRIPT.format(python=python, module=match[1], name=first, call=match[2]),
            encoding="utf-8",
            errors="surrogateescape",
        )
        path.chmod(0o755)
        written.append(name)
    return tuple(written)
