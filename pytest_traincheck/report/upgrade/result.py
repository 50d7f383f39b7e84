"""What an upgrade check of one pipeline found. Pure data; the reports beside it are functions of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from pytest_traincheck.check.attribution import Attribution, Cause, Cell, attribute, last_cell
from pytest_traincheck.check.library_call import LibraryCall
from pytest_traincheck.check.result import CheckResult, Incident, Verdict


@dataclass(frozen=True)
class VersionRow:
    """A distribution that differs between the environments; empty where it is not installed."""

    name: str
    old: str
    new: str
    asked: bool


@dataclass(frozen=True)
class Share:
    """What became of golden's rules with the new libraries and golden's code."""

    rules: int
    held: int
    violated: int
    idle: int
    """Rules whose context never came up, or that could not be observed."""

    @property
    def kept(self) -> float:
        """Share of the rules that are still valid and still apply."""
        return self.held / self.rules if self.rules else 0.0


@dataclass(frozen=True)
class UpgradeResult:
    """Golden code with old libraries was learned from; every cell was checked against that.

    Without a cell there is an error in `reference`: the learning itself failed. `calls` are the library calls nearest
    to the incidents of the last cell, in their order; `old_python` and `new_python` are the interpreters.
    """

    pipeline: str
    reference: CheckResult
    rules: int
    cells: tuple[Cell, ...]
    calls: tuple[LibraryCall | None, ...]
    versions: tuple[VersionRow, ...]
    old_python: str
    new_python: str
    notes: tuple[str, ...] = ()

    @cached_property
    def attribution(self) -> Attribution:
        if not self.cells:
            return Attribution("The golden code does not run to its end with the old libraries.", ())
        return attribute(self.cells)

    @property
    def last(self) -> CheckResult:
        """The verdict of the whole: that of what is about to be merged."""
        return last_cell(self.cells).result if self.cells else self.reference

    def with_last(self, result: CheckResult) -> UpgradeResult:
        """The same with another result of what is about to be merged."""
        last = last_cell(self.cells)
        return replace(self, cells=tuple(replace(cell, result=result) if cell is last else cell for cell in self.cells))

    @property
    def incidents(self) -> tuple[tuple[Incident, Cause, LibraryCall | None], ...]:
        """The incidents of the last cell with their causes; with library calls where a library had a part in them."""
        if not self.cells:
            return ()
        found = zip(self.last.incidents, self.attribution.causes, self.calls, strict=True)
        return tuple((incident, cause, None if cause is Cause.CODE else call) for incident, cause, call in found)

    @property
    def library_share(self) -> Share | None:
        """Of the golden code with the new libraries; None when that did not run."""
        for cell in self.cells:
            if cell.code.value == "golden" and cell.libraries.value == "new" and cell.result.verdicts:
                return share_of(cell.result)
        return None


def share_of(result: CheckResult) -> Share:
    """Counts of a check; accepted rules are broken ones."""
    held = result.count(Verdict.HELD)
    violated = result.count(Verdict.VIOLATED) + result.count(Verdict.ACCEPTED)
    return Share(len(result.verdicts), held, violated, len(result.verdicts) - held - violated)
