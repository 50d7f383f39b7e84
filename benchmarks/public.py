"""Public training scripts that nobody here wrote, recorded and audited: makes `docs/public.md`.

    python benchmarks/public.py --repositories DIR --scratch DIR

`--repositories` holds clones that the user made with `git clone`; nothing of them is kept here. `public.toml` names the
scripts. With `--same` each is run without the probe twice and with it once, and what it printed, with a digest of all
parameters after every step, has to be the same. The exit status is 1 when a run went wrong.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import REPOSITORY, machine, markdown_table, print_facts, run, traincheck
from public_judge import judge, shipped
from public_page import Judged, page
from public_programs import Program, Tree, load_programs, make_tree, plain

SECONDS = re.compile(r"[\d.]+m?s")


@dataclass(frozen=True)
class Recorded:
    """One program's trace, or what went wrong; `seconds` of the recorded run."""

    program: Program
    trace: Path
    seconds: float
    problem: str = ""


def collected(tree: Tree, trace: Path, timeout: float, *, alone: bool) -> tuple[int, float, str]:
    """Exit status, seconds and messages of the run under the probe.

    With `alone` the program is seeded and ended by itself, as it is in the runs without the probe.
    """
    shutil.rmtree(trace, ignore_errors=True)
    words: list[str | Path] = ["collect", "--run", tree.command, "--cwd", tree.folder, "--output", trace]
    words += ["--timeout", str(int(timeout))]
    if not alone:
        words += ["--seed", "0", "--seed-by", "probe"]
        words += ["--steps", str(tree.program.steps)] if tree.program.steps else []
    variables = tree.variables
    path = f"{REPOSITORY}:{variables['PYTHONPATH']}"
    done = run(traincheck(*words), cwd=tree.root, env={**variables, "PYTHONPATH": path}, timeout=timeout + 60)
    return done.returncode, done.wall, done.output


def record(program: Program, repositories: Path, scratch: Path, timeout: float) -> Recorded:
    """Records one program, unless its trace is there already."""
    root = scratch / program.name
    trace, finished = root / "trace", root / "finished"
    if finished.exists():
        return Recorded(program, trace, float(finished.read_text()))
    try:
        tree = make_tree(program, repositories, root)
        status, seconds, output = collected(tree, trace, timeout, alone=False)
    except SystemExit as stopped:
        return Recorded(program, trace, 0.0, str(stopped))
    if status:
        return Recorded(program, trace, seconds, output[-3000:])
    tree.remove()
    finished.write_text(f"{seconds}")
    return Recorded(program, trace, seconds)


@dataclass(frozen=True)
class Same:
    """Whether a program did the same with the probe and without, in words; `seconds` of the runs, the last with it."""

    program: Program
    verdict: str
    wrong: bool
    seconds: tuple[float, ...] = ()


def compare(program: Program, repositories: Path, scratch: Path, timeout: float) -> Same:
    """Runs a program without the probe and with it, and without it once more where they differ."""
    outputs: list[str] = []
    seconds: list[float] = []
    root = scratch / program.name / "same"
    for probed in (False, True, False):
        if len(outputs) == 2 and outputs[0] == outputs[1]:
            break
        word = "with" if probed else "without"
        try:
            tree = make_tree(program, repositories, root, digested=True)
            if probed:
                status, took, messages = collected(tree, root / "trace", timeout, alone=True)
                output = "" if status else (root / "trace" / "stdout.txt").read_text(encoding="utf-8", errors="replace")
            else:
                status, took, output = plain(tree, timeout)
                messages = output + (root / "stderr.txt").read_text(encoding="utf-8", errors="replace")
        except SystemExit as stopped:
            return Same(program, f"run {len(outputs) + 1}, {word} the probe: {stopped}", wrong=True)
        if status:
            return Same(program, f"status {status} {word} the probe: {messages[-2500:]}", wrong=True)
        outputs.append(output)
        seconds.append(took)
        tree.remove()
    first, with_it, again = outputs if len(outputs) == 3 else (*outputs, outputs[0])
    return Same(program, *verdict(words_of(first), words_of(again), words_of(with_it)), tuple(seconds))


