"""The parts of a result in words, shared by every reporter."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence

from rich.cells import cell_len

from pytest_traincheck.check.result import (
    CONFIGURATION,
    ChangedLines,
    CheckResult,
    Incident,
    LaterSteps,
    Outcome,
    RunError,
    Verdict,
    Violation,
    Warned,
)
from pytest_traincheck.printable import UNPRINTABLE
from pytest_traincheck.text import ESCAPE_SEQUENCE, one_line, plural

VARIABLES_SHOWN = 3
CONSEQUENCES_SHOWN = 3
OUTPUT_LINES_SHOWN = 15
DIFF_LINES_SHOWN = 11
RENAMED_SHOWN = 4

_KEPT_CONTROLS = {"\n", "\t"}


def clean(text: str) -> str:
    """`text` without what could steer a terminal, break XML or reverse the reading direction; line ends stay."""
    text = ESCAPE_SEQUENCE.sub("", text).replace("\r\n", "\n")
    # A progress bar rewrites its line: what a person saw is what follows the last carriage return.
    text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return "".join(
        character
        for character in text
        if character in _KEPT_CONTROLS or unicodedata.category(character) not in UNPRINTABLE
    )


def verdict_word(result: CheckResult) -> str:
    """ "passed", "FAILED" or "ERROR"."""
    return {Outcome.PASS: "passed", Outcome.FAIL: "FAILED", Outcome.ERROR: "ERROR"}[result.outcome]


def verdict_summary(result: CheckResult) -> str:
    """What the verdict rests on, in a few words."""
    before, total = len(result.told_before), len(result.verdicts)
    violated = result.count(Verdict.VIOLATED) - before
    broken = f"{violated} of {plural(total, 'rule')} broken" if violated else ""
    parts = [plural(len(result.errors), "error") if result.errors else ""]
    parts.append(plural(len(result.incidents), "incident") if result.incidents else "")
    parts.append(broken)
    if result.outcome is Outcome.PASS:
        held = result.count(Verdict.HELD)
        parts.append(f"all {plural(held, 'rule')} held" if held == total else f"{held} of {plural(total, 'rule')} held")
    parts.append(f"{plural(before, 'rule')} still broken, as reported before" if before else "")
    parts.append(plural(len(result.warnings), "warning") if result.warnings else "")
    return ", ".join(part for part in parts if part)


def counts(result: CheckResult) -> str:
    """How many rules the golden has, and what became of them; verdicts that nobody got are left out."""
    parts = [f"{result.count(verdict)} {verdict.value}" for verdict in Verdict if result.count(verdict)]
    return f"{len(result.verdicts)} in the golden" + (f": {', '.join(parts)}" if parts else "")


def next_steps(result: CheckResult) -> list[tuple[str, tuple[str, ...]]]:
    """The commands that reproduce a failed check and accept it, as label and words; none after a check that passed."""
    if result.commands is None:
        return []
    steps = [("reproduce", result.commands.reproduce), ("if intended", result.commands.accept)]
    return [(label, words) for label, words in steps if words]


def next_lines(result: CheckResult, width: int | None = None) -> list[str]:
    """The commands as lines that can be pasted into a shell, continued with a backslash where `width` asks for it."""
    lines = []
    for label, words in next_steps(result):
        line = f"{label}:"
        for number, part in enumerate(_options(words)):
            if number and width is not None and cell_len(f"{line} {part}") > width - len(" \\"):
                lines.append(f"{line} \\")
                line = "   "
            line += f" {part}"
        lines.append(line)
    return lines


def _options(words: Sequence[str]) -> list[str]:
    """The words of a command, an option together with its value."""
    parts: list[str] = []
    for word in words:
        if parts and parts[-1].startswith("--") and " " not in parts[-1] and not word.startswith("-"):
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    return parts


def reasons(result: CheckResult) -> list[tuple[str, int]]:
    """Why rules were not evaluated, with how many share the reason, the most frequent first."""
    tally: dict[str, int] = {}
    for item in result.verdicts:
        if item.verdict in (Verdict.NOT_TRIGGERED, Verdict.NOT_OBSERVABLE) and item.reason:
            reason = one_line(f"{item.verdict.value}: {item.reason}")
            tally[reason] = tally.get(reason, 0) + 1
    return sorted(tally.items(), key=lambda entry: (-entry[1], entry[0]))


def excused(result: CheckResult) -> list[str]:
    """Rules that were broken without any effect, by what shows that: how many, and which."""
    by_evidence: dict[str, list[str]] = {}
    for item in result.excused:
        by_evidence.setdefault(one_line(item.reason), []).append(one_line(item.invariant.sentence))
    return [
        f"{plural(len(sentences), 'rule')} broken without effect, since {evidence}: {' '.join(sentences)}"
        for evidence, sentences in by_evidence.items()
    ]


def where(violation: Violation) -> str:
    """Step, stage, ranks, module and source line; what is not known is left out."""
    parts = []
    if violation.stage == CONFIGURATION:
        return one_line(f"in {violation.source}")
    if violation.stage == "init" and not violation.step:
        parts.append("before the first step")
    else:
        parts.append(f"step {violation.step}" + (f" ({violation.stage})" if violation.stage else ""))
    if violation.ranks:
        parts.append(("rank " if len(violation.ranks) == 1 else "ranks ") + number_ranges(violation.ranks))
    if violation.module:
        parts.append(f"module {violation.module}")
    if violation.source:
        parts.append(f"at {violation.source}")
    return one_line(", ".join(parts))


def number_ranges(numbers: Iterable[int]) -> str:
    """0, 1, 2, 5 as "0-2, 5"."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}-{b}" for a, b in spans)


