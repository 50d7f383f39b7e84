"""What a person sees after a selftest: the kill rate, survivors first, then what was killed and by what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from pytest_traincheck.check.result import Outcome
from pytest_traincheck.detail import Detail
from pytest_traincheck.mutants.kind import Kind
from pytest_traincheck.report import wording as results
from pytest_traincheck.report.layout import wrap
from pytest_traincheck.report.selftest import wording
from pytest_traincheck.report.terminal import render_result
from pytest_traincheck.selftest.result import Fate, Mutant, SelftestResult
from pytest_traincheck.text import one_line, plural

_Line = tuple[str, str]
_STYLES = {Outcome.PASS: "bold green", Outcome.FAIL: "bold red", Outcome.ERROR: "bold magenta"}
_HEADING_STYLES = {Fate.SURVIVED: "bold red", Fate.KILLED: "bold green", Fate.CRASHED: "bold green"}
_LABEL_WIDTH = 11


def render_selftest(result: SelftestResult, width: int = 80, detail: Detail = Detail.USUAL) -> Text:
    """The result as styled text with no line wider than `width` cells."""
    text = Text(no_wrap=True, overflow="ignore")
    for number, (line, style) in enumerate(_lines(result, width, detail)):
        text.append(("\n" if number else "") + line, style or None)
    if result.unchanged.incidents or result.unchanged.errors:
        text.append("\n\n")
        text.append_text(render_result(result.unchanged, width, detail=detail))
    return text


def render_kinds(kinds: Sequence[Kind], width: int = 80) -> str:
    """All kinds with what each does."""
    lines: list[str] = []
    for group, members in wording.by_group(kinds):
        lines += ["", group] if lines else [group]
        for kind in members:
            lines.append(f"  {kind.name}")
            lines += wrap(kind.mistake, width, indent="      ")
    return "\n".join(lines)


def _lines(result: SelftestResult, width: int, detail: Detail) -> Iterator[_Line]:
    parts = [wording.summary(result), wording.floor(result)]
    head = f"{one_line(result.pipeline)}: {wording.verdict_word(result)} - {', '.join(part for part in parts if part)}"
    for line in wrap(head, width, indent="  ", first=""):
        yield line, _STYLES[result.outcome]
    if detail is Detail.BRIEF:
        for mutant in result.of(Fate.SURVIVED):
            yield f"survived: {mutant.kind.name}", ""
        return
    for fate, heading in wording.HEADINGS.items():
        mutants = result.of(fate)
        if mutants:
            yield "", ""
            for line in wrap(f"{len(mutants)} {heading}", width, indent="  ", first=""):
                yield line, _HEADING_STYLES.get(fate, "bold")
            yield from _SECTIONS[fate](mutants, width)
    yield "", ""
    if wording.remedy(result):
        yield from _labelled("do", wording.remedy(result), width)
    for note in (*result.notes, *result.unchanged.notes):
        yield from _labelled("note", one_line(note), width)
    ran = sum(mutant.seconds > 0 for mutant in result.mutants)
    if ran:
        yield from _labelled("timing", f"{plural(ran, 'run')} in {results.seconds(result.seconds)}", width, "dim")


def _survivors(mutants: Sequence[Mutant], width: int) -> Iterator[_Line]:
    for number, mutant in enumerate(mutants, start=1):
        mark = f"{number}. "
        yield from ((line, "bold") for line in wrap(mutant.kind.name, width, indent=" " * len(mark), first=mark))
        text = f"{mutant.kind.mistake} {mutant.kind.meaning} Made in {wording.where(mutant)}."
        yield from ((line, "") for line in wrap(text, width, indent=" " * len(mark)))


def _found(mutants: Sequence[Mutant], width: int) -> Iterator[_Line]:
    for mutant in mutants:
        yield from ((line, "") for line in wrap(f"{mutant.kind.name}", width, indent="    ", first="  "))
        yield from ((line, "dim") for line in wrap(wording.found(mutant), width, indent="      "))


def _absent(mutants: Sequence[Mutant], width: int) -> Iterator[_Line]:
    for reason, members in wording.absences(mutants):
        names = ", ".join(member.kind.name for member in members)
        yield from ((line, "dim") for line in wrap(f"{names}: {reason}", width, indent="    ", first="  "))


def _equivalent(mutants: Sequence[Mutant], width: int) -> Iterator[_Line]:
    for mutant in mutants:
        text = f"{mutant.kind.name}: {mutant.kind.mistake} Made in {wording.where(mutant)}."
        yield from ((line, "dim") for line in wrap(text, width, indent="    ", first="  "))


_SECTIONS = {
    Fate.SURVIVED: _survivors,
    Fate.KILLED: _found,
    Fate.CRASHED: _found,
    Fate.NOT_APPLICABLE: _absent,
    Fate.EQUIVALENT: _equivalent,
}


def _labelled(label: str, text: str, width: int, style: str = "") -> Iterator[_Line]:
    for line in wrap(text, width, indent=" " * _LABEL_WIDTH, first=f"{label}:".ljust(_LABEL_WIDTH)):
        yield line, style
