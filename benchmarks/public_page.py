"""Writes `docs/public.md`: what an audit says about each public script, and what somebody who looked found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from measure import markdown_table
from public_programs import Finding, Program


@dataclass(frozen=True)
class Told:
    """One finding of an audit: `level` is `error` or `warning`, `rules` are the names of the rules in it."""

    level: str
    rules: tuple[str, ...]
    sentence: str
    where: str


@dataclass(frozen=True)
class Judged:
    """What an audit says about one program, or what went wrong; `seconds` are those of the recorded run."""

    program: Program
    found: tuple[Told, ...] = ()
    held: tuple[str, ...] = ()
    """Names of the rules that came up and held."""
    known: int = 0
    steps: int = 0
    seconds: float = 0.0
    problem: str = ""

    def level(self, level: str) -> int:
        """How many findings are of a level."""
        return sum(told.level == level for told in self.found)


def page(outcomes: Sequence[Judged], facts: Mapping[str, str], packs: Sequence[str]) -> str:
    """The whole page but its beginning, which is written by hand."""
    return "\n\n".join(
        [
            "## In all",
            summary(outcomes),
            "## Each program",
            "Laws: how many came up and held, of those that the packs know. Seconds are those of the recorded run.",
            table(outcomes),
            "## Findings, each looked at",
            findings(outcomes),
            "## What came up where",
            laws(outcomes),
            f"Packs: {', '.join(packs) or 'none'}. {', '.join(f'{name} {value}' for name, value in facts.items())}.",
        ]
    )


def summary(outcomes: Sequence[Judged]) -> str:
    """Programs, errors and warnings, by part."""
    rows = []
    for name, part in (
        ("development", [each for each in outcomes if not each.program.held_out]),
        ("hold-out", [each for each in outcomes if each.program.held_out]),
        ("all", list(outcomes)),
    ):
        ran = [each for each in part if not each.problem]
        errors, warnings = (sum(each.level(level) for each in ran) for level in ("error", "warning"))
        wrong = sum(verdict(each.program, told) == "wrong" for each in ran for told in each.found)
        rate = f"{warnings / len(ran):.2f}" if ran else "-"
        rows.append((name, len(part), len(ran), errors, warnings, rate, wrong))
    header = ("part", "programs", "audited", "errors", "warnings", "warnings a program", "findings that are wrong")
    return markdown_table(header, rows)


def table(outcomes: Sequence[Judged]) -> str:
    """A row a program."""
    rows = []
    for each in outcomes:
        program = each.program
        said = [f"{verdict(program, told)}: {', '.join(told.rules)}" for told in each.found]
        rows.append(
            (
                f"[{program.name}]({program.address})",
                program.repository,
                program.library,
                "hold-out" if program.held_out else "",
                program.shows,
                each.steps,
                f"{each.seconds:.0f}",
                each.level("error"),
                each.level("warning"),
                f"{len(each.held)} of {each.known}",
                each.problem.splitlines()[-1] if each.problem else "; ".join(said),
            )
        )
    header = ("program", "repository", "library", "part", "shows", "steps", "seconds", "errors", "warnings", "laws")
    return markdown_table((*header, "looked at"), rows)


def findings(outcomes: Sequence[Judged]) -> str:
    """What was said, where, and why it is right or not."""
    lines = []
    for each in outcomes:
        for told in each.found:
            looked = explained(each.program, told)
            why = f"**{looked.verdict}**: {looked.because}" if looked else "**not looked at yet**"
            place = f" ({told.where})" if told.where else ""
            rules = ", ".join(told.rules)
            lines.append(
                f"- [{each.program.name}]({each.program.address}), {told.level}, {rules}: {told.sentence}{place}"
            )
            lines.append(f"  {why}")
    return "\n".join(lines) or "None."


def laws(outcomes: Sequence[Judged]) -> str:
    """For each rule that came up anywhere, in how many programs it held and was broken."""
    held: dict[str, list[str]] = {}
    broken: dict[str, list[str]] = {}
    for each in outcomes:
        for name in each.held:
            held.setdefault(name, []).append(each.program.name)
        for name in dict.fromkeys(name for told in each.found for name in told.rules):
            broken.setdefault(name, []).append(each.program.name)
    rows = [
        (name, len(held.get(name, ())), len(broken.get(name, ())), ", ".join(broken.get(name, ())))
        for name in sorted({*held, *broken})
    ]
    return markdown_table(("law", "held in", "broken in", "where broken"), rows)


def explained(program: Program, told: Told) -> Finding | None:
    """What somebody wrote who looked at a finding, if somebody did."""
    return next((finding for finding in program.findings if finding.rule in told.rules), None)


def verdict(program: Program, told: Told) -> str:
    """Whether a finding is right, wrong or debatable, for whoever looked."""
    looked = explained(program, told)
    return looked.verdict if looked else "not looked at yet"
