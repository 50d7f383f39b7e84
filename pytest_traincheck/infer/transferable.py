"""Rules that hold in many programs, for programs that were never seen: what a pack is made of.

As in the TrainCheck paper (OSDI 2025, section 3): the examples of all programs give a hypothesis its precondition. What
no program breaks is a law, what nearly all keep a habit, and everything else is dropped. That a rule holds elsewhere is
not concluded from the programs that it was learned from: each program in turn is left out, the rule is learned from the
others, and tried on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from pytest_traincheck.infer.candidates import required_support
from pytest_traincheck.infer.certainty import at_most
from pytest_traincheck.infer.known_stages import within_known_stages
from pytest_traincheck.infer.precondition import weakest_preconditions
from pytest_traincheck.packs.errors import PackError
from pytest_traincheck.packs.model import Evidence, Level, Pack, PackRule
from pytest_traincheck.packs.versions import libraries, reaches
from pytest_traincheck.relations import Examples, Hypothesis, Relation, laws, relations
from pytest_traincheck.relations.base import PINNED_FIELDS, in_set_up, is_measured, is_replayed
from pytest_traincheck.relations.laws import Reason
from pytest_traincheck.relations.precondition_wording import when_text
from pytest_traincheck.rules.conditions import Condition
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Run

MIN_PROGRAMS = 3
"""Programs that must show a rule that has a reason: what two share may be chance, and the documentation that gives the
reason speaks for the rest. By data alone up to 63 % of right programs may break what three keep; the evidence of each
rule says how many it is.
"""

MIN_UNREASONED = 10
"""Programs that must show a rule for which nothing speaks but data. None of ten that break it leaves at most 26 % of
right programs that do, and with fewer than ten a habit that nine in ten keep cannot be told from what all keep.
"""

HABIT_SHARE = 0.9
"""Of the programs that show a habit, those that keep it."""


@dataclass(frozen=True)
class Terms:
    """What a pack is to hold. `library` is that of its users; with `laws_only` just rules with a reason.

    `mistakes` are rules that programs, by their names, are known to break by mistake: they say nothing about these.
    """

    library: str = "torch"
    laws_only: bool = False
    minimum: int = MIN_PROGRAMS
    unreasoned: int = MIN_UNREASONED
    mistakes: Mapping[str, frozenset[str]] = field(default_factory=dict)


def learn_pack(programs: Mapping[str, Sequence[Run]], *, name: str, terms: Terms = Terms(), reason: str = "") -> Pack:
    """What the runs of right programs, by the programs' names, have in common.

    Raises:
        PackError: fewer programs than a law needs, one without runs, or a mistake in no program or of no law.
    """
    if len(programs) < terms.minimum or not all(programs.values()):
        raise PackError(
            f"transferable rules need the runs of at least {terms.minimum} programs, got {len(programs)}; add "
            "programs, or learn the golden of one with `traincheck infer`"
        )
    programs = {key: programs[key] for key in sorted(programs)}
    _require_known(terms.mistakes, programs)
    rules: dict[tuple[str, str], PackRule] = {}
    claimed: set[str] = set()
    for relation, found in _by_relation(programs, terms):
        settled: set[str] = set()
        kept: set[str] = set()
        for hypothesis in found:
            family = hypothesis.family or hypothesis.key
            if family in settled or hypothesis.implied_by in kept:
                continue
            rule = _rule(relation, hypothesis, programs, terms)
            if rule is not None and rule.invariant.id not in claimed:
                settled.add(family)
                kept.add(hypothesis.key)
                claimed.add(rule.invariant.id)
                rules[rule.order] = rule
    return Pack(
        name=name,
        library=terms.library,
        rules=tuple(rules[key] for key in sorted(rules)),
        programs=tuple(programs),
        versions=_versions(programs),
        runs=sum(map(len, programs.values())),
        reason=reason,
        mistakes=_known_of(terms.mistakes, {rule.id for rule in rules.values()}),
    )


def _known_of(mistakes: Mapping[str, frozenset[str]], rules: set[str]) -> dict[str, tuple[str, ...]]:
    """The mistakes that are about these rules."""
    found = {program: tuple(sorted(names & rules)) for program, names in sorted(mistakes.items())}
    return {program: names for program, names in found.items() if names}


def _require_known(mistakes: Mapping[str, frozenset[str]], programs: Mapping[str, Sequence[Run]]) -> None:
    slugs = {law.reason(law.claims[0]()).slug for law in laws().values()}
    for program, names in mistakes.items():
        if program not in programs:
            raise PackError(
                f"a mistake is named of {program!r}, and no program is called so; the programs are "
                f"{', '.join(sorted(programs))}"
            )
        for name in sorted(names - slugs):
            raise PackError(f"{program!r} is said to break {name!r} by mistake, and no law is called so")


def _by_relation(
    programs: Mapping[str, Sequence[Run]], terms: Terms
) -> Iterator[tuple[Relation, Iterable[Hypothesis]]]:
    """Laws first: a rule that has a reason is told with it."""
    table: list[Relation] = [*laws().values(), *(() if terms.laws_only else relations().values())]
    for relation in table:
        # Numbers belong to one program.
        if not is_measured(relation) and not is_replayed(relation):
            yield relation, _hypotheses(relation, programs, terms)


def _hypotheses(relation: Relation, programs: Mapping[str, Sequence[Run]], terms: Terms) -> list[Hypothesis]:
    """Of all programs, each once. Without a reason only those that enough programs suggest."""
    found: dict[str, Hypothesis] = {}
    suggested: dict[str, set[str]] = {}
    for program, runs in programs.items():
        for run in runs:
            for hypothesis in relation.hypotheses(run):
                if hypothesis.scope is Scope.TRANSFERABLE:
                    found.setdefault(hypothesis.key, hypothesis)
                    suggested.setdefault(hypothesis.key, set()).add(program)
    needed = 1 if relation.name in laws() else terms.unreasoned
    return [item for key, item in found.items() if len(suggested[key]) >= needed]


@dataclass(frozen=True)
class _Shown:
    """The examples of one program."""

    program: str
    examples: Examples

    @property
    def is_broken(self) -> bool:
        return not bool(self.examples.holds.all())


def _rule(
    relation: Relation, hypothesis: Hypothesis, programs: Mapping[str, Sequence[Run]], terms: Terms
) -> PackRule | None:
    """What is left of a hypothesis; None where it is neither a law nor a habit, or another library's."""
    law = laws().get(relation.name)
    why = law.reason(hypothesis.claim) if law is not None else None
    if why is not None and terms.laws_only and why.library != terms.library:
        return None
    if why is not None:
        programs = {key: runs for key, runs in programs.items() if why.slug not in terms.mistakes.get(key, ())}
    shown = list(_shown(relation, hypothesis, programs, why))
    needed = terms.minimum if why is not None else terms.unreasoned
    found = _law(shown, needed) or _habit(shown, needed)
    if found is None:
        return None
    level, conditions, evidence = found
    if why is not None and why.meant:
        # None of these programs does it on purpose, and one of the next may.
        level = Level.HABIT
    invariant = Invariant(
        relation=relation.name,
        subject=hypothesis.subject,
        claim=hypothesis.claim,
        when=conditions,
        scope=Scope.TRANSFERABLE,
        kind=hypothesis.kind,
        sentence=relation.sentence(hypothesis.claim, hypothesis.subject, when_text(conditions)),
        examples=evidence.examples,
        runs=sum(len(programs[program]) for program in evidence.shows),
    )
    if why is None:
        return PackRule(_readable(invariant), level, invariant, evidence=evidence)
    return PackRule(why.slug, level, invariant, why.why, why.link, why.remedy, why.meant, why.since, evidence=evidence)


