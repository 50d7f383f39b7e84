"""What people have today for the moment in which there is no golden, on every right program and every planted bug.

    python -m venv DIR && DIR/bin/pip install torch==2.13.0 lightning transformers accelerate torch-audit torchfix \
        torchtest2 torchtest
    python benchmarks/audit_peers.py --tool torch-audit --python DIR/bin/python --scratch RUNS

Each program and each bug is one run (seed 0); what is in RUNS already is not run again. Without `--tool`, nothing is
run and the page of what is there is made. A bug is found when the tool says something of it that it does not say of
the right program, numbers and advice on speed aside; its cause is named when that holds a word of `cause` in the bug's
table. What is said of a right program, from a warning on, is a false alarm until somebody has read it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import unseen
from audit_page import Case, page
from audit_tools import TOOLS, Remark, Said, Server, Tool
from audit_traces import audited
from measure import FIXTURES, machine
from planted import Bug, apply_patch, load_bugs, load_number_bugs, load_pipelines, tree_of

CORPORA = ("second", "third", "fourth", "late", "fifth")


def all_cases() -> list[Case]:
    """Right programs first, then `fixtures/bugs`, the corpora, and `fixtures/numbers` last."""
    programs = {("pipelines", each.name): each for each in load_pipelines()}
    planted: list[tuple[str, str, Bug]] = [("pipelines", "bugs", bug) for bug in load_bugs()]
    for corpus in CORPORA:
        programs |= {(corpus, each.name): each for each in unseen.load_programs(FIXTURES / corpus)}
        planted += [(corpus, corpus, bug) for bug in unseen.load_bugs(FIXTURES / corpus)]
    planted += [("pipelines", "numbers", bug) for bug in load_number_bugs()]
    cases = [Case(group, program, None) for (group, _), program in programs.items()]
    return cases + [
        Case(group, programs[home, bug.pipeline], bug)
        for home, group, bug in planted
        if (home, bug.pipeline) in programs
    ]


def sample(cases: list[Case], every: int) -> list[Case]:
    """Every Nth bug, by its position alone, behind the right programs that those were planted in."""
    bugs = [case for case in cases if case.bug is not None][::every]
    rights = {case.right for case in bugs}
    return [case for case in cases if case.bug is None and (every == 1 or case.name in rights)] + bugs


def kept_of(tool: Tool, case: Case, scratch: Path) -> Path:
    """The file that one run is kept in."""
    return scratch / tool.name / f"{case.name}.json"


def said(tool: Tool, case: Case, scratch: Path) -> Said | None:
    """What was kept of an earlier run. What a program warns of by itself is read from its run with torch-audit as well,
    which prints nothing.
    """
    kept = kept_of(tool, case, scratch)
    if kept.exists():
        held = json.loads(kept.read_text(encoding="utf-8"))
        remarks, printed = (tuple(Remark(**each) for each in held.pop(name)) for name in ("remarks", "printed"))
        return Said(**{**held, "notes": tuple(held["notes"]), "remarks": remarks, "printed": printed})
    if tool.name == "warnings" and (other := said(TOOLS["torch-audit"], case, scratch)) is not None:
        return Said(other.printed, 1, (), other.problem, other.seconds)
    return None


def run_case(tool: Tool, case: Case, scratch: Path, server: Server, timeout: float) -> None:
    """One run in a copy of the program, kept as a file when it is over."""
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        tree = tree_of(case.program, Path(folder) / case.program.name)
        if case.bug is not None:
            apply_patch(case.bug.patch, tree)
        result = tool.run(server, case.program, tree, timeout)
    keep(kept_of(tool, case, scratch), result)


def keep(kept: Path, result: Said) -> None:
    """Write the file of one run, in one step."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.with_suffix(".part").write_text(json.dumps(asdict(result), indent=1), encoding="utf-8")
    kept.with_suffix(".part").replace(kept)


def _facts(python: Path) -> str:
    """The machine, and the versions of what is installed there."""
    asked = "import importlib.metadata as m; print(*(f'{d.name} {d.version}' for d in m.distributions()), sep='\\n')"
    done = subprocess.run([str(python), "-c", asked], capture_output=True, text=True, check=True)
    named = ("torch-audit", "torchtest2", "torchtest", "torchfix", "lightning", "transformers")
    versions = sorted({line for line in done.stdout.splitlines() if line.split()[0].lower() in named}, key=str.lower)
    facts = {name: value for name, value in machine(python).items() if not name.startswith("load")}
    return ", ".join([*(f"{name} {value}" for name, value in facts.items()), *versions])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", choices=TOOLS, help="run this tool on what it has not been run on yet")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="interpreter that has the tool")
    parser.add_argument("--scratch", type=Path, required=True, metavar="DIR", help="what was said, kept for next time")
    parser.add_argument(
        "--traces", type=Path, metavar="DIR", help="audit these traces instead of running `traincheck audit`"
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="WORD",
        help="cases with this in their own name or the program's",
    )
    parser.add_argument(
        "--every",
        type=int,
        default=1,
        metavar="N",
        help="every Nth bug, by its position among all, and the right programs of those",
    )
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for one run (default: %(default)s)")
    parser.add_argument("--before", type=Path, metavar="FILE", help="text that goes in front of the tables")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page to FILE instead of printing it")
    arguments = parser.parse_args()
    scratch, cases = arguments.scratch.resolve(), all_cases()
    if arguments.traces:
        for case, result in audited(cases, arguments.traces):
            keep(kept_of(TOOLS["traincheck-audit"], case, scratch), result)
    elif arguments.tool:
        tool = TOOLS[arguments.tool]
        wanted = [
            case
            for case in sample(cases, arguments.every)
            if any(each in case.names for each in arguments.only or [""])
        ]
        todo = [case for case in wanted if not kept_of(tool, case, scratch).exists()]
        server = Server(arguments.python.absolute(), tool.imports)
        try:
            for number, case in enumerate(todo, start=1):
                run_case(tool, case, scratch, server, arguments.timeout)
                print(f"\r{number} of {len(todo)} runs", end="", file=sys.stderr, flush=True)
        finally:
            server.close()
        print(file=sys.stderr)
    results = {name: {case.name: said(tool, case, scratch) for case in cases} for name, tool in TOOLS.items()}
    text = page(cases, {name: {k: v for k, v in of.items() if v is not None} for name, of in results.items()})
    text += f"\nMeasured on: {_facts(arguments.python.absolute())}.\n"
    before = arguments.before.read_text(encoding="utf-8").rstrip() + "\n\n" if arguments.before else ""
    if arguments.write:
        arguments.write.write_text(before + text, encoding="utf-8")
    else:
        print(before + text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
