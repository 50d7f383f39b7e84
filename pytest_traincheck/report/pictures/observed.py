"""What of golden's rules was looked at, what was not, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from pytest_traincheck.check.result import CheckResult, InvariantVerdict, Verdict
from pytest_traincheck.report.pictures.picture import Key, Picture, Table, bar
from pytest_traincheck.report.shares import is_evaluated
from pytest_traincheck.text import one_line, plural

_CLASSES = {
    Verdict.VIOLATED: "p-violated",
    Verdict.ACCEPTED: "p-accepted",
    Verdict.HELD: "p-held",
    Verdict.NOT_OBSERVABLE: "p-not-observable",
    Verdict.NOT_TRIGGERED: "p-not-triggered",
}

_ROWS = 10
"""Relations that are told apart, where there are more without anything to be told of."""


def observed(result: CheckResult) -> Picture | None:
    """A row for each relation, and one for each reason why rules were not evaluated; None where there are no rules."""
    if not result.verdicts:
        return None
    by_relation: dict[str, list[InvariantVerdict]] = {}
    for item in result.verdicts:
        by_relation.setdefault(item.invariant.relation, []).append(item)
    order = sorted(by_relation.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    told = [entry for entry in order if not _quiet(entry[1])]
    shown = [*told, *[entry for entry in order if _quiet(entry[1])][: max(_ROWS - len(told), 0)]]
    rest = [entry for entry in order if entry not in shown]
    most = len(order[0][1])
    rows = [
        (one_line(name), _bar(items, most), _share(items), _reason(items))
        for name, items in order
        if (name, items) in shown
    ]
    if rest:
        others = [item for _, items in rest for item in items]
        rows.append(
            (f"{plural(len(rest), 'other relation')}", _bar(others, max(most, len(others))), _share(others), "")
        )
    seen = {verdict for verdict in _CLASSES if result.count(verdict)}
    return Picture(
        "observed",
        "What was looked at, what was not, and why?",
        _answer(result),
        (),
        Table(
            ("relation", "rules", "evaluated", "why others were not"),
            tuple(rows),
        ),
        tuple(Key(class_, verdict.value) for verdict, class_ in _CLASSES.items() if verdict in seen),
        open=True,
    )


def _quiet(items: Sequence[InvariantVerdict]) -> bool:
    """Whether all of a relation's rules held, so that there is nothing to be told."""
    return all(item.verdict is Verdict.HELD for item in items)


def _bar(items: Sequence[InvariantVerdict], most: int) -> Markup:
    counts = Counter(item.verdict for item in items)
    return bar([(class_, counts[verdict]) for verdict, class_ in _CLASSES.items()], most)


def _share(items: Sequence[InvariantVerdict]) -> str:
    return f"{sum(map(is_evaluated, items))} of {len(items)}"


def _reason(items: Sequence[InvariantVerdict]) -> str:
    """The most frequent reason, with what it is a reason for, and how many others there are."""
    reasons = Counter(one_line(item.reason) or item.verdict.value for item in items if not is_evaluated(item))
    if not reasons:
        return ""
    (reason, number), *others = reasons.most_common()
    more = f"; {plural(len(others), 'other reason')}" if others else ""
    return f"{number}: {reason}{more}"


def _answer(result: CheckResult) -> str:
    number = sum(map(is_evaluated, result.verdicts))
    total = len(result.verdicts)
    words = f"{number} of {plural(total, 'rule')} were evaluated ({100 * number / total:.0f} %)."
    covered = result.coverage
    if covered is not None and covered.comparisons:
        words += f" Of {plural(covered.comparisons, 'comparison')} with the golden run {covered.made} took place."
    return words
