"""Traces of many programs, by program: what a pack is learned from."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import commonpath
from pathlib import Path

from pytest_traincheck.launch.run_directory import is_run_directory
from pytest_traincheck.trace import Run, load_run
from pytest_traincheck.trace.errors import TraceError


def load_programs(directories: Sequence[Path]) -> dict[str, list[Run]]:
    """The runs of programs. Each directory is a program: a run of it, or a directory with several runs of it.

    Programs are named by what their paths do not have in common. Raises `TraceError` for a directory without runs, one
    that is given twice, and a trace that cannot be relied upon.
    """
    places = [path.resolve() for path in directories]
    for place in places:
        if places.count(place) > 1:
            raise TraceError(f"{place} is given twice; give each program once, or it would count as two")
    return {name: [load_run(run) for run in _runs(place)] for name, place in zip(_names(places), places, strict=True)}


def _runs(place: Path) -> list[Path]:
    if _is_run(place):
        return [place]
    found = sorted(path for path in place.iterdir() if _is_run(path)) if place.is_dir() else []
    if not found:
        raise TraceError(
            f"{place} holds no trace; give the directories that `traincheck collect` wrote to, one a program, or one "
            "with several runs of the same program in it"
        )
    return found


def _is_run(path: Path) -> bool:
    return path.is_dir() and (is_run_directory(path) or any(path.glob("proc-*/meta.json")))


def _names(places: Sequence[Path]) -> list[str]:
    """What tells the paths from each other: without the beginning and the end that all of them share."""
    if len(places) == 1:
        return [places[0].name]
    begin = len(Path(commonpath(places)).parts)
    rests = [place.parts[begin:] for place in places]
    while all(len(rest) > 1 for rest in rests) and len({rest[-1] for rest in rests}) == 1:
        rests = [rest[:-1] for rest in rests]
    return ["/".join(rest) or place.name for rest, place in zip(rests, places, strict=True)]
