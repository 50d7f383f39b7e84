"""Verifies that a side imported its own code: comparing the candidate with itself would always pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_traincheck.launch.environment import BOOTSTRAP
from pytest_traincheck.launch.metadata import read_metas

_PROBE = BOOTSTRAP.parent


@dataclass(frozen=True)
class Breach:
    """A module that came from the other side's tree."""

    module: Path
    forbidden_root: Path
    count: int

    def message(self, side: str, source_root: Path | None) -> str:
        more = f" and {self.count - 1} more" if self.count > 1 else ""
        return (
            f"the {side} run imported {self.module}{more} from {self.forbidden_root}, the other side's tree, "
            f"instead of from {source_root or 'its own'}"
        )

    @property
    def remedy(self) -> str:
        return (
            "An editable install of the project probably points there. Uninstall it from the interpreter of this side "
            "(`python -m pip uninstall NAME`), or give each side an interpreter of its own with --golden-python and "
            "--candidate-python."
        )


def find_breach(run_dir: Path, source_root: Path | None, forbidden_roots: Sequence[Path]) -> Breach | None:
    """The first imported module file, by name, that lies in a forbidden tree and not in the source tree.

    Trees may lie inside one another, as a worktree does below its repository: the innermost one that holds a file
    is the one it belongs to.
    """
    own = source_root.resolve() if source_root is not None else None
    forbidden = [root.resolve() for root in forbidden_roots]
    foreign: dict[Path, Path] = {}
    for meta in read_metas(run_dir):
        modules = meta.get("modules")
        if not isinstance(modules, list):
            continue
        cwd = Path(str(meta.get("cwd") or "."))
        for name in modules:
            if not isinstance(name, str) or "\0" in name:
                continue
            file = (cwd / name).resolve()
            # The probe is ours, wherever this package is installed.
            if file.is_relative_to(_PROBE):
                continue
            root = _innermost(file, own, forbidden)
            if root is not None and root != own:
                foreign[file] = root
    if not foreign:
        return None
    first = min(foreign)
    return Breach(first, foreign[first], len(foreign))


def _innermost(file: Path, own: Path | None, forbidden: Sequence[Path]) -> Path | None:
    roots = [root for root in (own, *forbidden) if root is not None and file.is_relative_to(root)]
    return max(roots, key=lambda root: len(root.parts), default=None)
