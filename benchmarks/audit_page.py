"""The tables of `audit_peers.py`: tools side by side, alarms on right programs by kind, every bug."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audit_tools import TOOLS, Remark, Said
from measure import markdown_table
from planted import Bug, Pipeline

OURS = "traincheck-audit"
SPEED = frozenset({"TA200", "TA201", "TA203"})
"""Kinds that are advice on how to be faster, and say of nothing that it is wrong."""


@dataclass(frozen=True)
class Case:
    """A program, right or with a bug. `group`: the folder of fixtures that it, or the bug, is from."""

    group: str
    program: Pipeline
    bug: Bug | None

    @property
    def name(self) -> str:
        return f"{self.group}/{self.program.name if self.bug is None else self.bug.name}"

    @property
    def names(self) -> str:
        """By which it is chosen: its own, and the program's."""
        return f"{self.name} {self.program.name}"

    @property
    def right(self) -> str:
        """The name of the case without the bug."""
        home = "pipelines" if self.group in ("bugs", "numbers") else self.group
        return f"{home}/{self.program.name}"


@dataclass(frozen=True)
class Verdict:
    """One tool on one bug: what it says of this alone, and whether that names the cause."""

    new: tuple[Remark, ...]
    cause: str


def verdict(bug: Bug, said: Said, clean: Said) -> Verdict:
    known = {each.key for each in clean.remarks}
    new = tuple(each for each in said.remarks if each.key not in known and each.kind not in SPEED)
    text = "\n".join(f"{each.kind} {each.where} {each.text}" for each in new).lower()
    cause = "exact" if any(word in text for word in bug.cause) else ""
    return Verdict(new, cause or ("near" if any(word in text for word in bug.near) else "missed" if new else ""))


Results = Mapping[str, Mapping[str, Said]]
"""By tool and by case: what was said. What was not run is not there."""


def verdicts(cases: Sequence[Case], said: Mapping[str, Said]) -> dict[str, Verdict]:
    """Every bug that was run, and whose right program was."""
    return {
        case.name: verdict(case.bug, said[case.name], said[case.right])
        for case in cases
        if case.bug is not None and case.name in said and case.right in said
    }


def page(cases: Sequence[Case], results: Results) -> str:
    """All tables."""
    tools = [name for name in TOOLS if results.get(name)]
    groups = list(dict.fromkeys(case.group for case in cases if case.bug is not None))
    blocks = [
        markdown_table(
            [
                "tool",
                "lines to add",
                "right programs",
                "of them: could be used on",
                "with an alarm, speed aside",
                "alarms, speed aside",
                "advice on speed",
                "bugs",
                "found",
                f"found of these by {OURS}",
                "found with a warning or error",
                "cause named",
                "close symptom",
            ],
            [_summary(name, cases, results) for name in tools],
        ),
        "## Found, by group",
        markdown_table(
            ["bugs of", *tools],
            [[group, *(_of_group(group, cases, results[name]) for name in tools)] for group in groups],
        ),
        "## Alarms on right programs, by kind",
        *(f"**{name}**\n\n{_alarms(cases, results[name])}" for name in tools),
        "## Where a tool could not be used",
        *(f"**{name}**\n\n{_unusable(cases, results[name])}" for name in tools),
        "## Bugs",
        "Found by none are left out.\n\n" + _bugs(cases, results, tools),
    ]
    return "\n\n".join(blocks) + "\n"


def _summary(name: str, cases: Sequence[Case], results: Results) -> list[object]:
    said = results[name]
    right = [said[case.name] for case in cases if case.bug is None and case.name in said]
    alarms = [[each for each in one.remarks if each.alarming and each.kind not in SPEED] for one in right]
    advice = sum(each.alarming and each.kind in SPEED for one in right for each in one.remarks)
    tried = verdicts(cases, said)
    ours = verdicts(cases, results.get(OURS, {}))
    found = tried.values()
    return [
        name,
        TOOLS[name].lines,
        len(right),
        sum(one.used > 0 for one in right),
        sum(map(bool, alarms)),
        sum(map(len, alarms)),
        advice,
        len(found),
        sum(bool(each.new) for each in found),
        sum(bool(ours[case].new) for case in tried if case in ours),
        sum(any(one.alarming for one in each.new) for each in found),
        sum(each.cause == "exact" for each in found),
        sum(each.cause == "near" for each in found),
    ]


def _of_group(group: str, cases: Sequence[Case], said: Mapping[str, Said]) -> str:
    mine = verdicts([case for case in cases if case.group == group], said).values()
    return f"{sum(bool(each.new) for each in mine)} of {len(mine)}" if mine else ""


def _alarms(cases: Sequence[Case], said: Mapping[str, Said]) -> str:
    """Kinds with how many programs and remarks, and one example."""
    kinds: dict[tuple[str, str], list[tuple[str, Remark]]] = {}
    for case in cases:
        if case.bug is None and case.name in said:
            for each in said[case.name].remarks:
                if each.alarming:
                    kinds.setdefault((each.kind, each.level), []).append((case.name, each))
    ordered = sorted(kinds.items(), key=lambda item: -len({name for name, _ in item[1]}))
    rows = [
        [kind, level, len({name for name, _ in held}), len(held), f"`{held[0][0]}`: {_short(held[0][1])}"]
        for (kind, level), held in ordered
    ]
    return markdown_table(["kind", "level", "programs", "alarms", "for example"], rows) if rows else "None."


def _unusable(cases: Sequence[Case], said: Mapping[str, Said]) -> str:
    """Reasons on right programs, and which."""
    reasons: dict[str, list[str]] = {}
    for case in cases:
        if case.bug is None and case.name in said:
            one = said[case.name]
            for reason in [*one.notes, *filter(None, [one.problem])] or (
                [] if one.used else ["nothing to be called on"]
            ):
                reasons.setdefault(reason, []).append(f"`{case.name}`")
    rows = [[reason[:160], ", ".join(names)] for reason, names in reasons.items()]
    return markdown_table(["what happened", "programs"], rows) if rows else "Nowhere."


def _short(remark: Remark) -> str:
    text = " ".join(remark.text.split())
    return f"{remark.where}: {text[:160]}" if remark.where else text[:160]


def _bugs(cases: Sequence[Case], results: Results, tools: Sequence[str]) -> str:
    by_tool = {name: verdicts(cases, results[name]) for name in tools}
    rows = []
    for case in cases:
        said = {name: by_tool[name][case.name] for name in tools if by_tool[name].get(case.name, Verdict((), "")).new}
        if case.bug is not None and said:
            words = [
                f"{name} ({each.cause}): {'; '.join(f'{one.kind} {_short(one)}' for one in each.new[:3])}"
                for name, each in said.items()
            ]
            rows.append([f"`{case.name}`", case.bug.title, "<br>".join(words)])
    return markdown_table(["bug", "what was planted", "said of it alone"], rows)
