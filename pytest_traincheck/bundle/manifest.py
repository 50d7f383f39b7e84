"""`bundle.json`: what a bundle is about, and which files belong to it."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pytest_traincheck.bundle.errors import BundleError
from pytest_traincheck.check.result import SideInfo
from pytest_traincheck.config import Accept, PipelineSpec
from pytest_traincheck.redaction import redacted_environment

FORMAT = 1
"""Version of the layout of a bundle; a reader refuses what is newer."""

MANIFEST = "bundle.json"
GOLDEN = "golden.jsonl"
REPORT = "result.json"
CANDIDATE = "candidate"
"""Directory of the candidate's trace."""

FILE_NAME = re.compile(
    r"golden\.jsonl|golden\.[A-Za-z0-9_-]{1,100}\.npz|result\.json"
    r"|candidate/proc-[0-9]{1,20}-[0-9]{1,30}/(?:meta\.json|symbols\.jsonl|events\.bin|sketches\.bin)"
)
"""Every file that a bundle may have beside the manifest; none leads out of it."""


@dataclass(frozen=True)
class File:
    """Size in bytes and BLAKE2b digest of a file."""

    size: int
    digest: str


@dataclass(frozen=True)
class Slice:
    """How much of the candidate's trace is kept: windows 0 to `last_step` of `steps`; `events` of `events_in_run`."""

    last_step: int
    steps: int
    events: int
    events_in_run: int

    @property
    def is_whole(self) -> bool:
        return self.last_step >= self.steps


@dataclass(frozen=True)
class Manifest:
    """What a bundle is about.

    `incidents` are the ids of those that the slice shows, in order. `beyond` are ids of rules that speak of more than
    the slice has: they held in the whole run and look broken in a part of it. `accept`, `policy` and `today` are the
    exceptions that were in force.
    """

    made_by: str
    spec: PipelineSpec
    same_spec: bool
    golden: SideInfo
    candidate: SideInfo
    kept: Slice
    incidents: tuple[str, ...]
    beyond: tuple[str, ...]
    accept: tuple[Accept, ...]
    policy: Mapping[str, str]
    today: datetime.date
    files: Mapping[str, File]

    def to_text(self) -> str:
        """The content of `bundle.json`."""
        spec = {**asdict(self.spec.redacted()), "env": redacted_environment(self.spec.env)}
        # Where runs found their data says nothing to a replay.
        del spec["link"]
        content = {
            "format": FORMAT,
            "made_by": self.made_by,
            "spec": spec,
            "same_spec": self.same_spec,
            "golden": asdict(self.golden),
            "candidate": asdict(self.candidate),
            "kept": asdict(self.kept),
            "incidents": list(self.incidents),
            "beyond": list(self.beyond),
            "accept": [{**asdict(entry), "expires": entry.expires.isoformat()} for entry in self.accept],
            "policy": dict(self.policy),
            "today": self.today.isoformat(),
            "files": {name: asdict(file) for name, file in sorted(self.files.items())},
        }
        return json.dumps(content, indent=1) + "\n"


def parse(data: bytes, place: str) -> Manifest:
    """The manifest in the bytes of `bundle.json`; `place` names the bundle. Raises `BundleError` for anything else."""
    try:
        content = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise damaged(place, f"{MANIFEST} is not valid JSON ({error})") from error
    version = content.get("format") if isinstance(content, dict) else None
    if type(version) is not int or version < 1:
        raise damaged(place, f"{MANIFEST} has no format number")
    if version > FORMAT:
        raise BundleError(
            f"The bundle {place} has format {version}, and this pytest-traincheck reads up to {FORMAT}. "
            "Upgrade pytest-traincheck."
        )
    try:
        return _manifest(_Part(content))
    except _Wrong as error:
        raise damaged(place, f"{MANIFEST}: {error}") from error


def damaged(place: str, what: str) -> BundleError:
    """The error for a bundle that cannot be what was written."""
    return BundleError(
        f"The bundle {place} is damaged or was changed: {what}. Download it again, or make it again with `--artifacts`."
    )


class _Wrong(ValueError):
    """A value that is missing or of the wrong kind."""


