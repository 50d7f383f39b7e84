"""The pipeline and the golden that a user means, by a name, a file or a git ref."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_traincheck.check.result import SideInfo
from pytest_traincheck.config import Config, ConfigError, PipelineSpec, load
from pytest_traincheck.golden import store
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.sides import resolve_side
from pytest_traincheck.relations.stored import read_golden
from pytest_traincheck.workflow.against import Against
from pytest_traincheck.workflow.live_golden import LiveGolden, obtain
from pytest_traincheck.workflow.policy import NO_RULES, rules_of
from pytest_traincheck.workflow.program import sameness

_USAGE = "Name one: traincheck run NAME -- COMMAND, or traincheck run --golden FILE -- COMMAND."


@dataclass(frozen=True)
class Meant:
    """What a user means by a name and a golden: neither, where a golden file is named that belongs to no pipeline."""

    config: Config | None = None
    spec: PipelineSpec | None = None


def meant(name: str | None, golden: str | None, directory: Path, file: Path | None) -> Meant:
    """The pipeline of this name, of this golden, or the only one.

    Raises `ConfigError`, and `GoldenError` for a golden that is named like a file and is none.
    """
    if golden is not None and Path(golden).suffix == store.SUFFIX and not Path(golden).is_file():
        raise GoldenError(
            f"There is no golden {golden!r}: no such file. "
            "Give a file, the name of a pipeline, or a git ref; `traincheck infer` and `traincheck refresh` make one."
        )
    if name is None and golden is not None and Path(golden).is_file():
        try:
            config = load(directory, file)
        except ConfigError:
            if file is not None:
                raise
            return Meant()
        path = Path(golden).resolve()
        stored = (spec for spec in config.pipelines.values() if store.golden_path(config.store, spec.name) == path)
        return Meant(config, next(stored, None))
    config = load(directory, file)
    name = name or (golden if golden in config.pipelines else None)
    if name is None:
        if len(config.pipelines) != 1:
            raise ConfigError(f"{config.source}: which pipeline is meant is not said. {_USAGE}")
        name = next(iter(config.pipelines))
    if name not in config.pipelines:
        raise ConfigError(
            f"{config.source}: configures no pipeline {name!r}. Configured: {', '.join(config.pipelines) or 'none'}."
        )
    return Meant(config, config.pipelines[name])


def against(
    words: Sequence[str], found: Meant, named: str | None, progress: Progress, *, continued: bool = False
) -> Against:
    """What a command is held against; `named` is a file, the name of a pipeline, or a git ref. `continued`: see
    `sameness`.

    Raises `GoldenError` for a golden that is not there or cannot be read, `SideError` for a ref that cannot be used,
    and `RunFailed` where its golden runs fail.
    """
    golden, path, side = _golden(found, named, progress)
    same = sameness(words, found.spec, continued=continued)
    rules = rules_of(found.config) if found.config is not None and found.spec is not None else NO_RULES
    return Against(golden, path, same.same_spec, same.other_length, rules, side, same.seed, same.differs)


def _golden(found: Meant, named: str | None, progress: Progress) -> tuple[Golden, Path | None, SideInfo]:
    config, spec = found.config, found.spec
    command = spec.run if spec is not None else ""
    if named is not None and Path(named).is_file():
        path = Path(named).resolve()
        golden = read_golden(path)
        return golden, path, SideInfo(golden.commit, golden.runs, golden.environment, str(path), command)
    if config is None or spec is None:
        raise GoldenError(f"There is no golden {named!r}: it is no file, and no pipeline is configured. {_USAGE}")
    if named is not None and named not in config.pipelines:
        obtained = obtain(LiveGolden(config, spec, resolve_side(named, config.root), True), progress)
        return obtained.golden, None, obtained.side
    name = named or spec.name
    path = store.golden_path(config.store, name)
    if not path.exists():
        raise GoldenError(
            f"The pipeline {name!r} has no golden: there is no {path}. "
            f"Learn it and commit the file: traincheck refresh {name}"
        )
    golden = read_golden(path)
    return golden, path, SideInfo(golden.commit, golden.runs, golden.environment, str(path), command)