def _shown(
    relation: Relation, hypothesis: Hypothesis, programs: Mapping[str, Sequence[Run]], why: Reason | None
) -> Iterator[_Shown]:
    """The programs in which a hypothesis comes up, with a version of its library that it is meant for."""
    for program, runs in programs.items():
        kept = [run for run in runs if why is None or reaches(libraries(run).get(why.library, ""), why.since)]
        examples = Examples.concatenate([_examples(relation, hypothesis, run) for run in kept])
        if len(examples):
            yield _Shown(program, examples)


def _examples(relation: Relation, hypothesis: Hypothesis, run: Run) -> Examples:
    """Without set-up, as a run is judged, and without the names of one program's things, which mean nothing in
    another.
    """
    examples = relation.examples(hypothesis.claim, run)
    kept = {name: column for name, column in examples.context.items() if name not in PINNED_FIELDS}
    return _take(replace(examples, context=kept), np.flatnonzero(~in_set_up(examples, run)))


def _take(examples: Examples, positions: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Examples:
    if len(positions) == len(examples):
        return examples
    return Examples(
        examples.holds[positions],
        examples.process[positions],
        examples.row[positions],
        examples.variable[positions],
        {name: column.take(positions) for name, column in examples.context.items()},
        examples.observed.take(positions) if examples.observed is not None else None,
    )


_Found = tuple[Level, tuple[Condition, ...], Evidence]


def _law(shown: Sequence[_Shown], needed: int) -> _Found | None:
    """A rule that no program breaks, nor any that had no part in learning it."""
    conditions = _precondition(shown, needed)
    if conditions is None:
        return None
    admitted = [(item, item.examples.where(conditions)) for item in shown]
    admitted = [(item, mask) for item, mask in admitted if mask.any()]
    tried, failed = _tried_as_law(shown, needed)
    if failed or tried < needed:
        return None
    examples = sum(int(mask.sum()) for _, mask in admitted)
    shows = tuple(item.program for item, _ in admitted)
    return Level.LAW, conditions, Evidence(shows, (), examples, tried, failed, at_most(failed, tried))


def _precondition(shown: Sequence[_Shown], needed: int) -> tuple[Condition, ...] | None:
    """Where a hypothesis holds in all programs; None where there is no such context that enough of them show."""
    if len(shown) < needed:
        return None
    examples = Examples.concatenate([item.examples for item in shown])
    sizes = [len(item.examples) for item in shown]
    borders = np.cumsum([0, *sizes]).tolist()
    for item in weakest_preconditions(examples, (len(examples),), conjunction_only=True):
        programs = sum(bool(item.admits[low:high].any()) for low, high in pairwise(borders))
        if programs >= needed and int(item.admits.sum()) >= required_support(item.conditions):
            return within_known_stages(examples, item)
    return None


def _tried_as_law(shown: Sequence[_Shown], needed: int) -> tuple[int, int]:
    """On how many programs a law was tried that the others had given, and how many of them broke it."""
    tried = failed = 0
    clean = not any(item.is_broken for item in shown)
    for item in shown:
        others = [other for other in shown if other is not item]
        if clean and not _has_stages(item.examples):
            # Others that break it nowhere give it without a precondition.
            conditions: tuple[Condition, ...] | None = () if len(others) >= needed - 1 else None
        else:
            conditions = _precondition(others, needed - 1)
        if conditions is None:
            continue
        mask = item.examples.where(conditions)
        tried += bool(mask.any())
        failed += bool((mask & ~item.examples.holds).any())
    return tried, failed


def _has_stages(examples: Examples) -> bool:
    return "stage" in examples.context


def _habit(shown: Sequence[_Shown], needed: int) -> _Found | None:
    """A rule that nearly all programs keep, whatever they are."""
    if len(shown) < needed or not _nearly_all(shown):
        return None
    tried = failed = 0
    for item in shown:
        if _nearly_all([other for other in shown if other is not item]):
            tried += 1
            failed += item.is_broken
    examples = sum(len(item.examples) for item in shown)
    breaks = tuple(item.program for item in shown if item.is_broken)
    shows = tuple(item.program for item in shown)
    return Level.HABIT, (), Evidence(shows, breaks, examples, tried, failed, at_most(failed, tried))


def _nearly_all(shown: Sequence[_Shown]) -> bool:
    return sum(not item.is_broken for item in shown) >= HABIT_SHARE * len(shown)


def _versions(programs: Mapping[str, Sequence[Run]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for run in (run for runs in programs.values() for run in runs):
        for library, version in libraries(run).items():
            found.setdefault(library, set()).add(version)
    return {library: tuple(sorted(versions)) for library, versions in found.items()}


def _readable(rule: Invariant) -> str:
    """A name for a rule that nobody gave one."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", f"{rule.relation} {rule.subject.rpartition('.')[2]}")
    name = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:60].rstrip("-")
    return f"{name}-{rule.id[:6]}"
