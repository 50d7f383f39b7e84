"""The environment variables of a run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_traincheck.frameworks.extensions import NONE, Extensions
from pytest_traincheck.frameworks.extensions import VARIABLE as EXTENSIONS
from pytest_traincheck.launch.limit import Limit
from pytest_traincheck.looks import NOTHING, Looks, to_text
from pytest_traincheck.looks import VARIABLE as NOT_NEEDED

BOOTSTRAP = Path(__file__).resolve().parent.parent / "probe" / "bootstrap"
"""Holds the `sitecustomize` through which the probe gets into every Python process."""

TRACE_DIR = "TRAINCHECK_TRACE_DIR"
PATH_GIVEN = "TRAINCHECK_PYTHONPATH"
"""What the command is given as `PYTHONPATH` where it had none, as the `sitecustomize` has to know it."""
SEED = "TRAINCHECK_SEED"
SEED_BY = "TRAINCHECK_SEED_BY"
"""Who seeds the generators, see `probe.seeds`."""
HASH_SEED = "PYTHONHASHSEED"
RUN_ID = "TRAINCHECK_RUN_ID"
# Read by the probe's `own_tree`.
OWN_TREE = "TRAINCHECK_OWN_TREE"
FORBIDDEN_TREES = "TRAINCHECK_FORBIDDEN_TREES"
SAMPLING = "TRAINCHECK_SAMPLING"
"""Which steps are observed, as JSON; see `Sampled`."""
LIMIT = "TRAINCHECK_LIMIT"
"""When the run is ended, as JSON; see `limit.Limit`."""
MUTANT = "TRAINCHECK_MUTANT"
"""The kind of mistake that is planted into the run, see `pytest_traincheck.mutants`."""
MUTANT_FILES = "TRAINCHECK_MUTANT_FILES"
"""What plug-ins plant: a list of files, as JSON."""


@dataclass(frozen=True)
class Sampled:
    """Which steps of a long training are observed: `head` first ones, and then one in `every`.

    With `every` None so few that observing takes no more than `share` (between 0 and 1) of a training's time.
    """

    every: int | None
    head: int
    share: float

    def to_text(self) -> str:
        return json.dumps({"every": self.every, "head": self.head, "share": self.share})


def child_environment(
    base: Mapping[str, str],
    *,
    run_dir: Path,
    run_id: str,
    path_first: Sequence[Path],
    interpreter: Path,
    seed: int | None = None,
    seed_env: str | None = None,
    seed_by: str | None = None,
    source_root: Path | None = None,
    forbidden_roots: Sequence[Path] = (),
    mutant: str = "",
    mutant_files: Sequence[Path] = (),
    extensions: Extensions = NONE,
    sampled: Sampled | None = None,
    limit: Limit | None = None,
    not_needed: Looks = NOTHING,
) -> dict[str, str]:
    """`base` with what a run adds to it. `base` already holds the user's own variables for this run."""
    env = dict(base)
    env["PATH"] = os.pathsep.join([*map(str, path_first), env.get("PATH", os.defpath)])
    previous = env.get("PYTHONPATH", "")
    env["PYTHONPATH"] = os.pathsep.join(python_path(previous, source_root, forbidden_roots))
    env.pop(PATH_GIVEN, None)
    if not previous:
        env[PATH_GIVEN] = env["PYTHONPATH"]
    _enter_virtual_environment(env, interpreter)
    for name in (OWN_TREE, FORBIDDEN_TREES):
        env.pop(name, None)
    if source_root is not None and forbidden_roots:
        env[OWN_TREE] = str(source_root)
        env[FORBIDDEN_TREES] = os.pathsep.join(map(str, forbidden_roots))
    env[TRACE_DIR] = str(run_dir)
    env[RUN_ID] = run_id
    # A mistake is only ever planted on purpose: what the shell happens to say does not count.
    env.pop(MUTANT, None)
    env.pop(MUTANT_FILES, None)
    if mutant:
        env[MUTANT] = mutant
        env[MUTANT_FILES] = json.dumps([str(file) for file in mutant_files])
    env.pop(EXTENSIONS, None)
    if extensions:
        env[EXTENSIONS] = extensions.to_text()
    env.pop(SAMPLING, None)
    if sampled is not None:
        env[SAMPLING] = sampled.to_text()
    env.pop(LIMIT, None)
    if limit is not None:
        env[LIMIT] = limit.to_text()
    env.pop(NOT_NEEDED, None)
    if not_needed:
        env[NOT_NEEDED] = to_text(not_needed)
    env.pop(SEED, None)
    env.pop(SEED_BY, None)
    if seed is not None:
        env[SEED] = str(seed)
        if seed_env is not None:
            env[seed_env] = str(seed)
        if seed_by is not None:
            env[SEED_BY] = seed_by
            env[HASH_SEED] = str(seed % 2**32)
    return env


def python_path(previous: str, source_root: Path | None, forbidden_roots: Sequence[Path]) -> list[str]:
    """The bootstrap directory, the source tree, then what was there before: where that was nothing, an empty entry.
    Scripts write `PYTHONPATH=src:$PYTHONPATH`, and to Python what nothing stands in is the working directory, which the
    program may import from without knowing. Where nobody writes that, the `sitecustomize` takes it out again.

    A previous entry that points into a forbidden tree (the other side's) is moved to the same place in the source
    tree, or dropped where there is none: it was meant for "the project", and on this side that is another directory.
    """
    entries = [str(BOOTSTRAP)]
    if source_root is not None:
        entries.append(str(source_root))
        if (source_root / "src").is_dir():
            entries.append(str(source_root / "src"))
    for entry in previous.split(os.pathsep):
        moved = _moved(entry, source_root, forbidden_roots)
        if moved is not None and (not moved or moved not in entries):
            entries.append(moved)
    return entries


def _moved(entry: str, source_root: Path | None, forbidden_roots: Sequence[Path]) -> str | None:
    path = Path(entry)
    # Relative entries are looked up from the run's own working directory, which is in the right tree.
    if source_root is None or not path.is_absolute() or _is_below(path, source_root):
        return entry
    for root in forbidden_roots:
        if _is_below(path, root):
            moved = source_root / path.resolve().relative_to(root.resolve())
            return str(moved) if moved.is_dir() else None
    return entry


def _is_below(path: Path, root: Path) -> bool:
    return path.resolve().is_relative_to(root.resolve())


def _enter_virtual_environment(env: dict[str, str], interpreter: Path) -> None:
    """Tools such as `uv run` trust VIRTUAL_ENV more than PATH, and PYTHONHOME misleads any other interpreter."""
    env.pop("PYTHONHOME", None)
    prefix = interpreter.parent.parent
    if (prefix / "pyvenv.cfg").is_file():
        env["VIRTUAL_ENV"] = str(prefix)
    else:
        env.pop("VIRTUAL_ENV", None)
