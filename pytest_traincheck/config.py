"""The configuration: what its keys may be, and what they mean."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_traincheck.audit_config import AuditConfig, audit_config
from pytest_traincheck.config_files import (
    EXAMPLE,
    PYPROJECT,
    SIZE_LIMIT,
    STANDALONE,
    parse,
    parse_text,
    table_of,
    tables_in,
)
from pytest_traincheck.jobs import Jobs, jobs_of
from pytest_traincheck.redaction import redacted, redacted_environment
from pytest_traincheck.toml_table import ConfigError, Table, suggest

__all__ = [
    "ACCEPT_KEYS",
    "ACCEPT_REQUIRED",
    "DEFAULT_SEEDS",
    "DEFAULT_STORE",
    "DEFAULT_TIMEOUT",
    "ENV_NAME",
    "EXAMPLE",
    "KEYS",
    "LONGEST_TIMEOUT",
    "PIPELINE_KEYS",
    "PIPELINE_NAME",
    "POLICIES",
    "PYPROJECT",
    "SEED_BY_PROBE",
    "SIZE_LIMIT",
    "STANDALONE",
    "STORED",
    "Accept",
    "Config",
    "ConfigError",
    "PipelineSpec",
    "load",
    "load_nearest",
    "load_text",
    "unusable_link",
]

STORED = "stored"
"""Value of `golden` that means: the committed golden files."""

SEED_BY_PROBE = "probe"
"""Value of `seed_by` that means: the probe seeds the generators before the program's first line."""

DEFAULT_SEEDS = (0, 1, 2)
DEFAULT_TIMEOUT = 300.0
DEFAULT_STORE = "golden_invariants"

LONGEST_TIMEOUT = 366 * 24 * 3600.0
"""Seconds; the system's clocks take no time that is very much longer."""

KEYS = (
    *("golden", "store", "python", "golden_python", "candidate_python", "strict", "jobs"),
    *("pipelines", "accept", "policy", "audit"),
)
PIPELINE_KEYS = (
    *("run", "cwd", "seed_arg", "seed_env", "seed_by", "seeds", "vary", "env", "timeout", "steps", "link", "alone"),
)
_DEPTH_LIMIT = 6

ACCEPT_REQUIRED = ("invariant", "owner", "reason", "expires")
ACCEPT_KEYS = (*ACCEPT_REQUIRED, "value")
POLICIES = ("fail", "warn", "off")
# The name becomes a file name in the store and a pytest node id, so it is kept to what both take everywhere.
PIPELINE_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,78}[A-Za-z0-9_-])?")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class PipelineSpec:
    """One named command of the user's that trains something for a few iterations.

    `cwd` is relative to the directory of the configuration file; `timeout` is in seconds.
    """

    name: str
    run: str
    cwd: str = "."
    seed_arg: str | None = None
    seed_env: str | None = None
    seed_by: str | None = None
    """`SEED_BY_PROBE`: the seed is what the generators of torch, numpy and Python begin with."""
    seeds: tuple[int, ...] = DEFAULT_SEEDS
    vary: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    timeout: float = DEFAULT_TIMEOUT
    steps: int | None = None
    """After how many steps of its training each run is ended; None: it ends by itself."""
    link: tuple[str, ...] = ()
    """Untracked paths of the working tree, relative to `Config.root`, that worktrees see too."""
    alone: bool = False
    """Whether its runs need the machine for themselves."""

    def fingerprint(self) -> str:
        """Hash of what is run. The name, the seeds, the variations, the timeout and passwords do not change what that
        is.
        """
        spec = self.redacted()
        content: list[Any] = [spec.run, spec.cwd, spec.seed_arg, spec.seed_env, sorted(spec.env.items())]
        # Only where they are said: others are what they were before there was such a thing.
        begun = {"seed_by": spec.seed_by, "steps": spec.steps}
        content += [{key: value} for key, value in begun.items() if value is not None]
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

    def redacted(self) -> PipelineSpec:
        """The same for artefacts, which hold no passwords and tokens."""
        seed_arg = redacted(self.seed_arg) if self.seed_arg is not None else None
        run, vary = redacted(self.run), tuple(map(redacted, self.vary))
        return replace(self, run=run, seed_arg=seed_arg, vary=vary, env=redacted_environment(self.env))


@dataclass(frozen=True)
class Accept:
    """An exception on file: an invariant id or glob that may be broken until a day, by whom and why.

    With a `value` it is for what the candidate had when it was written, and for nothing else.
    """

    invariant: str
    owner: str
    reason: str
    expires: datetime.date
    value: str = ""

    @property
    def name(self) -> str:
        """What tells it from others, in a few words."""
        return f"{self.invariant} = {self.value}" if self.value else self.invariant


