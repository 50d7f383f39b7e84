"""What plug-ins tell the probe, as plain data: it travels into a process that may have none of them installed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
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
        return _text({"observations": _said(self.observations), "frameworks": _said(self.frameworks)})

    @staticmethod
    def from_text(text: str) -> Extensions:
        """What `to_text` wrote. Raises `ValueError`, `KeyError`, `TypeError` or `AttributeError` for anything else."""
        content = json.loads(text)
        return Extensions(
            tuple(_observation(item) for item in content["observations"]),
            tuple(_framework(item) for item in content["frameworks"]),
        )

    @property
    def digests(self) -> Mapping[str, str]:
        """Each by its key, with a hash of all that is said of it: two traces are alike only where these are."""
        named: dict[str, Any] = {item.api: item for item in self.observations}
        named |= {FRAMEWORK + item.name: item for item in self.frameworks}
        return {key: _digest(_text(_said(item))) for key, item in sorted(named.items())}


NONE = Extensions()


def _said(value: Any) -> Any:
    """As JSON has it, without what is as it is by default: what is added to a description later changes no hash."""
    if isinstance(value, (list, tuple)):
        return [_said(item) for item in value]
    if is_dataclass(value):
        given = {field.name: getattr(value, field.name) for field in fields(value) if not _is_default(field, value)}
        return {name: _said(item) for name, item in given.items()}
    return value


def _is_default(field: Field[Any], item: Any) -> bool:
    return field.default is not MISSING and getattr(item, field.name) == field.default


def _text(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _observation(item: Mapping[str, Any]) -> Observation:
    kind = CallType(item.get("type", CallType.OBSERVED))
    return Observation(item["target"], tuple(item.get("arguments", ())), kind)


def _framework(item: Mapping[str, Any]) -> Framework:
    wrappers = tuple(Wrapper(**wrapper) for wrapper in item.get("wrappers", ()))
    observations = tuple(_observation(observation) for observation in item.get("observations", ()))
    texts = {name: tuple(value) for name, value in item.items() if name not in ("name", "wrappers", "observations")}
    return Framework(item["name"], wrappers=wrappers, observations=observations, **texts)
