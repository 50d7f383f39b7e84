"""Where a first pipeline begins: the files of a directory, what of them is data, and how its programs are reached."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from pytest_traincheck.config import PYPROJECT, STANDALONE, Config, load_nearest, unusable_link
from pytest_traincheck.launch.git import GitError, find_commit, find_repository, git, git_output
from pytest_traincheck.launch.untracked import untracked_part
from pytest_traincheck.scripts.model import Script
from pytest_traincheck.scripts.proposal import Proposal

_ENVIRONMENTS = (".venv", "venv", "env", ".env")
_MOST = 50_000
_SKIPPED = frozenset({".git", "__pycache__", "node_modules", "site-packages"})


@dataclass(frozen=True)
class Place:
    """The directory that is looked at, and what is known of it. `root` is where the configuration lies, or will.

    `files` are relative to `root`, with `/`. `ref` is set where a worktree of the last commit has all that matters.
    """

    root: Path
    source: Path
    config: Config | None
    files: tuple[str, ...]
    tracked: frozenset[str]
    clean: bool

    @property
    def taken(self) -> frozenset[str]:
        """Names that pipelines and goldens have."""
        store = self.config.store if self.config is not None else self.root / "golden_invariants"
        goldens = {path.stem for path in store.glob("*.jsonl")} if store.is_dir() else set()
        return frozenset(goldens | set(self.config.pipelines if self.config is not None else ()))

    def is_committed(self, paths: Sequence[str]) -> bool:
        """Whether a worktree of the last commit has these files as they are."""
        return self.clean and self.tracked.issuperset(paths)


def look_around(start: Path) -> Place:
    """What is there at and below the directory of the nearest configuration, or `start` where there is none.

    Raises `ConfigError` for a configuration that cannot be used.
    """
    config = load_nearest(start)
    root = config.root if config is not None else start.absolute()
    source = config.source if config is not None else _file_for(root)
    repository = find_repository(root)
    if repository is None:
        return Place(root, source, config, tuple(_walked(root)), frozenset(), clean=False)
    try:
        tracked = _listed(root)
        others = _listed(root, "--others", "--exclude-standard")
        changed = git(root, "status", "--porcelain", "--untracked-files=no")
    except GitError:
        return Place(root, source, config, tuple(_walked(root)), frozenset(), clean=False)
    clean = not changed and find_commit(root, "HEAD") is not None
    return Place(root, source, config, (*tracked, *others), frozenset(tracked), clean)


def _file_for(root: Path) -> Path:
    """The file that a first configuration is written to: the project's own where it has one."""
    pyproject = root / PYPROJECT
    return pyproject if pyproject.is_file() else root / STANDALONE


def _listed(root: Path, *options: str) -> list[str]:
    return [name for name in git_output(root, "ls-files", "-z", *options).split("\0") if name]


def _walked(root: Path) -> list[str]:
    found: list[str] = []
    for directory, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
        here = Path(directory).relative_to(root).as_posix()
        found += [name if here == "." else f"{here}/{name}" for name in files]
        if len(found) > _MOST:
            break
    return found


def links(place: Place, proposal: Proposal) -> tuple[str, ...]:
    """Untracked paths that the script or its options name: worktrees need them. Not what it writes."""
    if not place.tracked:
        return ()
    script = proposal.script
    texts = [*proposal.run.replace("=", " ").split()]
    if script is not None:
        texts += script.texts
        texts += [str(option.default) for option in script.options if isinstance(option.default, str)]
    folders = ["."] if script is None else [".", PurePosixPath(script.path).parent.as_posix()]
    found: list[str] = []
    for text in dict.fromkeys(texts):
        for folder in folders:
            name = _untracked_data(place.root, text, folder)
            if name and name not in found:
                found.append(name)
    return tuple(name for name in found if not any(name.startswith(f"{other}/") for other in found))


def _untracked_data(root: Path, text: str, folder: str) -> str:
    place = os.path.normpath(root / folder / text)
    try:
        if not os.path.lexists(place) or Path(place) == root:
            return ""
        name = untracked_part(root, os.path.relpath(place, root))
    except (OSError, ValueError):
        return ""
    is_environment = bool(name) and (root / str(name) / "pyvenv.cfg").exists()
    return "" if not name or unusable_link(name) or is_environment or name.endswith(".py") else name


def interpreter(place: Place) -> str | None:
    """The interpreter to configure: that of an environment in the tree, where the one that runs us has no torch."""
    if place.config is not None or find_spec("torch") is not None:
        return None
    for name in _ENVIRONMENTS:
        program = place.root / name / "bin" / "python"
        if program.exists() and any((place.root / name).glob("lib/python*/site-packages/torch")):
            return f"{name}/bin/python"
    return None


def covered(place: Place, script: Script) -> str:
    """The configured pipeline that runs a script, or nothing."""
    names = {script.path, script.path.removesuffix(".py").replace("/", ".")}
    for spec in place.config.pipelines.values() if place.config is not None else ():
        words = {word if spec.cwd == "." or "/" in word else f"{spec.cwd}/{word}" for word in spec.run.split()}
        if names & {*words, *(os.path.normpath(word) for word in words)}:
            return spec.name
    return ""
