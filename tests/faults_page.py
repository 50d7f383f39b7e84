"""`docs/faults.md`: which faults and hostile inputs were tried, and what happens, collected from the tests.

A test becomes a row of the page with a mark:

    @pytest.mark.fault(area="Traces", tried="a symbol of no kind", happens="one error, exit status 2")

`tried` and `happens` may hold `{id}`, the id of a parametrised case, and `{name}` for any parameter that is a string;
cases may also carry marks of their own (`pytest.param(..., marks=pytest.mark.fault(...))`). Rows of one text are one.
The page is written anew by `python -m pytest --collect-only -q --write-faults=docs/faults.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

COLLECTED = pytest.StashKey[list[pytest.Item]]()
"""In a session's configuration: all of its tests, those that are left out by their marks among them."""

AREAS = {
    "Results": "The training computes what it computes without the probe, to the last bit.",
    "Functions": "Public functions of torch stay what they are: `is`, `==`, tables, handlers of `__torch_function__`.",
    "Exceptions": "What fails in us does not reach the program; what fails in the program reaches it unchanged.",
    "Signals": "Signals, timeouts and exits do what they do without the probe.",
    "Descriptors": "Files and descriptors of the program are left alone.",
    "Memory": "What is freed without the probe is freed with it, as early.",
    "Frames": "Code that looks at its caller finds its caller.",
    "Processes": "Forks, workers, ranks and what outlives the command.",
    "Runs": "A command that fails, hangs, is killed, writes garbage, or leaves something behind.",
    "Looking": "Green means looked at and held.",
    "Traces": "Directories of runs that were cut off, damaged or made by somebody else.",
    "Goldens": "Golden files that were cut off, edited, merged, or made by somebody who means harm.",
    "Packs": "Packs that were cut off, edited, merged, or made by somebody who means harm.",
    "Numbers": "The file of numbers beside a golden.",
    "Bundles": "Artefacts of a failed check, from anywhere.",
    "Configuration": "`pyproject.toml` and `traincheck.toml`.",
    "Names and paths": "Names of pipelines, directories and files that no shell, terminal or encoding expects.",
    "Output": "What is printed or written for others to read: terminal, JSON, JUnit, HTML, GitHub.",
    "Secrets": "Passwords and tokens in commands and environments.",
    "Disk": "A disk that is full or cannot be written.",
    "Size": "Huge inputs.",
}
"""The sections of the page, in order: how a mark names one, and what it promises."""

BEGIN = "<!-- What follows is written by `pytest --collect-only -q --write-faults=docs/faults.md`. -->"


@dataclass(frozen=True)
class Fault:
    """One row: what was tried in which area, what happens, the test that shows it, and whether it takes long."""

    area: str
    tried: str
    happens: str
    test: str
    slow: bool


def faults_of(items: Iterable[pytest.Item]) -> list[Fault]:
    """The rows that collected tests stand for, in the order of the page.

    Raises `pytest.UsageError` for a mark that lacks something or names no area.
    """
    found: dict[tuple[str, str, str], Fault] = {}
    for item in items:
        for mark in item.iter_markers("fault"):
            fault = _fault(item, mark)
            found.setdefault((fault.area, fault.tried, fault.happens), fault)
    order = list(AREAS)
    return sorted(found.values(), key=lambda fault: (order.index(fault.area), fault.test, fault.tried))


def _fault(item: pytest.Item, mark: pytest.Mark) -> Fault:
    if mark.args or set(mark.kwargs) != {"area", "tried", "happens"} or mark.kwargs["area"] not in AREAS:
        raise pytest.UsageError(
            f"{item.nodeid}: `fault` takes area=, tried= and happens=, and area is one of {', '.join(AREAS)}"
        )
    callspec = getattr(item, "callspec", None)
    words = {name: value for name, value in (callspec.params if callspec else {}).items() if isinstance(value, str)}
    words["id"] = callspec.id if callspec else ""
    tried, happens = (mark.kwargs[name].format_map(words) for name in ("tried", "happens"))
    path = item.path.relative_to(item.config.rootpath).as_posix()
    name = getattr(item, "originalname", None) or item.name
    slow = item.get_closest_marker("slow") is not None
    return Fault(mark.kwargs["area"], tried, happens, f"{path}::{name}", slow)


def tables(faults: Sequence[Fault]) -> str:
    """The generated part of the page."""
    slow = sum(fault.slow for fault in faults)
    lines = [BEGIN, "", f"{len(faults)} rows; {slow} of them are shown by slow tests, marked (slow)."]
    for area, promise in AREAS.items():
        rows = [fault for fault in faults if fault.area == area]
        if rows:
            lines += ["", f"### {area}", "", promise, "", "| tried | what happens | shown by |", "| --- | --- | --- |"]
            lines += [_row(fault) for fault in rows]
    return "\n".join(lines) + "\n"


def _row(fault: Fault) -> str:
    path, name = fault.test.split("::")
    where = f"[`{name}`](../{path}){' (slow)' if fault.slow else ''}"
    return f"| {_cell(fault.tried)} | {_cell(fault.happens)} | {where} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def page_with(faults: Sequence[Fault], before: str) -> str:
    """The page `before` with its generated part made from `faults`."""
    return before.partition(BEGIN)[0] + tables(faults)


def are_whole(items: Iterable[pytest.Item], arguments: Iterable[str], directory: Path) -> bool:
    """Whether these tests, asked for in these words, are all below the directory that may have a row."""
    if any("::" in word for word in arguments):
        return False
    seen = {item.path for item in items}
    return all(path in seen for path in directory.rglob("test_*.py") if b"mark.fault(" in path.read_bytes())


def write_page(path: Path, items: Iterable[pytest.Item]) -> None:
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(page_with(faults_of(items), before), encoding="utf-8")
