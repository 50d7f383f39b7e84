"""Whether a process was ended by a limit of its run, as its `meta.json` says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def left_at_limit(meta: Mapping[str, Any]) -> bool:
    """Whether its training was left behind the last step that was asked for."""
    return _told(meta).get("ended") is True


def cut_at_limit(meta: Mapping[str, Any]) -> bool:
    """Whether it was ended in the middle of a step, when its time was over. Its trace holds what it did until then."""
    return _told(meta).get("cut") is True


def _told(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    told = meta.get("limit")
    return told if isinstance(told, Mapping) else {}
