"""What a check needs, looked at piece by piece: where one of them does not work, which, why, and what to do."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from pathlib import Path

from pytest_traincheck import __version__
from pytest_traincheck.config import STORED, Config, ConfigError, load
from pytest_traincheck.golden.store import golden_path
from pytest_traincheck.launch.cache import cache_root
from pytest_traincheck.launch.command import CommandError
from pytest_traincheck.launch.fingerprint import accelerators
from pytest_traincheck.launch.git import GitError, find_commit, find_repository, git, is_shallow
from pytest_traincheck.launch.link import LinkError, check_links
from pytest_traincheck.launch.torch_of import describe
from pytest_traincheck.launch.untracked import untracked_words
from pytest_traincheck.launch.worktree import WorktreeError, temporary_worktree
from pytest_traincheck.redaction import redacted
from pytest_traincheck.text import plural

_PREFIXES = ("CUDA_", "MKL_", "NO_COLOR", "OMP_", "PYTEST_ADDOPTS", "PYTHON", "TORCH", "TRAINCHECK_", "VIRTUAL_ENV")
"""How variables begin that a run or a check may depend on."""
_ROOM = 1 << 30
"""Bytes of disk that a check of a small pipeline may take for worktrees and traces."""


class Level(Enum):
    """How a piece is."""

    FINE = "ok"
    NOTE = "note"
    """Works; something about it is good to know, or will be in the way of some commands."""
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """One piece: what it is, how it is, and what to do where it does not work."""

    subject: str
    level: Level
    said: str
    remedy: str = ""


def examine(start: Path, file: Path | None = None, *, everything: bool = False) -> Iterator[Finding]:
    """Look at everything that a check in the directory `start` needs, in the order in which it needs it; at last at
    the variables that have an influence, where `everything` is wanted.

    Nothing is trained. Interpreters are asked to import torch, which takes seconds; a worktree is made and removed.
    """
    yield Finding("traincheck", Level.FINE, f"{__version__}, in Python {platform.python_version()}")
    config = None
    try:
        config = load(start, file)
    except ConfigError as error:
        yield Finding("configuration", Level.WRONG, str(error))
    else:
        yield Finding("configuration", Level.FINE, f"{config.source}, {plural(len(config.pipelines), 'pipeline')}")
    yield from _interpreters(config)
    yield from _repository(start if config is None else config.root)
    if config is not None:
        yield from _data(config)
        yield from _goldens(config)
    yield _gpu()
    yield from _disk()
    yield from _pytest()
    if everything:
        yield _variables()


def _variables() -> Finding:
    """What of the environment runs and checks depend on."""
    found = [redacted(f"{name}={value}") for name, value in sorted(os.environ.items()) if name.startswith(_PREFIXES)]
    return Finding("variables", Level.FINE, ", ".join(found) or "none")


def _interpreters(config: Config | None) -> Iterator[Finding]:
    """What runs the pipelines: the interpreters that the configuration names, or the one that runs us."""
    sides: dict[str | None, list[str]] = {}
    if config is None:
        sides[None] = []
    else:
        sides.setdefault(config.golden_python or config.python, []).append("golden")
        sides.setdefault(config.candidate_python or config.python, []).append("candidate")
    for python, names in sides.items():
        subject = "interpreter" if len(sides) == 1 else f"interpreter ({', '.join(names)})"
        try:
            found = describe(python)
        except CommandError as error:
            yield Finding(subject, Level.WRONG, str(error), error.remedy)
            continue
        said = f"{found.path}, Python {found.python}"
        if not found.torch:
            install = f"{found.path} -m pip install torch"
            why = f"torch cannot be imported: {found.failure}"
            yield Finding(
                subject, Level.WRONG, f"{said}; {why}", f"Run `{install}`, or name another one with `python`."
            )
            continue
        cuda = f", {plural(found.gpus, 'GPU')} that torch can use" if found.gpus else ""
        yield Finding(subject, Level.FINE, f"{said}, torch {found.torch}{cuda}")
        if not found.core:
            yield Finding(
                "recorder", Level.NOTE, f"that of Python, since the compiled one does not load there: {found.no_core}",
                "Traces and verdicts are the same; training under observation takes longer.",
            )  # fmt: skip


def _repository(root: Path) -> Iterator[Finding]:
    """Git, the repository, and whether a worktree of it can be made, which `--golden REF` needs."""
    needed = "Commands that take a ref (`--golden main`, compare, bisect) need it; stored goldens do not."
    if shutil.which("git") is None:
        yield Finding("git", Level.NOTE, "not installed", needed)
        return
    repository = find_repository(root)
    if repository is None:
        yield Finding("git", Level.NOTE, f"{root} is in no repository", needed)
        return
    commit = find_commit(root, "HEAD")
    if commit is None:
        yield Finding("git", Level.NOTE, f"{repository.top} has no commit yet", needed)
        return
    try:
        with temporary_worktree(repository.top, commit, checkout=False):
            pass
    except (WorktreeError, GitError) as error:
        yield Finding("git", Level.WRONG, f"no worktree of {repository.top} can be made", str(error))
        return
    yield Finding("git", Level.FINE, f"{repository.top} at {commit[:12]}, a worktree of it can be made")
    if is_shallow(root):
        yield Finding(
            "history", Level.NOTE, "a shallow clone: other branches and older commits are not here",
            "Run `git fetch --unshallow`, or set `fetch-depth: 0` in CI, for `--golden REF` and bisect.",
        )  # fmt: skip
    changed = git(repository.top, "status", "--porcelain", "--untracked-files=no").splitlines()
    if changed:
        yield Finding("changes", Level.NOTE, f"tracked files that differ from the commit: {len(changed)}")


def _data(config: Config) -> Iterator[Finding]:
    """Untracked files that pipelines name: a worktree does not have them unless `link` lets it see them."""
    if find_repository(config.root) is None:
        return
    for spec in config.pipelines.values():
        try:
            check_links(spec.link, config.root)
        except LinkError as error:
            yield Finding(f"data of {spec.name}", Level.WRONG, str(error))
            continue
        missing = [
            word for word in untracked_words(spec.run, config.root / spec.cwd, config.root) if word not in spec.link
        ]
        if missing:
            listed = ", ".join(f'"{word}"' for word in (*spec.link, *missing))
            yield Finding(
                f"data of {spec.name}", Level.NOTE, f"git does not track {', '.join(missing)}, which its command names",
                f"Write `link = [{listed}]` below the pipeline, so that worktrees see it.",
            )  # fmt: skip


def _goldens(config: Config) -> Iterator[Finding]:
    lacking = [name for name in config.pipelines if not golden_path(config.store, name).exists()]
    if config.golden == STORED and lacking:
        yield Finding(
            "goldens", Level.NOTE, f"none of {', '.join(lacking)} in {config.store}",
            f"Run `traincheck refresh {' '.join(lacking)}` on code that is right.",
        )  # fmt: skip
    elif config.golden == STORED:
        yield Finding("goldens", Level.FINE, f"one of each pipeline in {config.store}")


def _gpu() -> Finding:
    found = accelerators()
    return Finding("GPU", Level.FINE, "; ".join(found) if found else "none that the system names")


def _disk() -> Iterator[Finding]:
    """Where worktrees and traces go, and what is kept between commands."""
    places: tuple[tuple[str, Callable[[], Path], str], ...] = (
        ("temporary files", lambda: Path(tempfile.gettempdir()), "TMPDIR"),
        ("cache", cache_root, "TRAINCHECK_CACHE_DIR"),
    )
    for subject, place, variable in places:
        remedy = f"Make room there, or set {variable} to another directory."
        try:
            directory = place()
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory) as file:
                file.write(b"\0")
            free = shutil.disk_usage(directory).free
        except OSError as error:
            yield Finding(subject, Level.WRONG, f"cannot be written: {error}", remedy)
            continue
        said = f"{directory}, {free / (1 << 30):.1f} GiB free"
        yield Finding(subject, Level.FINE, said) if free > _ROOM else Finding(subject, Level.NOTE, said, remedy)


def _pytest() -> Iterator[Finding]:
    """Whether pytest loads the plugin, and what else of pytest's changes how it works."""
    version = metadata.version("pytest")
    if not any(entry.value.startswith("pytest_traincheck") for entry in metadata.entry_points(group="pytest11")):
        yield Finding(
            "pytest", Level.WRONG, f"{version} does not know the plugin",
            "Install pytest-traincheck into this environment again: `pip install --force-reinstall pytest-traincheck`.",
        )  # fmt: skip
        return
    try:
        xdist = f", with pytest-xdist {metadata.version('pytest-xdist')}: `-n` trains pipelines at the same time"
    except metadata.PackageNotFoundError:
        xdist = ", without pytest-xdist; `--traincheck-jobs` runs several trainings at a time"
    yield Finding("pytest", Level.FINE, f"{version} loads the plugin{xdist}")
