"""The step of a GitHub job that we run in: whether there is one, and where it takes its summary and annotations."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from pathlib import Path

from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.disk import write_remedy
from pytest_traincheck.launch.git import find_repository
from pytest_traincheck.report import github
from pytest_traincheck.report.errors import ReportError
from pytest_traincheck.report.github_command import Place


class Mode(str, Enum):
    """Whether to tell GitHub: `auto` looks for the variables that GitHub Actions sets."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


def publish(
    mode: Mode, results: Sequence[CheckResult], directories: Mapping[str, Path], write: Callable[[str], object]
) -> None:
    """Append to the job summary, and give each annotation to `write`, a line each.

    `directories` are those that the pipelines ran in. Raises `ReportError` when the summary cannot be written.
    """
    lines = partial(github.annotation_lines, results, places_of(directories))
    tell(mode, lines, partial(github.summary, results), write)


def tell(
    mode: Mode, annotations: Callable[[], Sequence[str]], summary: Callable[[int], str], write: Callable[[str], object]
) -> None:
    """Append to the job summary what `summary` gives for so many bytes, and give each annotation to `write`.

    Raises `ReportError` when the summary cannot be written.
    """
    if mode is Mode.OFF:
        return
    if mode is Mode.ON or os.environ.get("GITHUB_ACTIONS") == "true":
        for line in annotations():
            write(line)
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        _append(Path(path), summary)


def _append(path: Path, summary: Callable[[int], str]) -> None:
    try:
        # Other commands of the step may have written there; GitHub drops the whole when it grows too large.
        taken = path.stat().st_size if path.exists() else 0
        text = summary(github.SUMMARY_LIMIT - taken)
        with path.open("a", encoding="utf-8", errors="replace") as stream:
            stream.write(text if taken + len(text.encode(errors="replace")) <= github.SUMMARY_LIMIT else "")
    except OSError as error:
        remedy = write_remedy(error, path, "Check GITHUB_STEP_SUMMARY, or switch it off with `--github off`.")
        raise ReportError(f"Cannot write the job summary to {path}: {error.strerror or error}. {remedy}") from error


def places_of(directories: Mapping[str, Path]) -> dict[str, Place]:
    """Where pipelines ran, as far as that is in a repository."""
    places: dict[str, Place] = {}
    for pipeline, cwd in directories.items():
        repository = find_repository(cwd)
        if repository is not None:
            places[pipeline] = Place(repository.top, cwd)
    return places
