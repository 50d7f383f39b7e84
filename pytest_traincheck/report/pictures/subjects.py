"""Before and after of a refresh: how many rules each subject has, lost, gained, and which say something else now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_traincheck.golden.diff import Change, GoldenDiff
from pytest_traincheck.report.pictures.picture import Key, Picture, Table, bar
from pytest_traincheck.rules.model import Invariant
from pytest_traincheck.text import one_line, plural

_MEANING = {"p-kept": "the same", "p-changed": "says something else", "p-new": "added", "p-gone": "removed"}
"""What the parts of a bar stand for."""


def subjects(diff: GoldenDiff, kept: Sequence[Invariant]) -> Picture | None:
    """A row for each subject that changed; `kept` are the new golden's rules. None where the rules are the same."""
    if diff.is_empty:
        return None
    added, removed = _by_subject(diff.added), _by_subject(diff.removed)
    weaker, stronger = _of_changes(diff.weaker), _of_changes(diff.stronger)
    changed = _of_changes((*diff.changed, *diff.replaced))
    after = _by_subject(kept)
    most = max(after[subject] + removed[subject] for subject in diff.subjects) or 1
    seen: Counter[str] = Counter()
    rows = []
    for subject in diff.subjects:
        other = weaker[subject] + stronger[subject] + changed[subject]
        same = max(after[subject] - added[subject] - other, 0)
        parts = (
            ("p-kept", same),
            ("p-changed", other),
            ("p-new", added[subject]),
            ("p-gone", removed[subject]),
        )
        seen.update({class_: number for class_, number in parts if number})
        before = after[subject] - added[subject] + removed[subject]
        words = [
            f"{number} {word}"
            for number, word in (
                (added[subject], "added"),
                (removed[subject], "removed"),
                (weaker[subject], "weaker"),
                (stronger[subject], "stronger"),
                (changed[subject], "changed"),
            )
            if number
        ]
        rows.append((one_line(subject), bar(parts, most), f"{before} to {after[subject]}", ", ".join(words)))
    sorts = (
        ("added", diff.added),
        ("removed", diff.removed),
        ("weaker", diff.weaker),
        ("stronger", diff.stronger),
        ("changed", (*diff.changed, *diff.replaced)),
    )
    counts = ", ".join(f"{plural(len(found), 'rule')} {word}" for word, found in sorts if found)
    return Picture(
        "subjects",
        "What did each subject lose and gain?",
        f"{plural(len(rows), 'subject')} changed: {counts}.",
        (),
        Table(("subject", "rules", "before and after", "what changed"), tuple(rows)),
        tuple(Key(class_, meaning) for class_, meaning in _MEANING.items() if seen[class_]),
        open=True,
    )


def _by_subject(rules: Iterable[Invariant]) -> Counter[str]:
    return Counter(rule.subject for rule in rules)


def _of_changes(changes: Iterable[Change]) -> Counter[str]:
    return Counter(change.new.subject for change in changes)
