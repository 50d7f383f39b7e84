"""How inference and checking grow with a run: CPU seconds and peak memory from 10^4 to 10^7 events.

    python benchmarks/growth.py --scratch DIR --beside before=CHECKOUT

One long training of `tiny_gpt` is recorded, and the shorter runs are its beginnings, cut at a step. Of each a golden is
learned by `traincheck infer`, and the run is checked against it, each in a process of its own; with `--beside` the same
by the package in another checkout, in turns. Prints tables and writes `growth.svg`.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from growth_plot import Line, Panel, plot
from measure import FIXTURES, REPOSITORY, Measured, machine, markdown_table, own_package, print_facts, run, traincheck

HERE = Path(__file__).resolve().parent
EVENTS = (10_000, 100_000, 1_000_000, 3_000_000, 10_000_000)
EVENTS_PER_STEP = 500
"""Of `tiny_gpt`, about; a little more, so that the longest run is long enough."""

BUDGETS = {"infer": 2.0, "check": 1.0}
"""CPU seconds per million events."""
MEMORY = 2 << 30
EVENT_SIZE = 64
ENOUGH = 0.5
"""Million events that a run must have more than the shortest, to tell what a million costs."""


@dataclass(frozen=True)
class Point:
    """What one task cost on one run: the medians of CPU seconds and of peak memory in bytes."""

    tree: str
    task: str
    events: int
    cpu: float
    memory: int


def record(scratch: Path, steps: int) -> Path:
    """The long run; one that lies in `scratch` is taken as it is."""
    trace = scratch / "whole"
    if not (trace / "run.json").exists():
        command = f"{shlex.quote(sys.executable)} train.py --steps {steps} --batch-size 1 --seed 0"
        words = traincheck("collect", "--timeout", "7200", "--run", command, "--output", trace)
        run(words, cwd=FIXTURES / "tiny_gpt", env=own_package(), timeout=7200).checked()
    return trace


def beginnings(whole: Path, scratch: Path, sizes: Sequence[int]) -> Iterator[Path]:
    """Runs of about these sizes; each is the beginning of the whole one."""
    for size in sizes:
        trace = scratch / f"events-{size}"
        if not trace.exists():
            words = (sys.executable, HERE / "growth_task.py", "cut", whole, str(size), trace)
            run(words, cwd=scratch, env=own_package()).checked()
        yield trace


def events_of(trace: Path) -> int:
    """By the size of the file, so that this process stays small: a child's peak memory counts from its parent's."""
    return sum(path.stat().st_size // EVENT_SIZE for path in trace.glob("proc-*/events.bin"))


def measured(task: str, tree: Path, trace: Path, golden: Path) -> Measured:
    """One run of a task with the package of `tree`."""
    if task == "infer":
        words = traincheck("infer", trace, "--output", golden, "--name", "tiny_gpt")
    else:
        words = (sys.executable, HERE / "growth_task.py", "check", golden, trace)
    return run(words, cwd=golden.parent, env={"PYTHONPATH": str(tree)}).checked()


def points(traces: Sequence[Path], trees: Mapping[str, Path], scratch: Path, repeats: int) -> Iterator[Point]:
    """Every task on every run, by every package, in turns."""
    for trace in traces:
        for task in BUDGETS:
            found: dict[str, list[Measured]] = {name: [] for name in trees}
            for _ in range(repeats):
                for name, tree in trees.items():
                    folder = scratch / f"golden-{name}"
                    folder.mkdir(exist_ok=True)
                    found[name].append(measured(task, tree, trace, folder / f"{trace.name}.jsonl"))
            for name, runs in found.items():
                cpu = statistics.median(each.cpu for each in runs)
                memory = int(statistics.median(each.memory for each in runs))
                yield Point(name, task, events_of(trace), cpu, memory)
                print(f"{name} {task} {events_of(trace):,} events: {cpu:.2f} s, {memory >> 20} MiB", file=sys.stderr)


def table(found: Sequence[Point]) -> str:
    """One row a package and run. The seconds per million events are those beyond the shortest run of all, which are
    nearly all of the start of an interpreter; of runs that are not much longer they would say nothing.
    """
    rows: list[list[object]] = []
    for tree, events in sorted(dict.fromkeys((point.tree, point.events) for point in found)):
        row: list[object] = [tree, f"{events:,}"]
        for task in BUDGETS:
            line = {each.events: each for each in found if (each.tree, each.task) == (tree, task)}
            point, shortest = line[events], line[min(line)]
            more = (events - shortest.events) / 1e6
            each_million = f"{(point.cpu - shortest.cpu) / more:.2f}" if more > ENOUGH else ""
            row += [f"{point.cpu:.2f}", each_million, f"{point.memory >> 20:,}"]
        rows.append(row)
    header = ["package", "events"]
    for task in BUDGETS:
        header += [f"{task}, CPU s", "s per further million", "peak MiB"]
    return markdown_table(header, rows)


def panels(found: Sequence[Point]) -> list[Panel]:
    """CPU seconds and peak memory over events."""
    low, high = min(each.events for each in found), max(each.events for each in found)
    seconds = [Line(f"{budget:g} s per million", ((low, budget * low / 1e6), (high, budget * high / 1e6)), task, True)
               for task, budget in BUDGETS.items()]  # fmt: skip
    memory = [Line("2 GiB", ((low, MEMORY / 2**20), (high, MEMORY / 2**20)), "limit", True)]
    for tree, task in dict.fromkeys((each.tree, each.task) for each in found):
        mine = [each for each in found if (each.tree, each.task) == (tree, task)]
        label = f"{task}, {tree}"
        faint = tree != "now"
        seconds.append(Line(label, tuple((each.events, each.cpu) for each in mine), task, faint=faint))
        memory.append(Line(label, tuple((each.events, each.memory / 2**20) for each in mine), task, faint=faint))
    return [Panel("CPU seconds", "events", tuple(seconds)), Panel("peak memory, MiB", "events", tuple(memory))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--events", default=",".join(map(str, EVENTS)), help="lengths of the runs (default: %(default)s)"
    )
    parser.add_argument("--beside", metavar="NAME=DIR", action="append", default=[], help="another checkout to measure")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="keep traces here, and use those that are there")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--plot", type=Path, default=HERE / "growth.svg", metavar="FILE", help="(default: %(default)s)")
    arguments = parser.parse_args()
    sizes = sorted(int(part) for part in arguments.events.split(","))
    trees = {name: Path(folder).resolve() for name, _, folder in (each.partition("=") for each in arguments.beside)}
    trees["now"] = REPOSITORY
    facts = machine()
    with tempfile.TemporaryDirectory(prefix="growth-") as folder:
        scratch = (arguments.scratch or Path(folder)).resolve()
        scratch.mkdir(parents=True, exist_ok=True)
        whole = record(scratch, -(-sizes[-1] // EVENTS_PER_STEP) + 20)
        traces = list(beginnings(whole, scratch, sizes))
        found = list(points(traces, trees, scratch, arguments.repeats))
    print(table(found))
    print_facts({**facts, "medians of": str(arguments.repeats), "load at the end": f"{os.getloadavg()[0]:.2f}"})
    arguments.plot.write_text(plot(panels(found)), encoding="utf-8")


if __name__ == "__main__":
    main()
