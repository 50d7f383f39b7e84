"""The last check of each pipeline on this machine, so that what it found can be accepted by its id."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.config import Config
from pytest_traincheck.launch.cache import Cache, CacheBusyError, cache_directory
from pytest_traincheck.report.errors import ReportError
from pytest_traincheck.report.json_report import write_json

_FILE = "result.json"
_MAX_BYTES = 32 * 1024 * 1024
_MAX_AGE_S = 60 * 24 * 3600.0
_PATIENCE_S = 10.0


def remember(config: Config, result: CheckResult) -> None:
    """Keep the result in place of the former one. What cannot be kept can be given as a file."""
    cache, key = _cache(), _key(config, result.pipeline)
    with suppress(OSError, ReportError, CacheBusyError), cache.hold(key, _PATIENCE_S):
        cache.keep(key, lambda directory: write_json(directory / _FILE, [result]))


def recall(config: Config, pipeline: str) -> Mapping[str, Any] | None:
    """The JSON object of the last check of a pipeline; None when there was none, or it cannot be read."""
    found = recall_with_time(config, pipeline)
    return None if found is None else found[1]


def recall_with_time(config: Config, pipeline: str) -> tuple[float, Mapping[str, Any]] | None:
    """As `recall`, behind the time of that check in seconds since the epoch."""
    entry = _cache().find(_key(config, pipeline))
    content = None if entry is None else read(entry / _FILE)
    if entry is None or content is None:
        return None
    try:
        return (entry / _FILE).stat().st_mtime, content
    except OSError:
        return None


def read(path: Path) -> Mapping[str, Any] | None:
    """The JSON object in a file; None when there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _cache() -> Cache:
    return Cache(cache_directory("checks"), _MAX_BYTES, _MAX_AGE_S)


def _key(config: Config, pipeline: str) -> str:
    return hashlib.blake2b(os.fsencode(config.source.resolve()) + f"\0{pipeline}".encode(), digest_size=16).hexdigest()