@dataclass(frozen=True)
class _Part:
    """One object of the JSON, whose values are taken out with their kinds checked."""

    content: Mapping[str, Any]
    name: str = ""

    def take(self, key: str, right: Callable[[object], bool]) -> Any:
        if key not in self.content:
            raise _Wrong(f"`{self.name}{key}` is missing")
        if not right(self.content[key]):
            raise _Wrong(f"`{self.name}{key}` is of the wrong kind")
        return self.content[key]

    def text(self, key: str) -> str:
        value: str = self.take(key, lambda value: isinstance(value, str))
        return value

    def optional_text(self, key: str) -> str | None:
        value: str | None = self.take(key, lambda value: value is None or isinstance(value, str))
        return value

    def whole(self, key: str) -> int:
        value: int = self.take(key, lambda value: type(value) is int and 0 <= value < 1 << 63)
        return value

    def flag(self, key: str) -> bool:
        value: bool = self.take(key, lambda value: type(value) is bool)
        return value

    def number(self, key: str) -> float:
        return float(self.take(key, lambda value: isinstance(value, (int, float)) and 0 <= value < 1e9))

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(self.take(key, lambda value: _is_list_of(value, str)))

    def wholes(self, key: str) -> tuple[int, ...]:
        return tuple(self.take(key, lambda value: _is_list_of(value, int)))

    def mapping(self, key: str) -> dict[str, str]:
        right = self.take(key, lambda value: isinstance(value, dict) and _is_list_of(list(value.values()), str))
        return dict(right)

    def day(self, key: str) -> datetime.date:
        try:
            return datetime.date.fromisoformat(self.text(key))
        except ValueError as error:
            raise _Wrong(f"`{self.name}{key}` is no day") from error

    def part(self, key: str) -> _Part:
        return _Part(self.take(key, lambda value: isinstance(value, dict)), f"{self.name}{key}.")

    def parts(self, key: str) -> list[_Part]:
        items = self.take(key, lambda value: _is_list_of(value, dict))
        return [_Part(item, f"{self.name}{key}[{number}].") for number, item in enumerate(items)]


def _is_list_of(value: object, kind: type) -> bool:
    return isinstance(value, list) and all(type(item) is kind for item in value)


def _manifest(part: _Part) -> Manifest:
    return Manifest(
        made_by=part.text("made_by"),
        spec=_spec(part.part("spec")),
        same_spec=part.flag("same_spec"),
        golden=_side(part.part("golden")),
        candidate=_side(part.part("candidate")),
        kept=_slice(part.part("kept")),
        incidents=part.texts("incidents"),
        beyond=part.texts("beyond"),
        accept=tuple(
            Accept(
                item.text("invariant"),
                item.text("owner"),
                item.text("reason"),
                item.day("expires"),
                item.text("value") if "value" in item.content else "",
            )
            for item in part.parts("accept")
        ),
        policy=part.mapping("policy"),
        today=part.day("today"),
        files=_files(part.part("files")),
    )


def _spec(part: _Part) -> PipelineSpec:
    return PipelineSpec(
        name=part.text("name"),
        run=part.text("run"),
        cwd=part.text("cwd"),
        seed_arg=part.optional_text("seed_arg"),
        seed_env=part.optional_text("seed_env"),
        seeds=part.wholes("seeds"),
        vary=part.texts("vary"),
        env=part.mapping("env"),
        timeout=part.number("timeout"),
        # Bundles of earlier versions do not say it.
        seed_by=part.optional_text("seed_by") if "seed_by" in part.content else None,
        steps=part.whole("steps") if part.content.get("steps") is not None else None,
    )


def _side(part: _Part) -> SideInfo:
    return SideInfo(
        part.text("commit"),
        part.whole("runs"),
        part.mapping("environment"),
        part.text("path"),
        part.text("command"),
        # Bundles of earlier versions do not say it.
        directory=part.text("directory") if "directory" in part.content else "",
    )


def _slice(part: _Part) -> Slice:
    return Slice(part.whole("last_step"), part.whole("steps"), part.whole("events"), part.whole("events_in_run"))


def _files(part: _Part) -> dict[str, File]:
    files: dict[str, File] = {}
    for name in part.content:
        if not FILE_NAME.fullmatch(name):
            raise _Wrong(f"{name!r} is no file of a bundle")
        entry = part.part(name)
        files[name] = File(entry.whole("size"), entry.text("digest"))
    for name in (GOLDEN, REPORT):
        if name not in files:
            raise _Wrong(f"the file {name} is missing")
    return files
