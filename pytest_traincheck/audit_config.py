"""`[tool.traincheck.audit]`: packs of a company's own, how long a run is looked at, and findings that are allowed."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_traincheck.toml_table import Table

AUDIT_KEYS = ("packs", "steps", "allow")
ALLOW_KEYS = ("law", "reason", "owner", "expires", "paths")

DEFAULT_STEPS = 8
DEFAULT_SECONDS = 300.0


@dataclass(frozen=True)
class Allow:
    """A rule of a pack that may be broken, and why.

    With `paths` only where the line of the finding is in one of these files, given as globs from the directory of the
    configuration; with `expires` only up to that day.
    """

    law: str
    reason: str
    owner: str = ""
    expires: datetime.date | None = None
    paths: tuple[str, ...] = ()

    def has_expired(self, today: datetime.date) -> bool:
        return self.expires is not None and self.expires < today


@dataclass(frozen=True)
class AuditConfig:
    """How configured audits are made. `packs` are names, or paths from the directory of the configuration."""

    packs: tuple[str, ...] = ()
    steps: int = DEFAULT_STEPS
    allow: tuple[Allow, ...] = ()


def audit_config(table: Table) -> AuditConfig:
    """Reads the table. Raises `ConfigError`."""
    table.allow(AUDIT_KEYS)
    return AuditConfig(tuple(table.texts("packs")), _steps(table), _allow(table))


def _steps(table: Table) -> int:
    value = table.content.get("steps", DEFAULT_STEPS)
    if type(value) is not int or value < 1:
        raise table.error("steps", f"is {value!r}", "Write a whole number above 0: steps = 8")
    return value


def _allow(table: Table) -> tuple[Allow, ...]:
    entries = table.content.get("allow", [])
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise table.error("allow", "must be an array of tables", "Write [[tool.traincheck.audit.allow]] for each")
    return tuple(_entry(table, number, entry) for number, entry in enumerate(entries, start=1))


def _entry(table: Table, number: int, entry: Mapping[str, Any]) -> Allow:
    inner = Table(table.source, f"{table.prefix}allow[{number}].", entry)
    inner.allow(ALLOW_KEYS)
    for key, example in (("law", '"zero-grad"'), ("reason", '"gradients are kept on purpose: large batches"')):
        if key not in entry:
            raise inner.error(key, "is missing", f"Write {key} = {example}")
    expires = entry.get("expires")
    if expires is not None and (not isinstance(expires, datetime.date) or isinstance(expires, datetime.datetime)):
        raise inner.error("expires", f"is {expires!r}", "Write a day without quotes: expires = 2027-01-31")
    return Allow(
        law=inner.text("law", ""),
        reason=inner.text("reason", ""),
        owner=inner.optional_text("owner") or "",
        expires=expires,
        paths=tuple(inner.texts("paths")),
    )