def shortened(names: Sequence[str], shown: int = VARIABLES_SHOWN) -> str:
    """The first names and how many more there are."""
    more = len(names) - shown
    text = ", ".join(names[:shown])
    return one_line(f"{text} +{more} more" if more > 0 else text)


def details(violation: Violation, *, whole: bool = False) -> list[tuple[str, str]]:
    """What a person needs to know about a broken rule, as label and text; the `whole` list of variables where asked."""
    shown = len(violation.variables) if whole else VARIABLES_SHOWN
    facts = [
        ("golden", one_line(violation.golden)),
        ("candidate", one_line(violation.candidate)),
        ("where", where(violation)),
        ("variables", shortened(violation.variables, shown)),
        ("places", f"{violation.count} in all, this is the first" if violation.count > 1 else ""),
    ]
    return [(label, text) for label, text in facts if text]


def consequences(incident: Incident, shown: int = CONSEQUENCES_SHOWN) -> tuple[list[str], int]:
    """Different titles of the first consequences, and how many violations the list leaves out."""
    titles: list[str] = []
    covered = 0
    for violation in incident.consequences:
        title = one_line(violation.title)
        if title not in titles:
            if len(titles) == shown:
                continue
            titles.append(title)
        covered += 1
    return titles, len(incident.consequences) - covered


def diff_place(diff: ChangedLines) -> str:
    """ "train.py, @@ -49,9 +60,7 @@ (same function)"."""
    return one_line(f"{diff.file}, {diff.hunk.partition(chr(10))[0]} ({diff.how})")


def diff_lines(diff: ChangedLines, shown: int = DIFF_LINES_SHOWN) -> tuple[list[str], int]:
    """The lines of a hunk around the change that matters, and how many changed lines that leaves out."""
    lines = [clean(line).expandtabs(4) for line in diff.hunk.split("\n")[1:]]
    first = max(0, min(diff.focus - 3, len(lines) - shown))
    rest = lines[:first] + lines[first + shown :]
    return lines[first : first + shown], sum(line.startswith(("+", "-")) for line in rest)


def output_lines(error: RunError, shown: int | None = OUTPUT_LINES_SHOWN) -> list[str]:
    """The last lines that the user's own command wrote; all that was kept of them where `shown` is None."""
    lines = clean(error.output).expandtabs(4).rstrip().splitlines()
    return lines if shown is None else lines[-shown:]


