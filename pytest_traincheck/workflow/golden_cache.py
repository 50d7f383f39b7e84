"""Goldens that were learned from a commit, kept so that the next check against that commit need not train it again."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pytest_traincheck import __version__
from pytest_traincheck.config import PipelineSpec
from pytest_traincheck.golden import store
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.launch.cache import Cache, cache_directory
from pytest_traincheck.launch.metadata import read_metas
from pytest_traincheck.observing import extensions
from pytest_traincheck.relations.registry import revision
from pytest_traincheck.relations.stored import read_golden

FORMAT = 1
"""Version of what an entry holds; it is part of the key."""

MAX_BYTES = 512 * 1024 * 1024
MAX_AGE_DAYS = 60
"""Entries that were not used for so many days are removed."""

_PACKAGE = Path(__file__).resolve().parent.parent
_ENTRY = "entry.json"
GOLDEN = "golden.jsonl"


@dataclass(frozen=True)
class KeptGolden:
    """A golden, where it lies, when it was learned and what that took. `runs` counts variations too.

    `outside` are the user's modules that its runs imported from elsewhere than the commit, with hashes of content.
    """

    golden: Golden
    learned: datetime.datetime
    golden_run_s: float = 0.0
    infer_s: float = 0.0
    runs: int = 0
    outside: Mapping[str, str] | None = None
    path: Path = Path()


def golden_cache() -> Cache:
    """The cache of this user."""
    return Cache(cache_directory("goldens"), MAX_BYTES, MAX_AGE_DAYS * 24 * 3600.0)


def key_of(spec: PipelineSpec, commit: str, prefix: str, fingerprint: Mapping[str, Any]) -> str:
    """Identifies everything that a golden depends on; `prefix` leads from the repository's top to the configuration."""
    content = {
        "format": FORMAT,
        "package": [*_this_package(), *revision(), extensions().to_text()],
        "commit": commit,
        "prefix": prefix,
        "pipeline": [spec.name, spec.run, spec.cwd, spec.seed_arg, spec.seed_env, spec.seeds, spec.vary],
        "began": [spec.seed_by, spec.steps],
        "env": dict(spec.env),
        "fingerprint": fingerprint,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@cache
def _this_package() -> list[str]:
    """The version, and the content, for those who work on it, or install it from a branch."""
    content = hashlib.blake2b(digest_size=8)
    for path in sorted(_PACKAGE.rglob("*.py")):
        content.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return [__version__, content.hexdigest()]


def write(directory: Path, kept: KeptGolden) -> None:
    """Fill the directory of an entry. Raises `GoldenError` and `OSError`."""
    store.write(directory / GOLDEN, kept.golden)
    (directory / store.LOCK_NAME).unlink(missing_ok=True)
    content = {
        "format": FORMAT,
        "pipeline": kept.golden.pipeline,
        "commit": kept.golden.commit,
        "learned": kept.learned.isoformat(timespec="seconds"),
        "golden_run_s": round(kept.golden_run_s, 4),
        "infer_s": round(kept.infer_s, 4),
        "runs": kept.runs,
        "platform": kept.golden.platform,
        "outside": dict(kept.outside or {}),
        "files": {path.name: _digest(path) for path in sorted(directory.iterdir())},
    }
    (directory / _ENTRY).write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read(directory: Path, commit: str) -> KeptGolden:
    """What `write` wrote about a commit. Raises `GoldenError` for an entry that is damaged in any way."""
    try:
        content = json.loads((directory / _ENTRY).read_text(encoding="utf-8"))
        if {name: _digest(directory / name) for name in content["files"]} != content["files"]:
            raise ValueError("a file is not as it was written")
        golden = store.with_numbers(read_golden(directory / GOLDEN), directory / GOLDEN, content["platform"])
        if golden.commit != commit:
            raise ValueError("it is about another commit")
        return KeptGolden(
            golden,
            datetime.datetime.fromisoformat(content["learned"]),
            float(content["golden_run_s"]),
            float(content["infer_s"]),
            int(content["runs"]),
            dict(content["outside"]),
            directory / GOLDEN,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise GoldenError(f"{directory}: {error}") from error


def modules_outside(run_dirs: Iterable[Path], tree: Path) -> dict[str, str]:
    """The user's own modules that runs imported from elsewhere than their tree, each with a hash of its content.

    Another project that is installed the editable way keeps its version while its code changes.
    """
    found: dict[str, str] = {}
    for run_dir in run_dirs:
        for meta in read_metas(run_dir):
            modules = meta.get("modules")
            for name in modules if isinstance(modules, list) else ():
                path = Path(str(name)).resolve()
                if not path.is_relative_to(tree.resolve()) and not path.is_relative_to(_PACKAGE):
                    found[str(path)] = _digest(path)
    return found


def changed_outside(outside: Mapping[str, str]) -> str:
    """The first of the modules that is not as it was; empty when all are."""
    return next((path for path, digest in sorted(outside.items()) if _digest(Path(path)) != digest), "")


def _digest(path: Path) -> str:
    try:
        return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    except OSError:
        return ""
