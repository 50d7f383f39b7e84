"""Which packs an audit takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_traincheck.audit_config import Allow
from pytest_traincheck.config import Config
from pytest_traincheck.packs import store
from pytest_traincheck.packs.model import Pack


@dataclass(frozen=True)
class AuditPlan:
    """What runs are audited with. `root` is the directory of the configuration."""

    packs: tuple[Pack, ...]
    allow: tuple[Allow, ...]
    root: Path


def audit_plan(config: Config) -> AuditPlan:
    """As configured. Raises `PackError`."""
    return AuditPlan(packs_for((), config, config.root), config.audit.allow, config.root)


def packs_for(named: Sequence[str], config: Config | None, cwd: Path) -> tuple[Pack, ...]:
    """The packs that are named on the command line; otherwise those that ship, and those of the configuration.

    Raises `PackError` for one that is not there or cannot be read.
    """
    if named:
        return tuple(_pack(name, cwd) for name in dict.fromkeys(named))
    own = config.audit.packs if config is not None else ()
    root = config.root if config is not None else cwd
    return (*map(store.shipped_pack, store.shipped()), *(_pack(name, root) for name in own))


def _pack(name: str, directory: Path) -> Pack:
    """A pack by the path of a file, or by the name of one that ships."""
    path = directory / name
    return store.read(path) if path.is_file() or name.endswith(store.SUFFIX) else store.shipped_pack(name)
