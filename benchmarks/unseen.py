"""A corpus that somebody wrote who had not read the checker, learned and checked as `detection.py` does it.

    python benchmarks/unseen.py --corpus fixtures/second --write FILE

The golden of each program is learned from three seeds; every bug, two other seeds, the refactorings and features
are checked against it. The exit status is 0 whatever is found: the page is what comes out.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
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

CORPUS = FIXTURES / "second"
OTHER_SEEDS = (3, 4)
_FOUND = 2
"""The column of the table of bugs that says whether one was found."""


def load_programs(corpus: Path) -> list[Pipeline]:
    """The programs in the order of `programs.toml`, those left out that need a package which is not installed."""
    return [
        Pipeline(name, corpus / name, table["run"], "--seed {seed}", table["covers"], corpus.name)
        for name, table in tomllib.loads((corpus / "programs.toml").read_text(encoding="utf-8"))["programs"].items()
        if all(importlib.util.find_spec(package) for package in table.get("needs", ()))
    ]


def load_bugs(corpus: Path) -> list[Bug]:
    """The planted bugs in the order of `bugs.toml`; nobody wrote down the steps at which they act."""
    return [
        Bug(
            name=table["id"],
            pipeline=table["program"],
            patch=corpus / table["patch"],
            cause=tuple(table["cause"]),
            steps=(0,),
            near=tuple(table["near"]),
            part=corpus.name,
            title=table["title"],
            family=table["family"],
        )
        for table in tomllib.loads((corpus / "bugs.toml").read_text(encoding="utf-8"))["bug"]
    ]


def load_features(corpus: Path) -> list[Bug]:
    """What is meant to change, one for a program, in the order of `features.toml`, where the corpus has that file."""
    path = corpus / "features.toml"
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["feature"] if path.is_file() else []
    return [
        Bug(
            name="feature",
            pipeline=table["program"],
            patch=corpus / table["patch"],
            cause=tuple(table["cause"]),
            steps=(0,),
            part=corpus.name,
            title=table["title"],
        )
        for table in tables
    ]


def cases(program: Pipeline, bugs: Sequence[Bug]) -> list[Case]:
    """Everything that is checked against the golden of one program."""
    mine = [bug for bug in bugs if bug.pipeline == program.name]
    folders = sorted(program.folder.parent.glob("refactors*"))
    names = ["refactor", *(f"refactor {number}" for number in range(2, len(folders) + 1))]
    return [
        *(Case(bug.name, program, Variation.BUG, bug.patch, SEEDS[0], bug) for bug in mine),
        *(Case(f"seed {seed}", program, Variation.SEED, None, seed) for seed in OTHER_SEEDS),
        *(
            Case(name, program, Variation.REFACTOR, folder / f"{program.name}.patch", SEEDS[0])
            for name, folder in zip(names, folders, strict=True)
        ),
        *(
            Case(each.name, program, Variation.FEATURE, each.patch, SEEDS[0], each)
            for each in load_features(program.folder.parent)
            if each.pipeline == program.name
        ),
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


Outcome = tuple[bool, str]
"""Whether a bug was found, and what the first incident named: `exact`, `near`, `missed` or nothing."""


def outcomes_of(text: str) -> dict[str, Outcome]:
    """What a page that was written before says of each bug."""
    _, _, table = text.partition("\n## Bugs\n")
    table, _, _ = table.partition("\n## ")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| ")]
    return {row[0]: (row[_FOUND] == "yes", row[_FOUND + 1]) for row in rows if row[0] not in ("bug", "---")}


def page(judged: Sequence[Judged], earlier: Mapping[str, Outcome]) -> str:
    """The tables: bugs by family, every bug, the clean runs of every program, and what was said of them, and features;
    where there is an earlier page, what came out then is shown beside.
    """
    planted = [each for each in judged if each.case.variation is Variation.BUG]
    features = [each for each in judged if each.case.variation is Variation.FEATURE]
    clean = [each for each in judged if each.case.bug is None]
    alarms = [each for each in clean if each.incidents or each.problem]
    blocks = [
        f"{sum(each.found for each in planted)} of {len(planted)} bugs are found; the first incident names the "
        f"cause for {_count(planted, 'exact')}, a close symptom for {_count(planted, 'near')}. "
        f"{_silent(clean, Variation.SEED)} runs with other seeds and {_silent(clean, Variation.REFACTOR)} "
        "refactorings pass without an incident.",
        "## By family",
        markdown_table(
            [
                "family",
                "bugs",
                "found",
                "cause named",
                "close symptom",
                *(["found then", "named then"] if earlier else []),
            ],
            [_family_row(family, mine, earlier) for family, mine in _by_family(planted).items()],
        ),
        "## Bugs",
        markdown_table(
            [
                *["bug", "what was planted", "found", "cause", "incidents", "first step", "top incident"],
                *(["then"] if earlier else []),
            ],
            [[*_bug_row(each), *([_then(earlier, each)] if earlier else [])] for each in planted],
        ),
        "## Clean runs",
        markdown_table(
            ["program", "covers", "rules", *dict.fromkeys(each.case.name for each in clean)],
            [_clean_row(name, clean) for name in dict.fromkeys(each.case.pipeline.name for each in clean)],
        ),
    ]
    if alarms:
        blocks += ["False alarms and errors:", "\n".join(f"- {each.complaint()}" for each in alarms)]
    if features:
        blocks += [
            "## Features",
            f"{sum(each.found for each in features)} of {len(features)} changes that are meant are told of; the first "
            f"incident names the change for {_count(features, 'exact')}.",
            markdown_table(
                ["program", "what was changed", "named", "incidents", "what they say"], map(_feature_row, features)
            ),
        ]
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


def _family_row(family: str, judged: Sequence[Judged], earlier: Mapping[str, Outcome]) -> list[object]:
    row = [family, len(judged), sum(each.found for each in judged), _count(judged, "exact"), _count(judged, "near")]
    if not earlier:
        return row
    then = [earlier.get(each.case.name, (False, "")) for each in judged]
    return [*row, sum(found for found, _ in then), sum(found and cause == "exact" for found, cause in then)]


def _then(earlier: Mapping[str, Outcome], judged: Judged) -> str:
    if judged.case.name not in earlier:
        return "not there"
    found, cause = earlier[judged.case.name]
    return f"found, {cause}" if found else "not found"


def _bug_row(judged: Judged) -> list[object]:
    assert judged.case.bug is not None
    top = judged.incidents[0].cause if judged.incidents else None
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


def _feature_row(judged: Judged) -> list[object]:
    assert judged.case.bug is not None
    count = len(judged.incidents)
    return [
        judged.case.pipeline.name,
        judged.case.bug.title,
        "" if not judged.found else "yes" if judged.cause == "exact" else "no",
        "**error**" if judged.problem else count if judged.as_expected else f"**{count}**",
        "<br>".join(incident.cause.title for incident in judged.incidents) or judged.problem[-200:],
    ]


def _clean_row(name: str, clean: Sequence[Judged]) -> list[object]:
    mine = [each for each in clean if each.case.pipeline.name == name]
    outcomes = [
        "**error**" if each.problem else f"**{len(each.incidents)}**" if each.incidents else "0" for each in mine
    ]
    return [name, mine[0].case.pipeline.covers, max(each.rules for each in mine), *outcomes]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--corpus", type=Path, default=CORPUS, metavar="DIR", help="its folder (default: fixtures/second)"
    )
    parser.add_argument("--program", action="append", metavar="NAME", help="this program alone; repeatable")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one run")
    parser.add_argument("--scratch", type=Path, help="keep the traces here and use those that are there")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page to FILE instead of printing it")
    parser.add_argument("--before", type=Path, metavar="FILE", help="text that goes in front of the tables")
    parser.add_argument("--earlier", type=Path, metavar="FILE", help="an earlier page, to show its outcomes beside")
    arguments = parser.parse_args()
    corpus = arguments.corpus.resolve()
    programs = [each for each in load_programs(corpus) if not arguments.program or each.name in arguments.program]
    if not programs:
        raise SystemExit(f"no program of that name; see {corpus / 'programs.toml'}")
    facts = machine()
    bugs = load_bugs(corpus)
    scratch = arguments.scratch or Path(tempfile.mkdtemp(prefix=f"{corpus.name}-"))
    recorder = Recorder(scratch.resolve(), arguments.timeout)
    try:
        record_all(programs, bugs, recorder, arguments.jobs)
        judged = [each for program in programs for each in judge_all(program, bugs, recorder)]
    finally:
        if arguments.scratch is None:
            shutil.rmtree(scratch, ignore_errors=True)
    earlier = outcomes_of(arguments.earlier.read_text(encoding="utf-8")) if arguments.earlier else {}
    before = arguments.before.read_text(encoding="utf-8").rstrip() + "\n\n" if arguments.before else ""
    measured = "Measured on: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + ".\n"
    text = before + page(judged, earlier) + "\n" + measured
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
