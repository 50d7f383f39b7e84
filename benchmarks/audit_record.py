"""Records the runs that `audit.py` reads: right programs, their refactorings and extensions, and planted bugs.

    python benchmarks/audit_record.py --traces DIR --jobs 2

One run each, with seed 0, as DIR/CORPUS/PROGRAM/VARIANT/trace. What is there already is kept. The fifth corpus is not
among them: it is for `audit_unseen.py`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from detection import Recorder
from measure import FIXTURES
from planted import Pipeline, load_bugs, load_number_bugs, load_pipelines
from unseen import load_bugs as load_unseen_bugs
from unseen import load_programs

CORPORA = ("second", "third", "fourth", "late")
LIBRARIES = "libraries"
"""Programs of libraries: one file each, without bugs."""


@dataclass(frozen=True)
class Job:
    """One run to record."""

    corpus: str
    program: Pipeline
    variant: str
    patch: Path | None = None


def jobs() -> Iterator[Job]:
    """All runs, by corpus."""
    yield from _reference()
    for corpus in CORPORA:
        folder = FIXTURES / corpus
        programs = {program.name: program for program in load_programs(folder)}
        for program in programs.values():
            yield Job(corpus, program, "clean")
            for patch in sorted(folder.glob(f"refactors*/{program.name}.patch")):
                yield Job(corpus, program, patch.parent.name, patch)
        for bug in load_unseen_bugs(folder):
            if bug.pipeline in programs:
                yield Job(corpus, programs[bug.pipeline], f"bug-{bug.name}", bug.patch)
    for program in load_programs(FIXTURES / LIBRARIES):
        yield Job(LIBRARIES, replace(program, folder=FIXTURES / LIBRARIES), "clean")


def _reference() -> Iterator[Job]:
    programs = {program.name: program for program in load_pipelines()}
    for program in programs.values():
        yield Job("ref", program, "clean")
        for kind in ("refactors", "features"):
            patch = FIXTURES / kind / f"{program.name}.patch"
            if patch.exists():
                yield Job("ref", program, kind[:-1], patch)
    for prefix, bugs in (("bug", load_bugs()), ("num", load_number_bugs())):
        for bug in bugs:
            if bug.pipeline in programs:
                yield Job("ref", programs[bug.pipeline], f"{prefix}-{bug.name}", bug.patch)


def record(job: Job, traces: Path, timeout: float) -> str:
    """What went wrong, empty where nothing did."""
    recorder = Recorder(traces / job.corpus, timeout)
    try:
        return recorder.record(job.program, job.variant, job.patch, 0)[2]
    except SystemExit as stopped:
        return str(stopped)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, metavar="DIR")
    parser.add_argument("--corpus", action="append", metavar="NAME", help="this one alone; repeatable")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one run")
    arguments = parser.parse_args()
    todo = [job for job in jobs() if not arguments.corpus or job.corpus in arguments.corpus]
    failed = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        problems = pool.map(lambda job: record(job, arguments.traces, arguments.timeout), todo)
        for job, problem in zip(todo, problems, strict=True):
            if problem:
                failed += 1
                print(f"{job.corpus}/{job.program.name} {job.variant}: {problem[-300:]}", file=sys.stderr)
    print(f"{len(todo) - failed} of {len(todo)} runs recorded")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
