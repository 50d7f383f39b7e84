"""A history as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pytest_traincheck.history.record import Record
from pytest_traincheck.history.story import Pipeline
from pytest_traincheck.report.history import wording
from pytest_traincheck.text import one_line

_MOST = 10
"""Of each sort of thing so many are shown, the newest; the page has all."""


def render_history(records: Sequence[Record], stories: Sequence[Pipeline], sentences: Mapping[str, str]) -> Group:
    """The whole of it, for a console of any width. `sentences` are those of rules by id."""
    parts: list[RenderableType] = [Text(wording.summary(records)), Text(), _table(stories)]
    for title, lines in _sections(stories, sentences):
        if lines:
            hidden = len(lines) - _MOST
            parts += [Text(), Text(title, style="bold")]
            if hidden > 0:
                parts.append(Text(f"  ({hidden} older ones are left out; `--html` and `--json` have all)"))
            parts += [Padding(Text(f"- {line}"), (0, 0, 0, 2)) for line in lines[-_MOST:]]
    return Group(*parts)


def _table(stories: Sequence[Pipeline]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in wording.COLUMNS:
        table.add_column(title, overflow="fold")
    for story in stories:
        table.add_row(*(Text(cell) for cell in wording.row(story)))
    return table


def _sections(stories: Sequence[Pipeline], sentences: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    yield (
        "what broke",
        [
            f"{story.name}: {one_line(episode.incident.title)}"
            f" ({one_line(episode.incident.source) or episode.incident.relation}); {wording.broke(episode)}"
            for story in stories
            for episode in story.episodes
        ],
    )
    yield (
        "goldens that changed",
        [f"{story.name}: {wording.learned(item)}" for story in stories for item in story.learned],
    )
    yield (
        "what was accepted",
        [f"{story.name}: {wording.accepted(item)}" for story in stories for item in story.accepted],
    )
    yield (
        "rules that never come up",
        [
            f"{story.name}: {wording.silent(story.silent, story.checks[-1].entry.rules)}: "
            + "; ".join(wording.named(rule, sentences) for rule in story.silent.rules[:_MOST])
            + ("; ..." if len(story.silent.rules) > _MOST else "")
            for story in stories
            if story.silent.rules
        ],
    )
    yield (
        "planted mistakes that survived",
        [
            f"{story.name}: {', '.join(story.selftests[-1].entry.survivors)}"
            for story in stories
            if story.selftests and story.selftests[-1].entry.survivors
        ],
    )
