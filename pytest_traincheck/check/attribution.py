"""Code or library: what broke, found from the same rules checked on both codes with both libraries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from pytest_traincheck.check.result import CheckResult, Incident, Outcome, Verdict, Violation


class Code(str, Enum):
    """Whose code ran."""

    GOLDEN = "golden"
    CANDIDATE = "candidate"


class Libraries(str, Enum):
    """Which environment it ran in."""

    OLD = "old"
    NEW = "new"


class Cause(str, Enum):
    """What an incident needs to show."""

    LIBRARY = "library"
    CODE = "code"
    EITHER = "either"
    TOGETHER = "both together"


@dataclass(frozen=True)
class Cell:
    """One of the four combinations that was checked against golden code with old libraries."""

    code: Code
    libraries: Libraries
    result: CheckResult

    @property
    def is_broken(self) -> bool:
        return self.result.outcome is not Outcome.PASS


@dataclass(frozen=True)
class Attribution:
    """One sentence, and the cause of each incident of the last cell, in their order."""

    sentence: str
    causes: tuple[Cause, ...]


def last_cell(cells: Sequence[Cell]) -> Cell:
    """What is about to be merged: the candidate's code, where it differs from golden's, with the new libraries."""
    found = _cell(cells, Code.CANDIDATE, Libraries.NEW) or _cell(cells, Code.GOLDEN, Libraries.NEW)
    assert found is not None, "the new libraries are always tried"
    return found


def attribute(cells: Sequence[Cell]) -> Attribution:
    """What broke it. Where the code does not differ there is one cell, and what breaks there is the library's."""
    last = last_cell(cells)
    library = _cell(cells, Code.GOLDEN, Libraries.NEW)
    code = _cell(cells, Code.CANDIDATE, Libraries.OLD)
    if library is None or code is None:
        causes = tuple(Cause.LIBRARY for _ in last.result.incidents)
        return Attribution(_alone(last), causes)
    causes = tuple(_cause(incident.cause, library.result, code.result) for incident in last.result.incidents)
    return Attribution(_of_both(library, code, last, causes), causes)


def regrouped(cells: Sequence[Cell]) -> CheckResult:
    """The result of the last cell, with what the library alone broke apart from what the code alone broke.

    Seen by itself nobody can tell which of two roots a deviation follows from, and the first one takes all. The other
    cells have one root each.
    """
    last = last_cell(cells).result
    library, code = _cell(cells, Code.GOLDEN, Libraries.NEW), _cell(cells, Code.CANDIDATE, Libraries.OLD)
    if library is None or code is None:
        return last
    incidents = last.incidents
    for cause, other in ((Cause.LIBRARY, library.result), (Cause.CODE, code.result)):
        incidents = _gathered(incidents, cause, other, library.result, code.result)
    return replace(last, incidents=incidents)


def _gathered(
    incidents: Sequence[Incident], cause: Cause, other: CheckResult, library: CheckResult, code: CheckResult
) -> tuple[Incident, ...]:
    """The incidents with all consequences of one cause below a root that has it. `other` is the result of the cell in
    which this cause is alone; without a root here, one of its roots becomes an incident of its own.
    """
    causes = [_cause(incident.cause, library, code) for incident in incidents]
    opposite = Cause.CODE if cause is Cause.LIBRARY else Cause.LIBRARY
    strays = [
        violation
        for incident, found in zip(incidents, causes, strict=True)
        if found is opposite
        for violation in incident.consequences
        if _cause(violation, library, code) is cause
    ]
    gathered = [
        replace(incident, consequences=tuple(each for each in incident.consequences if each not in strays))
        for incident in incidents
    ]
    if cause in causes:
        home = causes.index(cause)
    else:
        identities = {incident.cause.invariant.id: incident.id for incident in other.incidents}
        root = next((violation for violation in strays if violation.invariant.id in identities), None)
        if root is None:
            return tuple(incidents)
        home = len(gathered)
        gathered.append(Incident(identities[root.invariant.id], home + 1, root))
    more = tuple(violation for violation in strays if violation is not gathered[home].cause)
    gathered[home] = replace(gathered[home], consequences=(*gathered[home].consequences, *more))
    return tuple(gathered)


def _cell(cells: Sequence[Cell], code: Code, libraries: Libraries) -> Cell | None:
    return next((cell for cell in cells if cell.code is code and cell.libraries is libraries), None)


def _cause(violation: Violation, library: CheckResult, code: CheckResult) -> Cause:
    by_library, by_code = _shares(violation, library), _shares(violation, code)
    if by_library and by_code:
        return Cause.EITHER
    if by_library:
        return Cause.LIBRARY
    return Cause.CODE if by_code else Cause.TOGETHER


def _shares(violation: Violation, other: CheckResult) -> bool:
    """Whether its rule is broken there too. What is a consequence here may be a root where its cause is missing."""
    return any(violation.invariant.id == item.invariant.id for each in other.incidents for item in each.violations)


def _alone(last: Cell) -> str:
    if not last.is_broken:
        return "What the new libraries broke is accepted." if _accepts(last) else "The new libraries broke nothing."
    if last.result.errors:
        return "The library alone broke it: the code does not run to its end with the new libraries."
    return "The library alone broke it."


def _accepts(cell: Cell) -> bool:
    return cell.result.count(Verdict.ACCEPTED) > 0


def _of_both(library: Cell, code: Cell, last: Cell, causes: Sequence[Cause]) -> str:
    broken = (library.is_broken, code.is_broken)
    if not last.is_broken and not any(broken) and any(map(_accepts, (library, code, last))):
        return "What the libraries and the code broke is accepted."
    if not last.is_broken:
        return _MENDED[broken]
    if broken == (False, False):
        return "Only both together broke it: each change alone passes."
    more = causes.count(Cause.TOGETHER)
    rest = f" {_number(more)} more only both together." if more and more < len(causes) else ""
    if broken == (True, False):
        run = "the golden code does not run to its end with the new libraries." if library.result.errors else ""
        return _sentence("The library alone broke it", run) + rest
    if broken == (False, True):
        run = "the candidate code does not run to its end with the old libraries either." if code.result.errors else ""
        return _sentence("The code alone broke it", run) + rest
    if causes and all(cause is Cause.EITHER for cause in causes):
        return "The library and the code each broke it: either change alone fails in the same way."
    return "The library and the code each broke something." + rest


def _sentence(text: str, more: str) -> str:
    return f"{text}: {more}" if more else f"{text}."


def _number(count: int) -> str:
    return "One incident" if count == 1 else f"{count} incidents"


_MENDED = {
    (False, False): "Neither the libraries nor the code broke anything.",
    (
        True,
        False,
    ): "The new libraries break the golden code, and the candidate code is ready for them: together they pass.",
    (
        False,
        True,
    ): "The candidate code fails with the old libraries and passes with the new ones: merge both together.",
    (True, True): "Each change alone fails and both together pass: merge both together.",
}