@dataclass(frozen=True)
class Config:
    """The whole configuration. `root` is the directory of the file `source`; `store` is absolute."""

    root: Path
    source: Path
    golden: str = STORED
    store: Path = Path(DEFAULT_STORE)
    python: str | None = None
    golden_python: str | None = None
    candidate_python: str | None = None
    pipelines: Mapping[str, PipelineSpec] = field(default_factory=dict)
    accept: tuple[Accept, ...] = ()
    policy: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False
    """Whether coverage under golden's floor fails instead of warning."""
    fail_fast: bool = False
    """Whether runs of candidates are ended at their first incident; said on the command line only."""
    jobs: Jobs | None = None
    """How many runs are made at a time; None where nothing is said."""
    audit: AuditConfig = field(default_factory=AuditConfig)
    audits: bool = False
    """Whether candidates are audited beside their check; said on the command line only."""


def load(start: Path, file: Path | None = None) -> Config:
    """The configuration in `file`, or in the nearest configuration file at or above the directory `start`.

    Raises `ConfigError` when there is none, when it cannot be read and when anything in it is wrong.
    """
    if file is not None:
        source = file.absolute()
        return _config(source, table_of(source, parse(source), required=True) or {})
    config = load_nearest(start)
    if config is None:
        raise ConfigError(
            f"no traincheck configuration at or above {start.absolute()}. "
            f"Write this into {PYPROJECT} (in {STANDALONE}, leave out `tool.traincheck.`):\n\n{EXAMPLE}"
        )
    return config


def load_nearest(start: Path) -> Config | None:
    """The configuration in the nearest file at or above the directory `start`; None where there is none.

    Raises `ConfigError` when it cannot be read and when anything in it is wrong.
    """
    here = start.absolute()
    for directory in (here, *here.parents):
        found = tables_in(directory)
        if len(found) > 1:
            raise ConfigError(
                f"{directory}: both {STANDALONE} and [tool.traincheck] in {PYPROJECT} configure traincheck. "
                "Keep one of them and delete the other."
            )
        for source, table in found:
            return _config(source, table)
    return None


def load_text(source: Path, text: str) -> Config:
    """The configuration that `source` would hold with another text. Raises `ConfigError`."""
    return _config(source, table_of(source, parse_text(source, text), required=True) or {})


def _config(source: Path, content: Mapping[str, Any]) -> Config:
    root = source.parent
    _check_extent(source, content)
    table = Table(source, "", content)
    table.allow(KEYS)
    golden = table.text("golden", STORED)
    if golden.startswith("-"):
        raise table.error("golden", f"is {golden!r}, which is no git ref", 'Write "stored", a ref or "merge-base:REF"')
    return Config(
        root=root,
        source=source,
        golden=golden,
        store=root / table.path("store", DEFAULT_STORE),
        python=table.interpreter("python"),
        golden_python=table.interpreter("golden_python"),
        candidate_python=table.interpreter("candidate_python"),
        pipelines=_pipelines(table.child("pipelines")),
        accept=_accept(table),
        policy=_policy(table.child("policy")),
        strict=table.switch("strict"),
        jobs=_jobs(table),
        audit=audit_config(table.child("audit")),
    )


def _check_extent(source: Path, content: Mapping[str, Any]) -> None:
    """Refuse what TOML does not allow and its parser takes: numbers beyond 64 bits; and tables within tables within
    tables, which nothing here has. What is left can be shown in a message.
    """
    todo: list[tuple[tuple[str, ...], Any]] = [((), content)]
    while todo:
        path, value = todo.pop()
        where = ".".join(path)[:200]
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise ConfigError(f"{source}: `{where}` is a number beyond 64 bits. Write a smaller one.")
        if len(path) > _DEPTH_LIMIT:
            raise ConfigError(f"{source}: `{where}` is nested too deep. Known keys are at most {_DEPTH_LIMIT} deep.")
        if isinstance(value, Mapping):
            todo += [((*path, key), item) for key, item in value.items()]
        elif isinstance(value, list):
            todo += [((*path, str(number)), item) for number, item in enumerate(value, start=1)]


def _pipelines(table: Table) -> dict[str, PipelineSpec]:
    pipelines: dict[str, PipelineSpec] = {}
    by_folded: dict[str, str] = {}
    for name in table.content:
        if not PIPELINE_NAME.fullmatch(name):
            raise table.error(
                name,
                "is no usable pipeline name",
                "Use up to 80 letters, digits, `_`, `-` and `.`",
            )
        twin = by_folded.setdefault(name.casefold(), name)
        if twin != name:
            raise table.error(
                name,
                f"has the same name as `{twin}` but for upper and lower case; their golden files would be one",
                "Rename one of them",
            )
        pipelines[name] = _pipeline(name, table.child(name))
    return pipelines


def _pipeline(name: str, table: Table) -> PipelineSpec:
    table.allow(PIPELINE_KEYS)
    if "run" not in table.content:
        raise table.error("run", "is missing", 'Write the command as you type it: run = "python train.py --steps 8"')
    seed_arg = table.optional_text("seed_arg")
    if seed_arg is not None and "{seed}" not in seed_arg:
        raise table.error("seed_arg", f"is {seed_arg!r} and lacks `{{seed}}`", 'Write seed_arg = "--seed {seed}"')
    seed_env = table.optional_text("seed_env")
    if seed_env is not None and not ENV_NAME.fullmatch(seed_env):
        raise table.error("seed_env", f"is {seed_env!r}, no variable name", 'Write seed_env = "SEED"')
    return PipelineSpec(
        name=name,
        run=table.text("run", ""),
        cwd=table.path("cwd", "."),
        seed_arg=seed_arg,
        seed_env=seed_env,
        seed_by=_seed_by(table),
        seeds=_seeds(table),
        vary=tuple(table.texts("vary")),
        env=_environment(table.child("env")),
        timeout=_timeout(table),
        steps=_steps(table),
        link=_link(table),
        alone=table.switch("alone"),
    )


