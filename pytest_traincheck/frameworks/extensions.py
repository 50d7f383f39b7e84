"""What plug-ins tell the probe, as plain data: it travels into a process that may have none of them installed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .description import CallType, Framework, Observation, Wrapper

VARIABLE = "TRAINCHECK_EXTENSIONS"
"""The environment variable that takes them there."""

FRAMEWORK = "framework "
"""How the key of a framework begins in `digests`; that of an observation is its API."""


@dataclass(frozen=True)
class Extensions:
    """Observations and frameworks of plug-ins."""

    observations: tuple[Observation, ...] = ()
    frameworks: tuple[Framework, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.observations or self.frameworks)

    def to_text(self) -> str:
        """All of it as one line."""
        return json.dumps(
            {
                "observations": [asdict(item) for item in self.observations],
                "frameworks": [asdict(item) for item in self.frameworks],
            },
            sort_keys=True,
        )

    @staticmethod
    def from_text(text: str) -> Extensions:
        """What `to_text` wrote. Raises `ValueError`, `KeyError` or `TypeError` for anything else."""
        content = json.loads(text)
        return Extensions(
            tuple(_observation(item) for item in content["observations"]),
            tuple(_framework(item) for item in content["frameworks"]),
        )

    @property
    def digests(self) -> Mapping[str, str]:
        """Each by its key, with a hash of all that is said of it: two traces are alike only where these are."""
        named = {item.api: asdict(item) for item in self.observations}
        named |= {FRAMEWORK + item.name: asdict(item) for item in self.frameworks}
        return {key: _digest(content) for key, content in sorted(named.items())}


NONE = Extensions()


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=6).hexdigest()


def _observation(item: Mapping[str, Any]) -> Observation:
    return Observation(item["target"], tuple(item["arguments"]), CallType(item["type"]))


def _framework(item: Mapping[str, Any]) -> Framework:
    wrappers = tuple(Wrapper(**wrapper) for wrapper in item["wrappers"])
    texts = {name: tuple(item[name]) for name in ("versions", "parallel", "samplers")}
    return Framework(item["name"], wrappers=wrappers, **texts)