def agreement(result: CheckResult) -> str:
    """How many modules computed what those of the golden run did, and how far off the rest is; empty where nothing was
    compared.
    """
    compared = [item for item in result.modules if item.status != "not comparable"]
    if not compared:
        return ""
    parts = [f"{sum(item.status == 'same' for item in compared)} of {plural(len(compared), 'module')} the same"]
    # Behind what was found, little is no rounding.
    slightly = "slightly different" if result.incidents else "up to rounding"
    for status, words in (("drifted", slightly), ("deviates", "different")):
        found = [item for item in compared if item.status == status]
        if found:
            worst = max(found, key=lambda item: item.off)
            parts.append(f"{len(found)} {words} (at most {share(worst.off)} off: {one_line(worst.path)})")
    rest = len(result.modules) - len(compared)
    return ", ".join(parts) + (f"; {rest} not comparable" if rest else "")


def coverage(result: CheckResult) -> str:
    """How many of golden's comparisons took place, and where the runs parted; empty where there are none."""
    found = result.coverage
    if found is None or not found.comparisons:
        return ""
    text = f"{found.made} of {plural(found.comparisons, 'comparison')} with the golden run took place"
    text += f" ({_percent(found.share)})"
    if found.repeats is False:
        text += f"; two golden runs with the same seed differ, so {_percent(found.floor)} are expected"
    if found.drawn_otherwise and not found.excuse:
        text += f"; of the others {', '.join(f'{number} {why}' for why, number in found.reasons)}"
    if not found.excuse and (found.parted is None or found.later.compared):
        text += _later_steps(found.later)
    # A warning says it all.
    warned = any(item.kind == "coverage" for item in result.warnings)
    return f"{text}; {parted(result)}" if found.parted is not None and not warned else text


def _later_steps(found: LaterSteps) -> str:
    """How many of the steps behind the first ones were golden's up to the last bit; empty where there are none."""
    if not found.steps:
        return ""
    text = f"; {found.compared} of {plural(found.steps, 'later step')} began as in the golden run, to the last bit"
    return f"{text} (the others {found.lost})" if found.compared < found.steps and found.lost else text


def not_covered(result: CheckResult) -> str:
    """Why no comparison with golden was due; empty where some were."""
    found = result.coverage
    if found is None or result.errors:
        return "no run was checked"
    if not found.comparisons:
        return "the golden has no numbers to compare with on this platform"
    return one_line(f"not compared: {found.excuse}") if found.excuse and found.share < found.floor else ""


def parted(result: CheckResult) -> str:
    """Where the runs went apart, in words; empty where they did not."""
    place = result.coverage.parted if result.coverage is not None else None
    if place is None:
        return ""
    if result.coverage is not None and result.coverage.excuse == place.what:
        return one_line(place.what)
    at = f", at {place.source}" if place.source else ""
    return one_line(f"the runs first differ in step {place.step}{at}: {place.what}")


def _percent(share: float) -> str:
    """0.925 as "92.5 %"; never "100 %" for less, nor "0 %" for more than nothing."""
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    return f"{min(max(100 * share, 0.1), 99.9):.1f} %"


def warning(item: Warned) -> str:
    """A warning with its place."""
    at = f" At {item.source}." if item.source else ""
    return one_line(f"{item.title}{at}")


def share(value: float) -> str:
    """A relative distance: 0.0012 as "0.12 %"."""
    if not math.isfinite(value):
        return "beyond comparison"
    if value >= 0.0995:
        return f"{100 * value:.0f} %"
    return f"{100 * value:.2g} %" if value >= 1e-9 else "less than 1e-07 %"


def timing(result: CheckResult) -> list[tuple[str, float]]:
    """What took how many seconds; what did not happen is left out."""
    parts = [
        ("golden run", result.timing.golden_run_s),
        ("candidate run", result.timing.candidate_run_s),
        ("infer", result.timing.infer_s),
        ("check", result.timing.check_s),
    ]
    return [(label, seconds) for label, seconds in parts if seconds > 0]


def seconds(value: float) -> str:
    """ "0.04 s", "4.2 s", "312 s"."""
    return f"{value:.2f} s" if value < 1 else f"{value:.1f} s" if value < 100 else f"{value:.0f} s"


def renamed(result: CheckResult, most: int = RENAMED_SHOWN) -> str:
    """What the candidate calls by other names, the first few; empty where names are the same."""
    pairs = [f"`{candidate}` is `{golden}` in the golden run" for candidate, golden in result.renamed[:most]]
    more = len(result.renamed) - len(pairs)
    return ", ".join([*pairs, *([f"and {more} more"] if more else [])])
