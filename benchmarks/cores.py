"""Time per training step under both cores of the recorder, the compiled one and that of Python.

    python benchmarks/cores.py

As `overhead.py`, in turns of three: without an observer, observed with Python alone, and observed with the compiled
core, which `python hatch_build.py` builds. Ratios are medians over the turns, of the time of a step: by the wall clock,
and of CPU seconds, which a busy machine disturbs less.
"""

from __future__ import annotations

import argparse
import statistics
import sys

from measure import geometric_mean, machine, markdown_table, print_facts
from overhead import StepTime, Workload, observed, plain, workloads

CORES = ("python", "c")


def turns(workload: Workload, steps: int, repeats: int) -> dict[str, list[StepTime]]:
    """The time of a step in each run: `plain`, and by the name of the core. The order of a turn alternates."""
    found: dict[str, list[StepTime]] = {name: [] for name in ("plain", *CORES)}
    for turn in range(repeats):
        for name in list(found)[:: 1 if turn % 2 == 0 else -1]:
            found[name].append(plain(workload, steps) if name == "plain" else observed(workload, steps, core=name))
    return found


def ratio(found: dict[str, list[StepTime]], core: str, clock: str) -> float:
    """The median over the turns of what a core takes, in plain steps."""
    pairs = zip(found[core], found["plain"], strict=True)
    return statistics.median(getattr(mine, clock) / getattr(other, clock) for mine, other in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5, help="turns for each workload")
    parser.add_argument("--only", action="append", metavar="NAME", help="measure this workload alone; repeatable")
    arguments = parser.parse_args()
    facts, columns = machine(), [(clock, core) for clock in ("wall", "cpu") for core in CORES]
    rows = {}
    for workload in workloads():
        if not arguments.only or workload.name in arguments.only:
            found = turns(workload, arguments.steps, arguments.repeats)
            rows[workload.name] = [ratio(found, core, clock) for clock, core in columns]
            print(workload.name, rows[workload.name], file=sys.stderr)
    header = ["workload", "Python", "compiled", "Python, CPU", "compiled, CPU"]
    rows["geometric mean"] = [geometric_mean(column) for column in zip(*rows.values(), strict=True)]
    print(markdown_table(header, [[name, *(f"{value:.2f}x" for value in row)] for name, row in rows.items()]))
    print_facts({**facts, "steps": str(arguments.steps), "turns": str(arguments.repeats)})


if __name__ == "__main__":
    main()
