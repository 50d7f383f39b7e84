"""Every planted bug of `fixtures/bugs` and every clean variation through `traincheck compare`.

    python benchmarks/detection.py

A bug is found when the comparison fails; its cause is on top when the first incident holds one of the bug's cause
keywords. The clean variations are three other seeds of every fixture and one refactor of each: no incident is allowed.
The exit status is 1 when a bug is missed, a clean variation has an incident, a run went wrong, or the cause is on top
for fewer than three bugs in four.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure import FIXTURES, Measured, machine, markdown_table, own_package, print_facts, run, traincheck
from planted import Bug, Pipeline, apply_patch, load_bugs, load_pipelines, patched_copy, tree_of

OTHER_SEEDS = (3, 4, 5)
REFACTORS = FIXTURES / "refactors"
CAUSE_SHARE = 0.75


@dataclass(frozen=True)
class Case:
    """One comparison. `bug` is None for a clean variation."""

    name: str
    pipeline: Pipeline
    golden: Path
    candidate: Path
    seed: int | None = None
    bug: Bug | None = None


@dataclass(frozen=True)
class Judged:
    """What the comparison of one case said. `result` is empty when no JSON was written."""

    case: Case
    measured: Measured
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def incidents(self) -> list[dict[str, Any]]:
        return list(self.result.get("incidents", ()))

    @property
    def verdict(self) -> str:
        return str(self.result.get("verdict", "error"))

    @property
    def cause_on_top(self) -> bool:
        """Whether the title or the subject of the first incident holds a cause keyword of the bug."""
        if not self.incidents or self.case.bug is None:
            return False
        top = self.incidents[0]
        text = f"{top['title']}\n{top['subject']}".lower()
        return any(word in text for word in self.case.bug.cause)

    @property
    def as_expected(self) -> bool:
        return self.verdict == ("pass" if self.case.bug is None else "fail")

    def problem(self) -> str:
        """One line for a case that is not as expected."""
        errors = "; ".join(str(error["message"]) for error in self.result.get("errors", ()))
        detail = errors or "; ".join(incident["title"] for incident in self.incidents) or self.measured.output[-1500:]
        return f"{self.case.pipeline.name} {self.case.name}: verdict {self.verdict}: {detail}"


def judge(case: Case, seeds: str, timeout: float) -> Judged:
    """Runs one comparison."""
    with tempfile.TemporaryDirectory(prefix="detection-") as folder:
        report = Path(folder) / "report.json"
        words: list[str | Path] = ["compare", "--golden", case.golden, "--candidate", case.candidate]
        words += ["--run", case.pipeline.run, "--seed-arg", case.pipeline.seed_arg, "--seeds", seeds]
        words += ["--json", report]
        if case.seed is not None:
            words += ["--candidate-seed", str(case.seed)]
        measured = run(traincheck(*words), cwd=Path(folder), env=own_package(), timeout=timeout)
        result = json.loads(report.read_text()) if report.exists() else {}
    print(f"{case.pipeline.name} {case.name}: {result.get('verdict', 'no result')}", file=sys.stderr, flush=True)
    return Judged(case, measured, result)


def cases(scratch: Path, pipelines: Sequence[Pipeline], bugs: Sequence[Bug]) -> list[Case]:
    """All comparisons, with their trees laid out below `scratch`."""
    golden = {pipeline.name: tree_of(pipeline, scratch / "golden" / pipeline.name) for pipeline in pipelines}
    by_name = {pipeline.name: pipeline for pipeline in pipelines}
    found = [
        Case(
            bug.name,
            by_name[bug.pipeline],
            golden[bug.pipeline],
            patched_copy(bug, scratch / "bugs" / bug.name),
            bug=bug,
        )
        for bug in bugs
    ]
    for pipeline in pipelines:
        clean = golden[pipeline.name]
        found += [Case(f"seed {seed}", pipeline, clean, clean, seed) for seed in OTHER_SEEDS]
        patch = REFACTORS / f"{pipeline.name}.patch"
        if patch.exists():
            candidate = tree_of(pipeline, scratch / "refactors" / pipeline.name)
            apply_patch(patch, candidate)
            found.append(Case("refactor", pipeline, clean, candidate))
    return found


def bug_table(judged: Sequence[Judged]) -> str:
    """A row for each bug."""
    header = ["bug", "pipeline", "found", "first step", "cause on top", "top incident", "incidents", "s"]
    rows = []
    for each in judged:
        top: Mapping[str, Any] = each.incidents[0] if each.incidents else {"step": "", "title": ""}
        rows.append(
            [
                each.case.name,
                each.case.pipeline.name,
                {"fail": "yes", "pass": "**no**"}.get(each.verdict, f"**{each.verdict}**"),
                _step(each, top),
                "yes" if each.cause_on_top else "**no**",
                top["title"],
                len(each.incidents),
                f"{each.measured.wall:.0f}",
            ]
        )
    return markdown_table(header, rows)


def _step(judged: Judged, top: Mapping[str, Any]) -> str:
    """The first incident's step; in bold where the bug cannot have begun there."""
    assert judged.case.bug is not None
    return str(top["step"]) if top["step"] in ("", *judged.case.bug.steps) else f"**{top['step']}**"


