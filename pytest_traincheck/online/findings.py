"""What the checks of the parts of one training add up to: a verdict for each rule, and the incidents in their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_traincheck.check.evaluate import CheckOutcome
from pytest_traincheck.check.explain import explain
from pytest_traincheck.check.result import Incident, InvariantVerdict, Verdict, Violation
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.relations import meaning_of

EPISODES = 3
"""How often a rule that was broken, and held again, is told to be broken; what breaks off and on is known by then."""

TOLD_BEFORE = "it was broken, and reported, in the training before, which this one goes on with"
"""Why a rule that is broken is in no incident."""

_WEIGHT = {
    Verdict.NOT_OBSERVABLE: 0,
    Verdict.NOT_TRIGGERED: 1,
    Verdict.ACCEPTED: 2,
    Verdict.HELD: 3,
    Verdict.VIOLATED: 4,
}
"""Of several verdicts on one rule the heaviest counts."""


@dataclass
class _Burst:
    """Rules that were broken at about the same time: what is behind one may be behind the others."""

    violations: list[Violation]
    last: int
    """The last part in which a rule was broken that had held before."""


@dataclass
class Findings:
    """The parts of one training are taken in the order of time, each under its number, from 0."""

    golden: Golden
    verdicts: dict[str, InvariantVerdict] = field(default_factory=dict)
    """By the id of the rule."""
    _bursts: list[_Burst] = field(default_factory=list)
    _broken: set[str] = field(default_factory=set)
    """Rules that did not hold when they last had a say."""
    _episodes: dict[str, int] = field(default_factory=dict)
    _told_before: set[str] = field(default_factory=set)
    """Rules that the training before was told to have broken, and of which nothing has been told since."""

    def go_on(self, broken: Iterable[str], episodes: Mapping[str, int]) -> None:
        """What was found of the training before is not told again."""
        self._broken.update(broken)
        self._episodes.update(episodes)
        self._told_before.update(self._broken, (rule for rule, number in episodes.items() if number >= EPISODES))

    @property
    def broken(self) -> frozenset[str]:
        """Rules that did not hold when they last had a say."""
        return frozenset(self._broken)

    @property
    def episodes(self) -> Mapping[str, int]:
        """How often each rule was told to be broken."""
        return dict(self._episodes)

    def take(self, outcome: CheckOutcome, part: int) -> None:
        """Add what the check of a part found, which is not checked again."""
        new = self._new(outcome)
        if new:
            self._burst(part).violations.extend(new)
        for violation in new:
            self._episodes[violation.invariant.id] = self._episodes.get(violation.invariant.id, 0) + 1
            self._told_before.discard(violation.invariant.id)
        for item in outcome.verdicts:
            rule = item.invariant.id
            if item.verdict is Verdict.HELD:
                self._broken.discard(rule)
            elif item.verdict is Verdict.VIOLATED:
                self._broken.add(rule)
                item = replace(item, reason=TOLD_BEFORE if rule in self._told_before else "")
            known = self.verdicts.get(rule)
            news = known is not None and known.reason == TOLD_BEFORE and not item.reason
            if known is None or _WEIGHT[item.verdict] + news > _WEIGHT[known.verdict]:
                self.verdicts[rule] = item

    def incidents(self) -> tuple[Incident, ...]:
        """Everything that was found, in order of time."""
        return _numbered(explain(burst.violations) for burst in self._bursts)

    def incidents_with(self, outcome: CheckOutcome, part: int) -> tuple[Incident, ...]:
        """The same with what a part shows that is not complete yet."""
        new = self._new(outcome)
        bursts = [burst.violations for burst in self._bursts]
        if new and self._bursts and part - self._bursts[-1].last <= 1:
            bursts[-1] = [*bursts[-1], *new]
        elif new:
            bursts.append(new)
        return _numbered(explain(violations) for violations in bursts)

    def _new(self, outcome: CheckOutcome) -> list[Violation]:
        """Violations of rules that held, or had no say, before."""
        return [
            item
            for item in outcome.violations
            if item.invariant.id not in self._broken and self._episodes.get(item.invariant.id, 0) < EPISODES
        ]

    def _burst(self, part: int) -> _Burst:
        if not self._bursts or part - self._bursts[-1].last > 1:
            self._bursts.append(_Burst([], part))
        self._bursts[-1].last = part
        return self._bursts[-1]


def granted(outcome: CheckOutcome) -> Mapping[str, str]:
    """Rules that golden's own steps showed to be broken without any effect, by id, and what shows that.

    What only explains other rules is not among them: in a later step it may explain one.
    """
    return {
        item.invariant.id: item.reason
        for item in outcome.verdicts
        if item.verdict is Verdict.HELD and item.reason and not meaning_of(item.invariant).only_explains
    }


def together(all_verdicts: Sequence[Mapping[str, InvariantVerdict]], golden: Golden) -> tuple[InvariantVerdict, ...]:
    """One verdict for each rule of the golden, from those of several trainings."""
    found: list[InvariantVerdict] = []
    for rule in golden.invariants:
        known = [verdicts[rule.id] for verdicts in all_verdicts if rule.id in verdicts]
        nothing = InvariantVerdict(rule, Verdict.NOT_TRIGGERED, "its context never came up in this run")
        found.append(max(known, key=lambda item: _WEIGHT[item.verdict], default=nothing))
    return tuple(found)


def _numbered(groups: Iterable[tuple[Incident, ...]]) -> tuple[Incident, ...]:
    found = [incident for group in groups for incident in group]
    return tuple(replace(incident, number=number) for number, incident in enumerate(found, start=1))
