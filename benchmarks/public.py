"""Public training scripts that nobody here wrote, recorded and audited: makes `docs/public.md`.

    python benchmarks/public.py --repositories DIR --scratch DIR

`--repositories` holds clones that the user made with `git clone`; nothing of them is kept here. `public.toml` names the
scripts. With `--same` each is run without the probe twice and with it once, and what it printed, with a digest of all
parameters after every step, has to be the same. The exit status is 1 when a run went wrong.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from measure import REPOSITORY, machine, markdown_table, run, traincheck
from public_programs import Program, Tree, digest, load_programs, make_tree, plain

sys.path.insert(0, str(REPOSITORY))


@dataclass(frozen=True)
class Recorded:
    """One program's trace, or what went wrong; `seconds` of the recorded run."""

    program: Program
    trace: Path
    seconds: float
    problem: str = ""


def collected(tree: Tree, trace: Path, timeout: float, *, same: bool) -> tuple[int, float, str]:
    """Exit status, seconds and messages of the run under the probe.

    With `same` the program prints its digest and ends itself, as it does in the runs without the probe.
    """
    shutil.rmtree(trace, ignore_errors=True)
    words: list[str | Path] = ["collect", "--run", tree.command, "--cwd", tree.folder, "--output", trace]
    words += ["--timeout", str(int(timeout))]
    variables = digest(tree) if same else tree.variables
    if tree.program.steps and not same:
        words += ["--steps", str(tree.program.steps)]
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
        status, seconds, output = collected(tree, trace, timeout, same=False)
    except SystemExit as stopped:
        return Recorded(program, trace, 0.0, str(stopped))
    if status:
        return Recorded(program, trace, seconds, output[-3000:])
    tree.remove()
    finished.write_text(f"{seconds}")
    return Recorded(program, trace, seconds)


@dataclass(frozen=True)
class Same:
    """Whether a program did the same with the probe and without, in words; `seconds` are without, without, with it."""

    program: Program
    verdict: str
    right: bool
    seconds: tuple[float, ...] = ()


def compare(program: Program, repositories: Path, scratch: Path, timeout: float) -> Same:
    """Runs a program twice without the probe and once with it."""
    outputs: list[str] = []
    seconds: list[float] = []
    trace = scratch / program.name / "same" / "trace"
    try:
        for probed in (False, False, True):
            tree = make_tree(program, repositories, scratch / program.name / "same")
            if probed:
                status, took, output = collected(tree, trace, timeout, same=True)
                messages = output
                if not status:
                    output = (trace / "stdout.txt").read_text(encoding="utf-8", errors="replace")
            else:
                status, took, output = plain(tree, timeout)
                messages = output + (tree.root / "stderr.txt").read_text(encoding="utf-8", errors="replace")
            if status:
                word = "with" if probed else "without"
                return Same(program, f"status {status} {word} the probe: {messages[-2500:]}", False)
            outputs.append(output.replace(str(tree.root), ""))
            seconds.append(took)
            tree.remove()
    except SystemExit as stopped:
        return Same(program, str(stopped), False)
    return Same(program, *verdict(outputs), tuple(seconds))


def verdict(outputs: list[str]) -> tuple[str, bool]:
    """What of three outputs, of two runs without the probe and one with it, is the same: words, and whether all is.

    A word that already differs between the two runs without it, such as seconds, says nothing.
    """
    first, second, probed = (words_of(output) for output in outputs)
    steps = [word for word in first if word.startswith("digest of")]
    if len(first) != len(second) or any(word in steps and word not in second for word in first):
        return f"without the probe no two runs are alike ({len(first)} and {len(second)} words)", False
    if len(first) != len(probed):
        return f"{len(first)} words without the probe, {len(probed)} with it", False
    sure = [number for number, word in enumerate(first) if word == second[number]]
    other = [(first[number], probed[number]) for number in sure if first[number] != probed[number]]
    if other:
        return f"{len(other)} of {len(sure)} words differ, the first: {other[0][0]} and {other[0][1]}", False
    return f"{len(sure)} of {len(first)} words compared; {'; '.join(steps) or 'no optimizer'}", True


def words_of(output: str) -> list[str]:
    """The words of all lines, lines sorted since ranks write in turns; a digest is one word."""
    lines = sorted(line for line in output.replace("\r", "\n").splitlines() if line.strip())
    return [word for line in lines for word in ([line] if line.startswith("digest of") else line.split())]


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repositories", type=Path, required=True, metavar="DIR", help="directory of the clones")
    parser.add_argument("--scratch", type=Path, required=True, help="keep the traces here and use those that are there")
    parser.add_argument("--only", action="append", metavar="NAME", help="programs whose name begins so; repeatable")
    parser.add_argument("--part", choices=("all", "development", "hold-out"), default="all")
    parser.add_argument("--same", action="store_true", help="compare runs with the probe and without")
    parser.add_argument("--jobs", type=int, default=2, help="programs at a time (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds for one run (default: %(default)s)")
    arguments = parser.parse_args()
    programs = selected(arguments.only, arguments.part)
    repositories, scratch = arguments.repositories.resolve(), arguments.scratch.resolve()
    step = compare if arguments.same else record
    begin, wrong, rows = time.perf_counter(), 0, []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for done in pool.map(lambda program: step(program, repositories, scratch, arguments.timeout), programs):
            if isinstance(done, Same):
                wrong += not done.right
                rows.append((done.program.name, done.verdict, " ".join(f"{each:.1f}" for each in done.seconds)))
            else:
                wrong += bool(done.problem)
                rows.append((done.program.name, done.problem or "recorded", f"{done.seconds:.1f}"))
            print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    print(markdown_table(("program", "outcome", "seconds"), rows))
    print(f"\n{time.perf_counter() - begin:.0f} s in all; {', '.join(f'{k} {v}' for k, v in machine().items())}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
