"""All kinds of mistakes: ours and those of plug-ins."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from pytest_traincheck.mutants.catalogue import CENSUS, KINDS
from pytest_traincheck.mutants.kind import Kind, Mistake
from pytest_traincheck.plugins import PluginError, implementations, items_of

HOOK = "pytest_traincheck_mistakes"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def known_kinds() -> tuple[Kind, ...]:
    """Ours first. Raises `PluginError` where what a plug-in gives cannot be planted."""
    found: dict[str, Kind] = {kind.name: kind for kind in KINDS}
    for given in implementations(HOOK):
        for mistake in items_of(given, HOOK):
            if not isinstance(mistake, Mistake):
                raise PluginError(
                    f"{given.owner}: {mistake!r} is no kind of mistake. Return instances of "
                    "`pytest_traincheck.api.Mistake`."
                )
            if not _NAME.fullmatch(mistake.name) or mistake.name == CENSUS:
                raise PluginError(
                    f"{given.owner}: a mistake cannot be named {mistake.name!r}. Use small letters, digits and `-`."
                )
            if mistake.name in found:
                raise PluginError(
                    f"{given.owner}: two kinds of mistakes are named {mistake.name!r}. Rename the one of your plug-in."
                )
            if not mistake.file.is_file():
                raise PluginError(
                    f"{given.owner}: there is no {mistake.file}, which is to plant {mistake.name!r}. Name the file "
                    "that holds its function, and ship it with the package."
                )
            found[mistake.name] = mistake
    return tuple(found.values())


def files_of(kinds: Iterable[Kind]) -> tuple[Path, ...]:
    """What the training process has to run to plant these, each file once."""
    return tuple(dict.fromkeys(kind.file.resolve() for kind in kinds if isinstance(kind, Mistake)))
