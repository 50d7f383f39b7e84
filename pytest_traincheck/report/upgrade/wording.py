"""The parts of an upgrade result in words, shared by its reporters."""

from __future__ import annotations

from pytest_traincheck.check.attribution import Cause, Cell, Code, Libraries
from pytest_traincheck.check.library_call import LibraryCall
from pytest_traincheck.check.result import Outcome
from pytest_traincheck.report import wording
from pytest_traincheck.report.upgrade.result import Share, UpgradeResult, VersionRow
from pytest_traincheck.text import one_line, plural

VERSIONS_SHOWN = 8

BROKEN_BY = {
    Cause.LIBRARY: "the library",
    Cause.CODE: "the code",
    Cause.EITHER: "either alone",
    Cause.TOGETHER: "only both together",
}


def cell_name(cell: Cell) -> str:
    """ "new libraries, golden code"."""
    return f"{cell.libraries.value} libraries, {cell.code.value} code"


def cell_of(result: UpgradeResult, code: Code, libraries: Libraries) -> Cell | None:
    return next((cell for cell in result.cells if cell.code is code and cell.libraries is libraries), None)


def codes_of(result: UpgradeResult) -> tuple[Code, ...]:
    """The codes that differ: one where they are the same."""
    both = any(cell.code is Code.CANDIDATE for cell in result.cells)
    return (Code.GOLDEN, Code.CANDIDATE) if both else (Code.GOLDEN,)


def cell_text(result: UpgradeResult, code: Code, libraries: Libraries) -> tuple[str, str]:
    """Verdict of one of the four combinations, and its top incident or error."""
    if code is Code.GOLDEN and libraries is Libraries.OLD:
        if result.reference.errors:
            return "ERROR", result.reference.errors[0].message
        return f"learned, {plural(result.rules, 'rule')}", ""
    cell = cell_of(result, code, libraries)
    if cell is None:
        return "not run", ""
    found = cell.result
    if found.errors:
        return "ERROR", found.errors[0].message
    if found.outcome is Outcome.FAIL:
        return f"FAILED, {plural(len(found.incidents), 'incident')}", found.incidents[0].cause.title
    return f"passed, {wording.verdict_summary(found)}", ""


def call_text(call: LibraryCall) -> str:
    """ "`transformers.Trainer.train`, called at train.py:41"."""
    place = f" at {call.source}" if call.source else ""
    return {
        "is the subject": f"`{call.api}`" + (f", from {call.source}" if call.source else ""),
        "is around the place": f"within `{call.api}`" + (f", from {call.source}" if call.source else ""),
        "is called there": f"`{call.api}`, called{place}",
        "is the model": f"in the model `{call.api}`",
    }[call.how]


def version_text(row: VersionRow) -> tuple[str, str]:
    """Old and new version in words."""
    return one_line(row.old) or "not installed", one_line(row.new) or "not installed"


def versions_shown(result: UpgradeResult) -> tuple[tuple[VersionRow, ...], int]:
    """What was asked for and the first others, and how many that leaves out."""
    asked = sum(row.asked for row in result.versions)
    shown = result.versions[: max(asked, VERSIONS_SHOWN)]
    return shown, len(result.versions) - len(shown)


def share_text(share: Share) -> str:
    """ "96.6 % of golden's 147 rules still hold with the new libraries: 5 broken, 0 did not come up"."""
    return (
        f"{100 * share.kept:.1f} % of the golden's {share.rules} rules stay valid and applicable with the new "
        f"libraries: {share.held} held, {share.violated} broken, {share.idle} did not come up"
    )


def headline(result: UpgradeResult) -> str:
    """ "tiny: FAILED - The library alone broke it."."""
    return f"{one_line(result.pipeline)}: {wording.verdict_word(result.last)} - {result.attribution.sentence}"
