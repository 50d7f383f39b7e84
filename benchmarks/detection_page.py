"""The tables of `docs/detection.md`, from what was judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judged import Judged, Variation
from measure import markdown_table
from transfer import Transferred

PARTS = {
    "development": "Two thirds that the relations were built with",
    "hold-out": "Hold-out, once it had been looked at",
}


def page(
    judged: Sequence[Judged], facts: Mapping[str, str], infer_seconds: float, transferred: Transferred | None
) -> str:
    """The whole text: bugs by part, clean variations, features, transferable rules, the machine."""
    blocks: list[str] = []
    for part, title in PARTS.items():
        mine = [each for each in judged if each.case.bug is not None and each.case.bug.part == part]
        if mine:
            blocks += [f"## Planted bugs: {title.lower()}", _bug_summary(mine), _bug_table(mine)]
    for part, title in PARTS.items():
        mine = [each for each in judged if each.case.bug is None and each.case.pipeline.part == part]
        if mine:
            blocks += [f"## Clean pipelines: {title.lower()}", _clean_summary(mine), _clean_table(mine)]
    features = [each for each in judged if each.case.variation is Variation.FEATURE]
    if features:
        blocks += ["## Legitimate features", _feature_table(features)]
    if transferred is not None:
        blocks += ["## Transferable rules on other pipelines", transferred.summary(), transferred.table()]
    checks = sum(each.check_seconds for each in judged)
    blocks.append(
        f"Inference took {infer_seconds:.1f} s for all goldens together, checking {checks:.1f} s for "
        f"{len(judged)} candidates."
    )
    blocks.append("Measured on: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + ".")
    return "\n\n".join(blocks) + "\n"


def _bug_summary(judged: Sequence[Judged]) -> str:
    causes = [each.cause for each in judged if each.found]
    return (
        f"{len(causes)} of {len(judged)} found; the first incident names the exact cause for {causes.count('exact')}, "
        f"a close symptom for {causes.count('near')}, something else for {causes.count('missed')}. "
        f"{sum(each.in_time for each in judged)} show in the first two steps or where the bug first acts; "
        f"{sum(len(each.incidents) == 1 for each in judged)} give a single incident."
    )


def _bug_table(judged: Sequence[Judged]) -> str:
    header = ["bug", "pipeline", "found", "first step", "cause", "incidents", "s", "top incident"]
    rows = []
    for each in judged:
        top = each.incidents[0].cause if each.incidents else None
        found = "**error**" if each.problem else "yes" if each.found else "**no**"
        rows.append(
            [
                each.case.name,
                each.case.pipeline.name,
                found,
                "" if top is None else str(top.step),
                each.cause if each.found else "",
                len(each.incidents),
                f"{each.seconds:.0f}",
                (each.problem.splitlines()[-1] if each.problem else "") if top is None else top.title,
            ]
        )
    return markdown_table(header, rows)


def _clean(judged: Sequence[Judged]) -> list[Judged]:
    return [each for each in judged if each.case.variation in (Variation.SEED, Variation.REFACTOR)]


def _clean_summary(judged: Sequence[Judged]) -> str:
    clean = _clean(judged)
    silent = sum(each.as_expected for each in clean)
    errors = sum(bool(each.problem) for each in clean)
    pipelines = len({each.case.pipeline.name for each in judged})
    return f"{silent} of {len(clean)} runs of {pipelines} pipelines without an incident; {errors} errors."


def _clean_table(judged: Sequence[Judged]) -> str:
    names = ["seed 3", "seed 4", "seed 5", "refactor"]
    rows = []
    for name in dict.fromkeys(each.case.pipeline.name for each in judged):
        mine = {each.case.name: each for each in _clean(judged) if each.case.pipeline.name == name}
        first = next(iter(mine.values()))
        rules = max(each.rules for each in mine.values())
        rows.append([name, first.case.pipeline.covers, rules, *(_incidents(mine.get(case)) for case in names)])
    return markdown_table(["pipeline", "covers", "rules", *names], rows)


def _incidents(judged: Judged | None) -> str:
    if judged is None:
        return ""
    if judged.problem:
        return "**error**"
    return str(len(judged.incidents)) if judged.as_expected else f"**{len(judged.incidents)}**"


def _feature_table(judged: Sequence[Judged]) -> str:
    rows = [
        [
            each.case.pipeline.name,
            _title(each),
            _incidents(each),
            "<br>".join(incident.cause.title for incident in each.incidents) or each.problem[-200:],
        ]
        for each in judged
    ]
    return markdown_table(["pipeline", "pull request", "incidents", "what they say"], rows)


def _title(judged: Judged) -> str:
    assert judged.case.patch is not None
    return judged.case.patch.read_text(encoding="utf-8").splitlines()[0]
