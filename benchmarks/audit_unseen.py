"""The fifth corpus through an audit: no golden, and the packs that ship. Its first result is `docs/fifth.md`.

    python benchmarks/audit_unseen.py --write FILE

Each program, its refactoring, what looks wrong in it and is meant, and each planted bug is recorded once and audited. A
bug is found when the audit says something of it that it says of no right version of its program. The exit status is 0
whatever is found: the page is what comes out.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from detection import Recorder
from measure import FIXTURES, REPOSITORY, machine, markdown_table
from planted import Bug, Pipeline
from unseen import load_bugs, load_programs

sys.path.insert(0, str(REPOSITORY))

from pytest_traincheck.check.audit import audit_run
from pytest_traincheck.check.audited import AuditFinding
from pytest_traincheck.packs.model import Pack
from pytest_traincheck.trace import load_run
from pytest_traincheck.workflow.packs import packs_for

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CORPUS = FIXTURES / "fifth"


@dataclass(frozen=True)
class Variant:
    """One run: of a program, with a patch or none, and the bug that this plants."""

    program: Pipeline
    name: str
    patch: Path | None = None
    bug: Bug | None = None


@dataclass(frozen=True)
class Audited:
    """What the audit of one run says; `problem` is what went wrong with the run."""

    variant: Variant
    findings: tuple[AuditFinding, ...] = ()
    problem: str = ""

    def rules(self) -> frozenset[str]:
        return frozenset(name for finding in self.findings for name in finding.names)


def variants() -> Iterator[Variant]:
    """Everything in the corpus, right programs first."""
    programs = {program.name: program for program in load_programs(CORPUS)}
    for program in programs.values():
        yield Variant(program, "clean")
        yield Variant(program, "refactor", CORPUS / "refactors" / f"{program.name}.patch")
    for table in tomllib.loads((CORPUS / "oddities.toml").read_text(encoding="utf-8"))["oddity"]:
        if table["program"] in programs:
            yield Variant(programs[table["program"]], f"oddity {table['id']}", CORPUS / table["patch"])
    for bug in load_bugs(CORPUS):
        if bug.pipeline in programs:
            yield Variant(programs[bug.pipeline], bug.name, bug.patch, bug)


def audited(variant: Variant, recorder: Recorder, packs: Sequence[Pack]) -> Audited:
    """Records a run, twice where it went wrong: processes on gloo sometimes end badly. Then audits it."""
    for _ in range(2):
        trace, _, problem = recorder.record(variant.program, variant.name, variant.patch, seed=0)
        if not problem:
            return Audited(variant, audit_run(load_run(trace), packs, name=variant.program.name).findings)
    return Audited(variant, problem=problem)


def page(results: Sequence[Audited]) -> str:
    """Two tables: the bugs, and what is said of right programs."""
    right = [each for each in results if each.variant.bug is None]
    wrong = [each for each in results if each.variant.bug is not None]
    known: dict[str, frozenset[str]] = {}
    for each in right:
        # What is meant in one version of a program says nothing of the others.
        if not _is_odd(each):
            program = each.variant.program.name
            known[program] = known.get(program, frozenset()) | each.rules()
    rows, levels, causes = [], [], []
    for each in wrong:
        ours = known.get(each.variant.program.name, frozenset())
        told = [item for item in each.findings if not ours.issuperset(item.names)]
        bug, level = each.variant.bug, ""
        assert bug is not None
        if told:
            level = "error" if any(item.level == "error" for item in told) else "warning"
        cause = _cause(bug, told)
        said = f"`{told[0].rule.id}`: {told[0].incident.cause.title}" if told else ""
        rows.append([bug.name, bug.title, "**went wrong**" if each.problem else level or "no", cause, said])
        levels.append(level)
        causes.append(cause)
    alarms = [
        [each.variant.program.name, each.variant.name, item.level, item.rule.id, item.incident.cause.title]
        for each in right
        for item in each.findings
    ]
    blocks = [
        f"{len(levels) - levels.count('')} of {len(wrong)} mistakes are found: {levels.count('error')} by an error, "
        f"{levels.count('warning')} by a warning alone; the first finding names the cause of {causes.count('exact')} "
        f"by the words written down for it. In {len(right)} right runs, {sum(map(_is_odd, right))} of which look wrong "
        f"on purpose, there are {sum(row[2] == 'error' for row in alarms)} errors and "
        f"{sum(row[2] == 'warning' for row in alarms)} warnings.",
        "## Mistakes",
        markdown_table(["mistake", "what was planted", "found by", "cause", "first finding"], rows),
        "## What is said of right programs",
        markdown_table(["program", "version", "level", "rule", "finding"], alarms) if alarms else "Nothing.",
    ]
    failed = [f"- {each.variant.program.name}, {each.variant.name}: {each.problem}" for each in right if each.problem]
    return "\n\n".join([*blocks, *(["Runs that went wrong:", "\n".join(failed)] if failed else [])]) + "\n"


def _is_odd(each: Audited) -> bool:
    return each.variant.name.startswith("oddity")


def _cause(bug: Bug, told: Sequence[AuditFinding]) -> str:
    if not told:
        return ""
    first = f"{told[0].incident.cause.title} {told[0].rule.id}".lower()
    for words, name in ((bug.cause, "exact"), (bug.near, "near")):
        if any(word in first for word in words):
            return name
    return "other"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one run")
    parser.add_argument("--scratch", type=Path, help="keep the traces here and use those that are there")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page to FILE instead of printing it")
    parser.add_argument("--before", type=Path, metavar="FILE", help="text that goes in front of the tables")
    arguments = parser.parse_args()
    facts, packs = machine(), packs_for((), None, REPOSITORY)
    scratch = arguments.scratch or Path(tempfile.mkdtemp(prefix="fifth-"))
    recorder = Recorder(scratch.resolve(), arguments.timeout)
    try:
        with ThreadPoolExecutor(arguments.jobs) as pool:
            results = list(pool.map(lambda variant: audited(variant, recorder, packs), variants()))
    finally:
        if arguments.scratch is None:
            shutil.rmtree(scratch, ignore_errors=True)
    before = arguments.before.read_text(encoding="utf-8").rstrip() + "\n\n" if arguments.before else ""
    measured = "Measured on: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + ".\n"
    text = before + page(results) + "\n" + measured
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
