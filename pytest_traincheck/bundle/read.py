"""Opens a bundle as untrusted input: everything is looked at before it is used, nothing is unpickled or executed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_traincheck.bundle import manifest as layout
from pytest_traincheck.bundle.manifest import Manifest, damaged
from pytest_traincheck.bundle.source import Source, open_source
from pytest_traincheck.bundle.write import SIZE_LIMIT, digest_of
from pytest_traincheck.check.result import ChangedLines
from pytest_traincheck.golden import store
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.relations.stored import read_golden
from pytest_traincheck.scratch import scratch_directory
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.trace.reader import read_process, read_sketches

MANIFEST_LIMIT = 2**20
"""Bytes of the largest `bundle.json` that is read."""


@dataclass(frozen=True)
class Reported:
    """An incident as the bundle's own report has it."""

    id: str
    title: str
    diff: ChangedLines | None


@dataclass(frozen=True)
class Bundle:
    """An opened bundle. `trace` is a private copy of the candidate's run directory, gone when the block is left.

    `report` is the JSON object of the check, from which `reported` is taken; it is as untrusted as the rest.
    """

    place: str
    manifest: Manifest
    golden: Golden
    report: Mapping[str, Any]
    reported: tuple[Reported, ...]
    trace: Path


@contextmanager
def open_bundle(path: Path) -> Iterator[Bundle]:
    """The bundle at `path`, a directory or a zip archive.

    Raises `BundleError` for one that is damaged, was changed, or is of a newer format.
    """
    with scratch_directory("bundle") as holder:
        copy = holder / "bundle"
        copy.mkdir()
        with open_source(path) as source:
            manifest = layout.parse(source.read(layout.MANIFEST, MANIFEST_LIMIT), str(path))
            _copy(source, manifest, copy, str(path))
        trace = copy / layout.CANDIDATE
        try:
            for process in sorted(trace.glob("proc-*")):
                read_sketches(read_process(process))
        except (TraceError, OSError) as error:
            raise damaged(str(path), str(error).replace(f"{copy}/", "")) from error
        golden = _golden(copy, trace, str(path))
        report, reported = _report(copy / layout.REPORT, str(path))
        yield Bundle(str(path), manifest, golden, report, reported, trace)


def _copy(source: Source, manifest: Manifest, target: Path, place: str) -> None:
    """The files into a directory of our own, so that what was looked at is what is used."""
    total = sum(file.size for file in manifest.files.values())
    if total > SIZE_LIMIT:
        raise damaged(place, f"it announces {total} bytes, and the limit is {SIZE_LIMIT}")
    for name, file in manifest.files.items():
        data = source.read(name, file.size)
        if len(data) != file.size or digest_of(data) != file.digest:
            raise damaged(place, f"{name} is not as it was written")
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(data)


def _golden(copy: Path, trace: Path, place: str) -> Golden:
    """The golden with the numbers of the platform that the candidate ran on."""
    path = copy / layout.GOLDEN
    try:
        golden = read_golden(path)
        platforms = {_platform(meta) for meta in trace.glob("proc-*/meta.json")} - {""}
        for platform in sorted(platforms):
            golden = store.with_numbers(golden, path, platform)
    except GoldenError as error:
        raise damaged(place, str(error).replace(f"{copy}/", "")) from error
    return golden


def _platform(meta: Path) -> str:
    return str(json.loads(meta.read_bytes()).get("platform", ""))


def _report(path: Path, place: str) -> tuple[Mapping[str, Any], tuple[Reported, ...]]:
    try:
        content: Any = json.loads(path.read_bytes())
        incidents = tuple(
            Reported(_text(item["id"]), _text(item["title"]), _diff(item.get("diff"))) for item in content["incidents"]
        )
        return content, incidents
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise damaged(place, f"{layout.REPORT} is no report of a check ({error})") from error


def _diff(content: Mapping[str, Any] | None) -> ChangedLines | None:
    if content is None:
        return None
    hunk = _text(content["hunk"])
    changed = [number for number, line in enumerate(hunk.split("\n")[1:]) if line.startswith(("+", "-"))]
    return ChangedLines(_text(content["file"]), hunk, _text(content["how"]), changed[0] if changed else 0)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value
