"""A golden as prose: the rules of a pipeline, by subject."""

from __future__ import annotations

import difflib
from fnmatch import fnmatchcase
from itertools import groupby

from pytest_traincheck.detail import Detail
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.golden.provenance import provenance
from pytest_traincheck.rules.model import Invariant
from pytest_traincheck.rules.wording import conditions
from pytest_traincheck.text import one_line, plural


def render(golden: Golden, subject: str | None = None, detail: Detail = Detail.USUAL) -> str:
    """All rules, or those whose subject is `subject`, matches it as a glob, or contains it; only their sentences where
    it is to be brief.

    Raises `GoldenError` when no rule speaks of `subject`; the message names the nearest subjects.
    """
    rules = sorted(golden.invariants, key=lambda rule: (rule.subject, rule.relation, rule.sentence, rule.id))
    if subject is not None:
        rules = _about(golden, rules, subject)
    count = plural(len(rules), "rule")
    if len(rules) != len(golden.invariants):
        count += f" of {len(golden.invariants)}"
    lines = [f"{one_line(golden.pipeline)}: {count}"]
    if subject is None and detail is not Detail.BRIEF:
        lines += [f"  {label:<13} {text}" for label, text in provenance(golden)]
    for name, group in groupby(rules, key=lambda rule: rule.subject):
        lines += ["", one_line(name)]
        for rule in group:
            lines += _rule_lines(rule)[: 1 if detail is Detail.BRIEF else None]
    return "\n".join(lines)


def _about(golden: Golden, rules: list[Invariant], subject: str) -> list[Invariant]:
    exact = [rule for rule in rules if rule.subject == subject]
    if exact:
        return exact
    found = [rule for rule in rules if fnmatchcase(rule.subject, subject) or subject in rule.subject]
    if found:
        return found
    near = difflib.get_close_matches(subject, {rule.subject for rule in rules}, n=3, cutoff=0.3)
    hint = f"The nearest are {', '.join(near)}." if near else "Leave `--subject` out to see all subjects."
    raise GoldenError(f"No rule of {golden.pipeline!r} is about {subject!r}. {hint}")


def _rule_lines(rule: Invariant) -> list[str]:
    lines = [f"  - {one_line(rule.sentence)}"]
    if rule.when:
        lines.append(f"      when {conditions(rule.when)}")
    support = f"{plural(rule.examples, 'example')} in {plural(rule.runs, 'run')}"
    lines.append(f"      {rule.scope.value}, {rule.kind.value}; {support}; {one_line(rule.relation)} {rule.id}")
    return lines