def clean_table(judged: Sequence[Judged]) -> str:
    """A row for each pipeline, with the number of incidents of each clean variation."""
    names = list(dict.fromkeys(each.case.name for each in judged))
    rows = []
    for pipeline in dict.fromkeys(each.case.pipeline.name for each in judged):
        of_pipeline = {each.case.name: each for each in judged if each.case.pipeline.name == pipeline}
        shown = [_incidents(of_pipeline.get(name)) for name in names]
        rules = max(each.result.get("invariants", {}).get("golden", 0) for each in of_pipeline.values())
        rows.append([pipeline, rules, *shown])
    return markdown_table(["pipeline", "rules", *(f"incidents, {name}" for name in names)], rows)


def _incidents(judged: Judged | None) -> str:
    if judged is None:
        return ""
    if judged.verdict == "error":
        return "**error**"
    return str(len(judged.incidents)) if judged.as_expected else f"**{len(judged.incidents)}**"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2", help="seeds of the golden runs (default: %(default)s)")
    parser.add_argument("--only", choices=("bugs", "clean"), help="leave the other half out")
    parser.add_argument("--pipeline", action="append", metavar="NAME", help="this pipeline alone; repeatable")
    parser.add_argument("--bug", action="append", metavar="ID", help="bugs that begin so alone, like 04; repeatable")
    parser.add_argument("--jobs", type=int, default=2, choices=(1, 2), help="comparisons at a time")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for one comparison")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every comparison's result to FILE")
    arguments = parser.parse_args()
    facts = machine()
    pipelines = [each for each in load_pipelines() if not arguments.pipeline or each.name in arguments.pipeline]
    known = {pipeline.name for pipeline in pipelines}
    bugs = [
        bug
        for bug in load_bugs()
        if bug.pipeline in known and (not arguments.bug or any(bug.name.startswith(name) for name in arguments.bug))
    ]
    if not pipelines:
        parser.error(f"no pipeline {', '.join(arguments.pipeline)}; see traincheck.toml")
    scratch = Path(tempfile.mkdtemp(prefix="detection-")).resolve()
    try:
        todo = [
            case
            for case in cases(scratch, pipelines, bugs)
            if arguments.only is None or (arguments.only == "bugs") == (case.bug is not None)
        ]
        with ThreadPoolExecutor(arguments.jobs) as pool:
            judged = list(pool.map(lambda case: judge(case, arguments.seeds, arguments.timeout), todo))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    with_bug = [each for each in judged if each.case.bug is not None]
    clean = [each for each in judged if each.case.bug is None]
    if with_bug:
        print(f"### Planted bugs\n\n{bug_table(with_bug)}\n")
    if clean:
        print(f"### Clean variations\n\n{clean_table(clean)}\n")
    on_top = sum(each.cause_on_top for each in with_bug)
    needed = math.ceil(CAUSE_SHARE * len(with_bug))
    found = sum(each.verdict == "fail" for each in with_bug)
    quiet = sum(each.as_expected for each in clean)
    print(
        f"Found {found} of {len(with_bug)} bugs, the cause on top in {on_top} (at least {needed} wanted); "
        f"{quiet} of {len(clean)} clean variations without an incident."
    )
    print_facts(facts)
    if arguments.json:
        rows = [{"case": each.case.name, "pipeline": each.case.pipeline.name, **each.result} for each in judged]
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    wrong = [each for each in judged if not each.as_expected]
    for each in wrong:
        print(each.problem(), file=sys.stderr)
    return int(bool(wrong) or on_top < needed)


if __name__ == "__main__":
    sys.exit(main())
