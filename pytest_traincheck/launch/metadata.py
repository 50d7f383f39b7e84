"""What the processes of a run say about themselves: the `meta.json` files of a run directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SIZE_LIMIT = 32 * 2**20


def read_metas(run_dir: Path) -> list[dict[str, Any]]:
    """The readable `proc-*/meta.json` of a run, by rank, then by start. The trace reader judges the rest."""
    metas: list[dict[str, Any]] = []
    for path in sorted(run_dir.glob("proc-*/meta.json")):
        try:
            if path.stat().st_size > _SIZE_LIMIT:
                continue
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(content, dict):
            metas.append(content)
    return sorted(metas, key=lambda meta: (_number(meta.get("rank")), _number(meta.get("started"))))


def read_environment(run_dir: Path) -> Mapping[str, str]:
    """Environment fingerprint of a run: `platform` and the versions of Python, torch and key libraries.

    Workers import fewer libraries than the process that trains, so the versions of all processes are joined; the
    first rank wins. Empty when nothing was recorded.
    """
    environment: dict[str, str] = {}
    for meta in read_metas(run_dir):
        versions = meta.get("versions")
        if isinstance(versions, dict):
            for name, version in versions.items():
                if isinstance(version, str):
                    environment.setdefault(str(name), version)
        platform = meta.get("platform")
        if isinstance(platform, str):
            environment.setdefault("platform", platform)
    return dict(sorted(environment.items()))


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
