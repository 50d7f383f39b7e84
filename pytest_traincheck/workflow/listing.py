"""What there is: each configured pipeline, its golden and its last check on this machine."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_traincheck.config import STORED, Config, PipelineSpec
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.store import golden_path
from pytest_traincheck.launch.git import GitError, git
from pytest_traincheck.relations.stored import read_golden
from pytest_traincheck.workflow.last_check import recall_with_time

_COMMIT = 12


@dataclass(frozen=True)
class ListedGolden:
    """A stored golden. `changed`: when its file was last committed, or written where it is not committed, in seconds
    since the epoch; `fits`: whether it was learned with the command and settings that are configured now.
    """

    rules: int
    steps: int
    commit: str
    changed: float
    fits: bool


@dataclass(frozen=True)
class ListedCheck:
    """The last check of a pipeline: when, in seconds since the epoch, and what it found. `made` of `comparisons`."""

    when: float
    verdict: str
    incidents: int
    made: int
    comparisons: int


@dataclass(frozen=True)
class Listed:
    """One pipeline. `ref`: what its golden is learned from at each check, empty where goldens are stored; `problem`:
    why a stored one cannot be used.
    """

    name: str
    command: str
    ref: str = ""
    golden: ListedGolden | None = None
    problem: str = ""
    last: ListedCheck | None = None


def listing(config: Config) -> list[Listed]:
    """All configured pipelines, in the order of the configuration. Nothing is run."""
    return [_listed(config, spec) for spec in config.pipelines.values()]


def _listed(config: Config, spec: PipelineSpec) -> Listed:
    command, last = spec.redacted().run, _last(config, spec.name)
    if config.golden != STORED:
        return Listed(spec.name, command, ref=config.golden, last=last)
    path = golden_path(config.store, spec.name)
    if not path.exists():
        return Listed(spec.name, command, last=last)
    try:
        golden = read_golden(path)
    except GoldenError as error:
        return Listed(spec.name, command, problem=str(error), last=last)
    found = ListedGolden(
        len(golden.invariants), golden.steps, golden.commit[:_COMMIT], _changed(path), golden.spec == spec.fingerprint()
    )
    return Listed(spec.name, command, golden=found, last=last)


def _changed(path: Path) -> float:
    """When a file was last committed, or written where it differs from what is committed or is in no repository."""
    with suppress(GitError, ValueError):
        if not git(path.parent, "status", "--porcelain", "--", path.name):
            return float(git(path.parent, "log", "-1", "--format=%ct", "--", path.name))
    return path.stat().st_mtime


def _last(config: Config, pipeline: str) -> ListedCheck | None:
    """None where there was no check, or what is kept of it is not what a check writes."""
    found = recall_with_time(config, pipeline)
    if found is None:
        return None
    when, document = found
    try:
        coverage = document["coverage"]
        counts = len(document["incidents"]), int(coverage["made"]), int(coverage["comparisons"])
        return ListedCheck(when, str(document["verdict"]), *counts)
    except (KeyError, TypeError, ValueError):
        return None
