"""Golden files as arguments."""

from __future__ import annotations

from pathlib import Path

from pytest_traincheck.config import ConfigError, load
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.golden.store import golden_path
from pytest_traincheck.relations.stored import read_golden


def golden_named(text: str, file: Path | None = None) -> Golden:
    """The golden in the file `text`, or of the pipeline `text` that the configuration, or the one in `file`, has.
    Raises `GoldenError`.
    """
    path = Path(text)
    if not path.exists() and path.name == text:
        try:
            config = load(Path.cwd(), file)
        except ConfigError:
            # Then only a file can be meant, and reading it says what is wrong.
            return read_golden(path)
        if text in config.pipelines:
            return read_golden(golden_path(config.store, text))
    return read_golden(path)
