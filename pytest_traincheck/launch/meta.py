"""What processes say of themselves in a trace, without what is nobody's business.

The probe writes the words that a process was started with as they are. The traces are kept (`--artifacts`) and shown,
so passwords are hidden in them when the run has ended, and the path of a run's own directory becomes `{tmp}` again.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_traincheck.launch import command as command_line
from pytest_traincheck.redaction import redacted_words

META = "proc-*/meta.json"


def hide(run_dir: Path, tmp: Path | None) -> None:
    """Rewrite the `argv` of every process of a run. What cannot be read or written is left: its reader says so."""
    for path in sorted(run_dir.glob(META)):
        try:
            content = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        words = content.get("argv") if isinstance(content, dict) else None
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            continue
        shown = [word if tmp is None else word.replace(str(tmp), command_line.TMP) for word in words]
        shown = redacted_words(shown)
        if shown != words:
            rewrite(path, {**content, "argv": shown})


def rewrite(path: Path, content: Mapping[str, Any]) -> None:
    """Put other content into what a process says of itself. What cannot be written is left."""
    text = json.dumps(content, indent=1)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".meta-")
    except OSError:
        return
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
