"""What a pair of commits is, what came of checking it, and the tables of `docs/histories.md`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from judged import FEATURE_LIMIT
from measure import REPOSITORY, markdown_table

sys.path.insert(0, str(REPOSITORY))

from pytest_traincheck.check.result import Incident


class Kind(str, Enum):
    """What the later commit did to the earlier one."""

    FIX = "fix"
    """It mended something: the fix is golden, its parent the candidate."""
    REFACTOR = "refactor"
    """It was meant to change nothing: the parent is golden."""
    INTENDED = "intended"
    """It changed behaviour on purpose: the parent is golden."""


@dataclass(frozen=True)
class Pair:
    """Two commits of one repository.

    `about` says in our words what differs; `expected` is `found` or `silent`, written before the first run, with the
    reason in `because`. `cause` are lower-case words of which one belongs into an incident that names the cause, `near`
    those of one that names a close symptom. `explained` says, after the first run, why something else came out.
    """

    name: str
    repository: str
    pipeline: str
    kind: Kind
    golden: str
    candidate: str
    about: str
    expected: str
    because: str = ""
    cause: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    explained: str = ""

    @property
    def commit(self) -> str:
        """The commit that made the difference."""
        return self.golden if self.kind is Kind.FIX else self.candidate


@dataclass(frozen=True)
class Outcome:
    """The incidents of a candidate and of the golden commit under another seed, or why there are none to tell."""

    pair: Pair
    incidents: tuple[Incident, ...] = ()
    other_seed: tuple[Incident, ...] = ()
    rules: int = 0
    problem: str = ""

    @property
    def found(self) -> bool:
        return bool(self.incidents)

    @property
    def cause(self) -> str:
        """`exact` when the first incident names the cause, `near` when it names a close symptom, else `missed`."""
        if not self.incidents:
            return "missed"
        root = self.incidents[0].cause
        text = f"{root.title}\n{root.invariant.subject}".lower()
        if any(word in text for word in self.pair.cause):
            return "exact"
        return "near" if any(word in text for word in self.pair.near) else "missed"

    @property
    def good(self) -> bool:
        """A fix is found, a refactoring silent, and an intended change said in few incidents."""
        if self.problem:
            return False
        if self.pair.kind is Kind.FIX:
            return self.found
        return len(self.incidents) <= (FEATURE_LIMIT if self.pair.kind is Kind.INTENDED else 0)

    @property
    def foreseen(self) -> bool:
        """Whether that came out which was written down before the first run."""
        return not self.problem and self.found is (self.pair.expected == "found")


def page(outcomes: Sequence[Outcome], facts: Mapping[str, str], *, first: bool = True) -> str:
    """The tables by kind, what was not as it should be the explanations of the first run, and the machine."""
    blocks = [_summary(outcomes)]
    for kind, heading in (
        (Kind.FIX, "Fixes: the fix is golden, its parent is checked"),
        (Kind.REFACTOR, "Refactorings: the parent is golden, the refactoring is checked"),
        (Kind.INTENDED, "Intended changes: the parent is golden, the change is checked"),
    ):
        mine = [each for each in outcomes if each.pair.kind is kind]
        if mine:
            blocks += [f"## {heading}", _table(mine)]
    alarms = [each for each in outcomes if each.other_seed]
    if alarms:
        blocks += ["## Other seeds", "\n".join(f"- {_seed_line(each)}" for each in alarms)]
    if first:
        blocks += ["## What was not as it should be", _explanations(outcomes)]
    blocks.append(_measured(facts))
    return "\n\n".join(blocks) + "\n"


def _summary(outcomes: Sequence[Outcome]) -> str:
    by_kind = {kind: [each for each in outcomes if each.pair.kind is kind] for kind in Kind}
    fixes, intended = by_kind[Kind.FIX], by_kind[Kind.INTENDED]
    ran = [each for each in outcomes if not each.problem]
    repositories = len({each.pair.repository for each in outcomes})
    return (
        f"{len(outcomes)} pairs of commits of {repositories} repositories. {_good(fixes)} fixes are found, "
        f"{sum(each.cause == 'exact' for each in fixes)} with the cause in the first incident and "
        f"{sum(each.cause == 'near' for each in fixes)} with a close symptom; {_good(by_kind[Kind.REFACTOR])} "
        f"refactorings are silent; {_good(intended)} intended changes have at most {FEATURE_LIMIT} incidents, "
        f"{sum(each.found for each in intended)} of them at least one; "
        f"{sum(not each.other_seed for each in ran)} of {len(ran)} runs of a golden commit with seed 3 have none. "
        f"{sum(each.foreseen for each in outcomes)} of {len(outcomes)} came out as was written down before."
    )


def _good(outcomes: Sequence[Outcome]) -> str:
    return f"{sum(each.good for each in outcomes)} of {len(outcomes)}"


def _table(outcomes: Sequence[Outcome]) -> str:
    header = ["pair", "commit", "what differs", "expected", "found", "cause", "incidents", "rules", "first incident"]
    return markdown_table(header, [_row(each) for each in outcomes])


def _row(outcome: Outcome) -> list[object]:
    pair = outcome.pair
    top = outcome.incidents[0].cause if outcome.incidents else None
    commit = f"[{pair.repository}](https://github.com/{pair.repository}/commit/{pair.commit}) `{pair.commit[:8]}`"
    expected = f"{pair.expected}: {pair.because}" if pair.because else pair.expected
    found = "**error**" if outcome.problem else "yes" if outcome.found else "no"
    said = "" if top is None else f"{top.title} ({top.source or top.stage}, step {top.step})"
    return [
        f"`{pair.name}`",
        commit,
        pair.about,
        expected,
        found if outcome.good else f"**{found}**".replace("****", "**"),
        outcome.cause if outcome.found and pair.cause else "",
        len(outcome.incidents),
        outcome.rules,
        outcome.problem.strip().splitlines()[-1] if outcome.problem else said,
    ]


def _seed_line(outcome: Outcome) -> str:
    said = "; ".join(incident.cause.title for incident in outcome.other_seed)
    return f"`{outcome.pair.name}`: {said}"


def _explanations(outcomes: Sequence[Outcome]) -> str:
    odd = [each for each in outcomes if not each.good or each.other_seed or not each.foreseen or each.pair.explained]
    lines = [f"- `{each.pair.name}`: {each.pair.explained or 'not explained yet'}" for each in odd]
    return "\n".join(lines) if lines else "Nothing."


def _measured(facts: Mapping[str, str]) -> str:
    return "Measured on: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + "."
