"""Goldens in the store that nothing uses any more."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from pytest_traincheck.config import Config
from pytest_traincheck.golden import store
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import IN_PROCESS

NUMBERS_SUFFIX = ".npz"


def unused_goldens(config: Config, used_in_tests: Collection[str] | None = None) -> tuple[tuple[Path, ...], ...]:
    """The files of each golden that belongs to no configured pipeline, rules first.

    `used_in_tests` are those that the fixture has used; None where no test has run: then a golden that was learned
    inside of a test counts as used.
    """
    try:
        files = sorted(config.store.iterdir())
    except OSError:
        return ()
    names = {path.name.removesuffix(store.SUFFIX) for path in files if path.suffix == store.SUFFIX}
    # `NAME.PLATFORM.npz`, and a platform has no dot.
    numbers = {path: path.stem.rpartition(".")[0] for path in files if path.suffix == NUMBERS_SUFFIX}
    found = []
    for name in sorted(names | set(numbers.values())):
        path = config.store / f"{name}{store.SUFFIX}"
        if name in config.pipelines or name.startswith(".") or (used_in_tests is not None and name in used_in_tests):
            continue
        if used_in_tests is None and _is_of_a_test(path):
            continue
        found.append((*([path] if name in names else []), *(file for file, owner in numbers.items() if owner == name)))
    return tuple(found)


def unused_text(goldens: Sequence[Sequence[Path]], start: Path, *, with_command: bool) -> tuple[str, ...]:
    """One note for all of them, where there are any; `with_command` that deletes them when it is run in `start`."""
    if not goldens:
        return ()
    files = [Path(os.path.relpath(file, start)).as_posix() for golden in goldens for file in golden]
    verb = "is a golden" if len(goldens) == 1 else "are goldens"
    listed = ", ".join(Path(os.path.relpath(golden[0], start)).as_posix() for golden in goldens)
    note = f"{listed} {verb} that no pipeline uses"
    if with_command:
        return (f"{note}; delete what is not wanted: git rm {shlex.join(files)}",)
    return (f"{note}; configure the pipeline, or delete it (`traincheck refresh` shows the command)",)


def _is_of_a_test(path: Path) -> bool:
    try:
        return store.read(path).spec.startswith(IN_PROCESS)
    except GoldenError:
        return False