def verdict(first: list[str], again: list[str], probed: list[str]) -> tuple[str, bool]:
    """What is the same in the words of two runs without the probe and of one with it, and whether anything is not.

    A word that already differs between the two runs without it says nothing, and neither do seconds.
    """
    if len(first) != len(again) or any(is_digest(word) and word not in again for word in first):
        return "not to be compared: without the probe no two runs are alike", False
    if len(first) != len(probed):
        return f"{len(first)} words without the probe, {len(probed)} with it", True
    sure = [number for number, word in enumerate(first) if word == again[number] and not SECONDS.fullmatch(word)]
    other = [(first[number], probed[number]) for number in sure if first[number] != probed[number]]
    if other:
        return f"{len(other)} of {len(sure)} words differ, the first: {other[0][0]} and {other[0][1]}", True
    digests = "; ".join(word for word in first if is_digest(word))
    return f"same in {len(sure)} of {len(first)} words; {digests or 'no optimizer'}", False


def is_digest(word: str) -> bool:
    """Whether it is what the stand-in for `sitecustomize` printed."""
    return word.startswith("digest of ")


def words_of(output: str) -> list[str]:
    """The words of all lines, lines sorted since ranks write in turns; a digest is one word."""
    lines = sorted(line for line in output.replace("\r", "\n").splitlines() if line.strip())
    return [word for line in lines for word in ([line] if is_digest(line) else line.split())]


def selected(only: list[str] | None, part: str) -> list[Program]:
    """The programs that the user asked for.

    Raises:
        SystemExit: if there are none, or some need packages that are not installed.
    """
    programs = [
        program
        for program in load_programs()
        if (not only or any(program.name.startswith(name) for name in only))
        and part in ("all", "hold-out" if program.held_out else "development")
    ]
    if not programs:
        raise SystemExit("no program has a name that begins so; see benchmarks/public.toml")
    lacking = {package for program in programs for package in program.missing}
    if lacking:
        raise SystemExit(f"these programs need packages that are not installed: {', '.join(sorted(lacking))}")
    return programs


def check_all_same(programs: Sequence[Program], repositories: Path, scratch: Path, arguments: Any) -> int:
    """Compares runs with the probe and without, a row a program; 1 where something differs."""
    rows, wrong = [], 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for done in pool.map(lambda each: compare(each, repositories, scratch, arguments.timeout), programs):
            wrong += done.wrong
            rows.append((done.program.name, done.verdict, " ".join(f"{each:.1f}" for each in done.seconds)))
            print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    print(markdown_table(("program", "outcome", "seconds: without, with the probe"), rows))
    print_facts(machine())
    return int(bool(wrong))


def audit_all(programs: Sequence[Program], repositories: Path, scratch: Path, arguments: Any) -> list[Judged]:
    """Records and audits all programs."""
    packs, outcomes = shipped(), []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for done in pool.map(lambda each: record(each, repositories, scratch, arguments.timeout), programs):
            if done.problem:
                outcome = Judged(done.program, seconds=done.seconds, problem=done.problem)
            else:
                outcome = judge(done.program, done.trace, done.seconds, packs)
            outcomes.append(outcome)
            told = outcome.problem or f"{outcome.level('error')} errors, {outcome.level('warning')} warnings"
            print(f"{done.program.name}  {told}  {done.seconds:.1f}", file=sys.stderr, flush=True)
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repositories", type=Path, required=True, metavar="DIR", help="directory of the clones")
    parser.add_argument("--scratch", type=Path, required=True, help="keep the traces here and use those that are there")
    parser.add_argument("--only", action="append", metavar="NAME", help="programs whose name begins so; repeatable")
    parser.add_argument("--part", choices=("all", "development", "hold-out"), default="all")
    parser.add_argument(
        "--same", action="store_true", help="compare runs with the probe and without, and audit nothing"
    )
    parser.add_argument("--jobs", type=int, default=2, help="programs at a time (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one run (default: %(default)s)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page to FILE instead of printing it")
    parser.add_argument("--before", type=Path, metavar="FILE", help="text that goes in front of the tables")
    arguments = parser.parse_args()
    programs = selected(arguments.only, arguments.part)
    repositories, scratch = arguments.repositories.resolve(), arguments.scratch.resolve()
    if arguments.same:
        return check_all_same(programs, repositories, scratch, arguments)
    outcomes = audit_all(programs, repositories, scratch, arguments)
    before = arguments.before.read_text(encoding="utf-8").rstrip() + "\n\n" if arguments.before else ""
    text = before + page(outcomes, machine(), [pack.name for pack in shipped()]) + "\n"
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")
    else:
        print(text)
    return int(any(outcome.problem for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
