"""Incidents with the changed lines of the diff that touch them, where both trees are known.

Whatever goes wrong here is a note: a check never fails for want of a diff.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pytest_traincheck.check import hunks
from pytest_traincheck.check.ran import Ran
from pytest_traincheck.check.result import CheckResult, Incident
from pytest_traincheck.check.standing import Known
from pytest_traincheck.launch.changes import (
    MAX_FILES,
    Changes,
    Tree,
    between,
    commit_of_file,
    read_text,
    since_commit,
)
from pytest_traincheck.launch.git import find_commit, find_repository
from pytest_traincheck.launch.sides import CheckedOutSide, separation


def between_sides(result: CheckResult, golden: CheckedOutSide, candidate: CheckedOutSide, cwd: Path) -> CheckResult:
    """The result of a comparison of two trees that are both there; `cwd` is where the candidate ran."""

    def changed() -> tuple[Changes, Path]:
        old, new = _tree(golden, candidate), _tree(candidate, golden)
        return between(old, new), new.root

    return _attached(result, changed, cwd)


def since_golden(result: CheckResult, commit: str, golden: Path, cwd: Path) -> CheckResult:
    """The result of a check against the stored golden at the path `golden`, learned from `commit`."""

    def changed() -> tuple[Changes, Path]:
        repository = find_repository(cwd)
        if repository is None:
            return Changes(), cwd
        exact = commit if find_commit(repository.top, commit) else ""
        # Learned from a tree with changes of its own, or from a commit that was rebased or squashed: then from what was
        # committed together with the golden.
        return since_commit(exact or commit_of_file(golden), repository.top), repository.top

    return _attached(result, changed, cwd)


def _tree(side: CheckedOutSide, other: CheckedOutSide) -> Tree:
    root, _ = separation(side, other)
    whole = side.repository if root == side.root else None
    # Only a worktree that was made for this comparison is known to be as its commit has it.
    made = whole is not None and root.resolve() != whole.resolve()
    return Tree(root, whole, side.commit if made else "")


def _attached(result: CheckResult, changed: Callable[[], tuple[Changes, Path]], cwd: Path) -> CheckResult:
    if not result.incidents:
        return result
    try:
        changes, root = changed()
        named = {_as_in_source(root / path, cwd): texts for path, texts in changes.items()}
        ran = result.ran and result.ran.with_paths(lambda path: _as_in_source(path, cwd))
        found = hunks.attach(result.incidents, named, Known(ran, _sources(ran, root, cwd), changes.renamed))
        return replace(result, incidents=tuple(_with_short_path(incident, cwd) for incident in found))
    except Exception as error:  # noqa: BLE001 - the diff is a help to the reader; the verdict stands without it
        note = f"the changed lines behind the incidents could not be looked up: {type(error).__name__}: {error}"
        return replace(result, notes=(*result.notes, note))


def _sources(ran: Ran | None, root: Path, cwd: Path) -> dict[str, str]:
    """The texts of the candidate's own files that were imported, as far as they are short."""
    root, cwd = root.resolve(), cwd.resolve()
    paths = {name: cwd / name for name in sorted(ran.imported if ran else ())}
    own = [(name, path) for name, path in paths.items() if path.is_relative_to(root) and path.suffix == ".py"]
    texts = ((name, read_text(root, path.relative_to(root).as_posix())) for name, path in own[:MAX_FILES])
    return {name: text for name, text in texts if text}


def _as_in_source(path: Path, cwd: Path) -> str:
    """A file as the probe names it: from the directory that the run started in, absolute outside of it."""
    path, cwd = path.resolve(), cwd.resolve()
    return path.relative_to(cwd).as_posix() if path.is_relative_to(cwd) else str(path)


def _with_short_path(incident: Incident, cwd: Path) -> Incident:
    if incident.diff is None or not Path(incident.diff.file).is_absolute():
        return incident
    return replace(
        incident, diff=replace(incident.diff, file=Path(os.path.relpath(incident.diff.file, cwd.resolve())).as_posix())
    )
