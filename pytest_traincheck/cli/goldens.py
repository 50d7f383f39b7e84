"""Goldens as arguments: a file, the name of a configured pipeline, or a git ref, whose committed goldens are meant."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_traincheck.config import Config, ConfigError, load
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.golden.store import SIZE_LIMIT, golden_path
from pytest_traincheck.launch.git import GitError, find_commit, find_repository, git_output
from pytest_traincheck.relations.stored import read_golden


@dataclass(frozen=True)
class Committed:
    """The goldens of a commit, as a ref names it."""

    ref: str
    commit: str
    config: Config

    def golden(self, name: str) -> Golden | None:
        """That of a pipeline, None where the commit has none. Raises `GoldenError`."""
        path = golden_path(self.config.store, name)
        repository = find_repository(self.config.root)
        if repository is None or not path.resolve().is_relative_to(repository.top.resolve()):
            return None
        place = f"{self.commit}:{path.resolve().relative_to(repository.top.resolve()).as_posix()}"
        try:
            if int(git_output(repository.top, "cat-file", "-s", place)) > SIZE_LIMIT:
                raise GoldenError(f"{path} is too large at {self.ref} to be a golden. Give another ref.")
            text = git_output(repository.top, "cat-file", "blob", place)
        except GitError:
            return None
        with tempfile.TemporaryDirectory(prefix="traincheck-golden-") as directory:
            copy = Path(directory) / path.name
            copy.write_text(text, encoding="utf-8", errors="surrogateescape")
            return read_golden(copy)


def golden_named(text: str, file: Path | None = None) -> Golden:
    """The golden in the file `text`, or of the pipeline `text` that the configuration, or the one in `file`, has.
    Raises `GoldenError`.
    """
    path = Path(text)
    config = _configuration(file) if not path.exists() and path.name == text else None
    if config is not None and text in config.pipelines:
        return read_golden(golden_path(config.store, text))
    return read_golden(path)


def pairs(old: str, new: str, file: Path | None = None) -> Iterator[tuple[str, Golden | None, Golden | None]]:
    """The goldens that two arguments mean, by pipeline; None where a commit has none. Raises `GoldenError`."""
    sides = _commit(old, file), _commit(new, file)
    if not any(sides):
        first = golden_named(old, file)
        yield first.pipeline, first, golden_named(new, file)
        return
    names = [golden_named(text, file).pipeline for text, side in zip((old, new), sides, strict=True) if side is None]
    known = next(side for side in sides if side is not None)
    for name in names or known.config.pipelines:
        found = [
            golden_named(text, file) if side is None else side.golden(name)
            for text, side in zip((old, new), sides, strict=True)
        ]
        yield name, found[0], found[1]


def _commit(text: str, file: Path | None) -> Committed | None:
    """What a ref means; None for a file and for the name of a pipeline, which are looked for first."""
    config = None if Path(text).exists() else _configuration(file)
    if config is None or text in config.pipelines:
        return None
    commit = find_commit(config.root, text)
    return Committed(text, commit, config) if commit is not None else None


def _configuration(file: Path | None) -> Config | None:
    try:
        return load(Path.cwd(), file)
    except ConfigError:
        # Then only a file can be meant, and reading it says what is wrong.
        return None