def _jobs(table: Table) -> Jobs | None:
    if "jobs" not in table.content:
        return None
    value = table.content["jobs"]
    jobs = None if isinstance(value, str) and value.isdecimal() else jobs_of(value)
    if jobs is None:
        raise table.error("jobs", f"is {value!r}", 'Write how many runs there may be at a time, or "auto": jobs = 2')
    return jobs


def _seeds(table: Table) -> tuple[int, ...]:
    seeds = table.content.get("seeds", list(DEFAULT_SEEDS))
    # bool is an int to Python, and `seeds = [true]` is a mistake.
    if not isinstance(seeds, list) or not seeds or any(type(seed) is not int or seed < 0 for seed in seeds):
        raise table.error("seeds", f"is {seeds!r}", "Write whole numbers from 0 up: seeds = [0, 1, 2]")
    if len(set(seeds)) != len(seeds):
        raise table.error("seeds", f"is {seeds!r}, which names a seed twice", "Name each seed once")
    return tuple(seeds)


def _seed_by(table: Table) -> str | None:
    value = table.content.get("seed_by")
    if value not in (None, SEED_BY_PROBE):
        raise table.error("seed_by", f"is {value!r}", f'Write seed_by = "{SEED_BY_PROBE}", or leave it out')
    return value


def _steps(table: Table) -> int | None:
    value = table.content.get("steps")
    if value is not None and (type(value) is not int or value < 1):
        raise table.error("steps", f"is {value!r}", "Write after how many optimizer steps a run ends: steps = 8")
    return value


def _link(table: Table) -> tuple[str, ...]:
    names = table.content.get("link", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise table.error("link", f"is {names!r}", 'Write an array of paths: link = ["data"]')
    for name in names:
        if reason := unusable_link(name):
            raise table.error("link", f"names {name!r}, which {reason}", 'Write paths below this file: link = ["data"]')
    return tuple(dict.fromkeys(names))


def unusable_link(text: str) -> str:
    """Why a text cannot be a path that worktrees see, to follow its name; empty when it can."""
    path = PurePosixPath(text)
    if not text.strip() or "\0" in text:
        return "is empty or holds a NUL character"
    if path.is_absolute() or text.startswith("~"):
        return "is no relative path"
    if ".." in path.parts:
        return "leads out of the tree"
    if not path.parts:
        return "is the whole tree"
    if ".git" in path.parts:
        return "belongs to git"
    return ""


def _timeout(table: Table) -> float:
    value = table.content.get("timeout", DEFAULT_TIMEOUT)
    if type(value) not in (int, float) or not 0 < value <= LONGEST_TIMEOUT:
        raise table.error(
            "timeout", f"is {value!r}", "Write a number of seconds above 0, at most a year: timeout = 300"
        )
    return float(value)


def _environment(table: Table) -> dict[str, str]:
    for name, value in table.content.items():
        if not ENV_NAME.fullmatch(name):
            raise table.error(name, "is no variable name", "Use letters, digits and `_`")
        if not isinstance(value, str):
            raise table.error(name, f"is {value!r}, not a string", f'Quote it: {name} = "{value}"')
        if "\0" in value:
            raise table.error(name, "holds a NUL character", "Take it out")
    return dict(table.content)


def _accept(table: Table) -> tuple[Accept, ...]:
    entries = table.content.get("accept", [])
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise table.error("accept", "must be an array of tables", "Write [[tool.traincheck.accept]]")
    return tuple(
        _accept_one(Table(table.source, f"accept[{index}].", entry)) for index, entry in enumerate(entries, start=1)
    )


def _accept_one(table: Table) -> Accept:
    table.allow(ACCEPT_KEYS)
    for key in ACCEPT_REQUIRED:
        if key not in table.content:
            raise table.error(key, "is missing", f"An accepted exception needs {', '.join(ACCEPT_REQUIRED)}")
    expires = table.content["expires"]
    if isinstance(expires, str):
        try:
            expires = datetime.date.fromisoformat(expires)
        except ValueError as error:
            raise table.error("expires", f"is {expires!r}, no day", "Write expires = 2027-01-31") from error
    if not isinstance(expires, datetime.date) or isinstance(expires, datetime.datetime):
        raise table.error("expires", f"is {expires!r}, no day", "Write expires = 2027-01-31")
    return Accept(
        table.text("invariant", ""),
        table.text("owner", ""),
        table.text("reason", ""),
        expires,
        table.text("value", ""),
    )


def _policy(table: Table) -> dict[str, str]:
    for name, value in table.content.items():
        if value not in POLICIES:
            raise table.error(name, f"is {value!r}{suggest(str(value), POLICIES)}", 'Write "fail", "warn" or "off"')
    return dict(table.content)
