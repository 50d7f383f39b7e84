"""A difference between two goldens as a block for a pull request: Markdown that also reads well as plain text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_traincheck.golden.diff import Change, GoldenDiff
from pytest_traincheck.golden.renames import translated
from pytest_traincheck.optimizer_label import class_in
from pytest_traincheck.rules.model import Invariant
from pytest_traincheck.rules.wording import conditions
from pytest_traincheck.text import one_line, plural

WIDTH = 80


@dataclass(frozen=True)
class _Section:
    """One kind of change: how it is called, what it means for one rule and for several, and the entries by rule."""

    name: str
    of_one: str
    of_many: str
    entries: Sequence[tuple[Invariant, list[str]]]

    @property
    def heading(self) -> str:
        count = len(self.entries)
        return f"**{self.name}**: {plural(count, 'rule')} {self.of_one if count == 1 else self.of_many}."


def render_diff(diff: GoldenDiff) -> str:
    """The difference, sorted into what changed, became weaker, was removed, became stronger and was added.

    "no change" where there is none. Lines are at most `WIDTH` columns wide where words allow it.
    """
    name = one_line(diff.pipeline)
    if diff.is_empty:
        lines = [f"`{name}`: no change"]
        return "\n".join([*lines, "", *_facts(diff)]) if diff.facts else lines[0]
    sections = [
        _Section("Changed", "says something else now", "say something else now", _of(diff.changed, _said)),
        _Section("Weaker", "holds in fewer places now", "hold in fewer places now", _of(diff.weaker, _placed)),
        _Section("Removed", "is no longer checked", "are no longer checked", [(r, [r.sentence]) for r in diff.removed]),
        _Section("Stronger", "holds in more places now", "hold in more places now", _of(diff.stronger, _placed)),
        _Section("Added", "is new", "are new", [(rule, [rule.sentence]) for rule in diff.added]),
    ]
    sections = [section for section in sections if section.entries]
    counts = [f"{len(section.entries)} {section.name.lower()}" for section in sections]
    if diff.replaced:
        counts.append(f"{len(diff.replaced)} carried over")
    total = sum(len(section.entries) for section in sections) + len(diff.replaced)
    lines = [f"### `{name}`: {plural(total, 'rule')} differ{'s' if total == 1 else ''} ({', '.join(counts)})"]
    lines += _replaced(diff)
    for section in sections:
        lines += ["", section.heading]
        subject = None
        for rule, (said, *details) in section.entries:
            if rule.subject != subject:
                subject = rule.subject
                lines += ["", f"`{one_line(subject)}`", ""]
            lines += _wrapped(said, "- ")
            for detail in details:
                lines += _wrapped(detail, "  - ")
    if diff.facts:
        lines += ["", *_facts(diff)]
    return "\n".join(lines)


def _replaced(diff: GoldenDiff) -> list[str]:
    if not diff.replaced:
        return []
    count = len(diff.replaced)
    named: list[tuple[str, str]] = []
    for old, new in diff.renames:
        classes = {class_in(shown) for shown, _ in named}
        # What follows from a pair that is named needs no word: an optimizer from its model, its class from it.
        if translated(old, named) != new and old.rpartition(".")[2] not in classes:
            named.append((old, new))
    pairs = ", ".join(f"`{one_line(new)}` takes the place of `{one_line(old)}`" for old, new in named)
    rest = "rule says of it what it" if count == 1 else "rules say of it what they"
    return ["", *_wrapped(f"**Carried over**: {pairs}; {count} {rest} said before.", "")]


def _of(changes: Sequence[Change], lines: Callable[[Change], list[str]]) -> list[tuple[Invariant, list[str]]]:
    return [(change.new, lines(change)) for change in changes]


def _said(change: Change) -> list[str]:
    lines = [change.new.sentence]
    if change.old.sentence != change.new.sentence:
        lines.append(f"was: {change.old.sentence}")
    if change.old.when != change.new.when:
        lines.append(f"when: {conditions(change.new.when)} (was: {conditions(change.old.when)})")
    return lines + _tags(change)


def _placed(change: Change) -> list[str]:
    lines = [change.new.sentence]
    if change.old.when != change.new.when:
        lines.append(f"now: {conditions(change.new.when)}; was: {conditions(change.old.when)}")
    return lines + _tags(change)


def _tags(change: Change) -> list[str]:
    pairs = [
        ("scope", change.old.scope.value, change.new.scope.value),
        ("kind", change.old.kind.value, change.new.kind.value),
    ]
    return [f"{name}: {new} (was: {old})" for name, old, new in pairs if old != new]


def _facts(diff: GoldenDiff) -> list[str]:
    lines = ["**Learned from**", ""]
    for name, old, new in diff.facts:
        lines += _wrapped(f"{name}: {_short(name, new) or 'none'} (was: {_short(name, old) or 'none'})", "- ")
    return lines


def _short(name: str, text: str) -> str:
    # Git finds a commit by its first digits; what follows says that the tree was not quite the commit.
    return re.sub(r"^([0-9a-f]{12})[0-9a-f]{28}", r"\1", text) if name == "commit" else text


def _wrapped(text: str, mark: str) -> list[str]:
    """An entry of a list; the lines after the first are indented, so that Markdown takes them for the same entry."""
    indent = " " * len(mark)
    return textwrap.wrap(
        one_line(text),
        WIDTH,
        initial_indent=mark,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [mark.rstrip()]
