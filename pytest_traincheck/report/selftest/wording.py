"""The parts of a selftest in words, shared by its reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pytest_traincheck.check.result import Outcome
from pytest_traincheck.mutants.kind import Kind
from pytest_traincheck.selftest.result import Fate, Mutant, SelftestResult, counted
from pytest_traincheck.text import one_line, plural

HEADINGS: Mapping[Fate, str] = {
    Fate.SURVIVED: "survived: it trained differently, and no rule noticed",
    Fate.KILLED: "killed: the check found it",
    Fate.CRASHED: "killed by the run itself: it did not finish",
    Fate.NOT_APPLICABLE: "not applicable: the pipeline has no place for it",
    Fate.EQUIVALENT: "equivalent: it trained the same to the last bit, so there was nothing to find",
}
"""What is said above the mutants of each fate, in the order in which they are shown."""


def percent(rate: float) -> str:
    """0.912 as "91 %"; never 100 % when something survived."""
    return f"{int(100 * rate + 1e-9)} %"


def summary(result: SelftestResult, *, with_rate: bool = True) -> str:
    """The kill rate and what it rests on."""
    if result.unchanged.errors:
        return "the pipeline did not run"
    if result.unchanged.incidents:
        broken = plural(len(result.unchanged.incidents), "incident")
        return f"without any mistake it has {broken} already, so nothing was planted"
    total = counted(result.mutants)
    if not total:
        return "no mistake that was asked for has a place in it"
    killed = total - len(result.of(Fate.SURVIVED))
    text = f"{killed} of {plural(total, 'mistake')} killed"
    if with_rate:
        text += f" ({percent(result.kill_rate)})"
    crashed = len(result.of(Fate.CRASHED))
    if crashed:
        text += f", {crashed} of them by the run itself"
    return text


def verdict_word(result: SelftestResult) -> str:
    """How it ended: "passed" means only that nothing speaks against it."""
    if result.outcome is Outcome.ERROR:
        return "ERROR"
    if result.outcome is Outcome.FAIL:
        return "FAILED"
    return "passed"


def floor(result: SelftestResult) -> str:
    """What was asked for, where it was missed."""
    if result.floor is None or result.outcome is not Outcome.FAIL or result.unchanged.incidents:
        return ""
    return f"{percent(result.floor)} were asked for"


def remedy(result: SelftestResult) -> str:
    """What to do where nothing was planted."""
    name = one_line(result.pipeline)
    if result.unchanged.incidents:
        return f"look at `traincheck check {name}` first; when the change is intended, `traincheck refresh {name}`"
    if not result.unchanged.errors and not result.is_measured:
        return "leave out `--kinds`, or name others; `traincheck selftest --list` shows all of them"
    return ""


def found(mutant: Mutant) -> str:
    """How a mutant was killed, or why it did not come to that."""
    if mutant.incident is not None:
        more = mutant.incidents - 1
        return one_line(mutant.incident.cause.title) + (f" (and {plural(more, 'more incident')})" if more else "")
    return one_line(mutant.detail)


def where(mutant: Mutant) -> str:
    """In how many places the mistake was made."""
    return plural(mutant.applied, "place") if mutant.applied else ""


def absences(mutants: Iterable[Mutant]) -> list[tuple[str, list[Mutant]]]:
    """Mutants without a place, by the reason that they share."""
    groups: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        groups.setdefault(one_line(mutant.detail), []).append(mutant)
    return list(groups.items())


def by_group(kinds: Sequence[Kind]) -> list[tuple[str, list[Kind]]]:
    """Kinds by what they are about, in order."""
    groups: dict[str, list[Kind]] = {}
    for kind in kinds:
        groups.setdefault(kind.group, []).append(kind)
    return list(groups.items())
