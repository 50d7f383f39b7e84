"""The programs of `fixtures/second`, learned and checked as `detection.py` does it: makes `docs/second.md`.

    python benchmarks/second.py --write docs/second.md

The golden of each program is learned from three seeds; every bug, two other seeds and the refactoring are checked
against it. The exit status is 0 whatever is found: the page is what comes out.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from detection import SEEDS, Recorder, judge, learned
from judged import Case, Judged, Variation
from measure import FIXTURES, machine, markdown_table
from planted import Bug, Pipeline

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SECOND = FIXTURES / "second"
OTHER_SEEDS = (3, 4)


def load_programs() -> list[Pipeline]:
    """The programs in the order of the file, those left out that need a package which is not installed."""
    return [
        Pipeline(name, SECOND / name, table["run"], "--seed {seed}", table["covers"], "second")
        for name, table in tomllib.loads((SECOND / "programs.toml").read_text(encoding="utf-8"))["programs"].items()
        if all(importlib.util.find_spec(package) for package in table.get("needs", ()))
    ]


def load_bugs() -> list[Bug]:
    """The planted bugs in the order of the file; nobody wrote down the steps at which they act."""
    return [
        Bug(
            name=table["id"],
            pipeline=table["program"],
            patch=SECOND / table["patch"],
            cause=tuple(table["cause"]),
            steps=(0,),
            near=tuple(table["near"]),
            part="second",
            title=table["title"],
            family=table["family"],
        )
        for table in tomllib.loads((SECOND / "bugs.toml").read_text(encoding="utf-8"))["bug"]
    ]


def cases(program: Pipeline, bugs: Sequence[Bug]) -> list[Case]:
    """Everything that is checked against the golden of one program."""
    mine = [bug for bug in bugs if bug.pipeline == program.name]
    refactoring = SECOND / "refactors" / f"{program.name}.patch"
    return [
        *(Case(bug.name, program, Variation.BUG, bug.patch, SEEDS[0], bug) for bug in mine),
        *(Case(f"seed {seed}", program, Variation.SEED, None, seed) for seed in OTHER_SEEDS),
        Case("refactor", program, Variation.REFACTOR, refactoring, SEEDS[0]),
    ]


def record_all(programs: Sequence[Pipeline], bugs: Sequence[Bug], recorder: Recorder, jobs: int) -> None:
    """All runs, a few at a time. What goes wrong is tried once more: two processes on gloo sometimes end badly."""
    todo: list[tuple[Pipeline, str, Path | None, int]] = []
    for program in programs:
        todo += [(program, f"golden {seed}", None, seed) for seed in SEEDS]
        todo.append((program, "golden repeated", None, SEEDS[0]))
        todo += [(program, case.name, case.patch, case.seed) for case in cases(program, bugs)]

    def record(job: tuple[Pipeline, str, Path | None, int]) -> None:
        if recorder.record(*job)[2]:
            recorder.record(*job)

    with ThreadPoolExecutor(jobs) as pool:
        for number, _ in enumerate(pool.map(record, todo), start=1):
            print(f"\r{number} of {len(todo)} runs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def judge_all(program: Pipeline, bugs: Sequence[Bug], recorder: Recorder) -> list[Judged]:
    """Every candidate of one program; where its golden cannot be learned, each is an error."""
    try:
        golden, _, _ = learned(program, recorder)
    except (SystemExit, ValueError) as error:
        return [Judged(case, problem=f"no golden: {error}") for case in cases(program, bugs)]
    return [judge(case, golden, recorder) for case in cases(program, bugs)]


def page(judged: Sequence[Judged]) -> str:
    """The tables: bugs by family, every bug, the clean runs of every program, and what was said of them."""
    planted = [each for each in judged if each.case.bug is not None]
    clean = [each for each in judged if each.case.bug is None]
    alarms = [each for each in clean if each.incidents or each.problem]
    blocks = [
        f"{sum(each.found for each in planted)} of {len(planted)} bugs are found; the first incident names the "
        f"cause for {_count(planted, 'exact')}, a close symptom for {_count(planted, 'near')}. "
        f"{_silent(clean, Variation.SEED)} runs with other seeds and {_silent(clean, Variation.REFACTOR)} "
        "refactorings pass without an incident.",
        "## By family",
        markdown_table(
            ["family", "bugs", "found", "cause named", "close symptom"],
            [
                [family, len(mine), sum(each.found for each in mine), _count(mine, "exact"), _count(mine, "near")]
                for family, mine in _by_family(planted).items()
            ],
        ),
        "## Bugs",
        markdown_table(
            ["bug", "what was planted", "found", "cause", "incidents", "first step", "top incident"],
            [_bug_row(each) for each in planted],
        ),
        "## Clean runs",
        markdown_table(
            ["program", "covers", "rules", *(f"seed {seed}" for seed in OTHER_SEEDS), "refactor"],
            [_clean_row(name, clean) for name in dict.fromkeys(each.case.pipeline.name for each in clean)],
        ),
    ]
    if alarms:
        blocks += ["False alarms and errors:", "\n".join(f"- {each.complaint()}" for each in alarms)]
    return "\n\n".join(blocks) + "\n"


def _count(judged: Sequence[Judged], cause: str) -> int:
    return sum(each.found and each.cause == cause for each in judged)


def _silent(judged: Sequence[Judged], variation: Variation) -> str:
    mine = [each for each in judged if each.case.variation is variation]
    return f"{sum(each.as_expected for each in mine)} of {len(mine)}"


def _by_family(judged: Sequence[Judged]) -> dict[str, list[Judged]]:
    found: dict[str, list[Judged]] = {}
    for each in judged:
        assert each.case.bug is not None
        found.setdefault(each.case.bug.family, []).append(each)
    return dict(sorted(found.items()))


def _bug_row(judged: Judged) -> list[object]:
    assert judged.case.bug is not None
    top = judged.incidents[0].root if judged.incidents else None
    said = judged.problem.splitlines()[-1] if judged.problem else "" if top is None else top.title
    found = "**error**" if judged.problem else "yes" if judged.found else "**no**"
    return [
        judged.case.name,
        judged.case.bug.title,
        found,
        judged.cause if judged.found else "",
        len(judged.incidents),
        "" if top is None else top.step,
        said,
    ]


def _clean_row(name: str, clean: Sequence[Judged]) -> list[object]:
    mine = [each for each in clean if each.case.pipeline.name == name]
    outcomes = [
        "**error**" if each.problem else f"**{len(each.incidents)}**" if each.incidents else "0" for each in mine
    ]
    return [name, mine[0].case.pipeline.covers, max(each.rules for each in mine), *outcomes]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", action="append", metavar="NAME", help="this program alone; repeatable")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one run")
    parser.add_argument("--scratch", type=Path, help="keep the traces here and use those that are there")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page to FILE instead of printing it")
    parser.add_argument("--before", type=Path, metavar="FILE", help="text that goes in front of the tables")
    arguments = parser.parse_args()
    programs = [each for each in load_programs() if not arguments.program or each.name in arguments.program]
    if not programs:
        raise SystemExit("no program of that name; see fixtures/second/programs.toml")
    facts = machine()
    bugs = load_bugs()
    scratch = arguments.scratch or Path(tempfile.mkdtemp(prefix="second-"))
    recorder = Recorder(scratch.resolve(), arguments.timeout)
    try:
        record_all(programs, bugs, recorder, arguments.jobs)
        judged = [each for program in programs for each in judge_all(program, bugs, recorder)]
    finally:
        if arguments.scratch is None:
            shutil.rmtree(scratch, ignore_errors=True)
    before = arguments.before.read_text(encoding="utf-8").rstrip() + "\n\n" if arguments.before else ""
    measured = "Measured on: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + ".\n"
    text = before + page(judged) + "\n" + measured
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
