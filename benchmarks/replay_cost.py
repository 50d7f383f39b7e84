"""What sketches cost: their share of a step in which they are taken, and of the steps after.

    python benchmarks/replay_cost.py

Every workload of `overhead.py` runs under observation without sketches, with sketches in the first two steps and with
sketches in all steps, in turns. A step is told by its CPU time, which other processes stretch less than the clock's,
the first two left out: so the second column shows the steps after, and the third what a sketched step takes.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from measure import geometric_mean, machine, markdown_table, print_facts, run, traincheck
from overhead import Workload, stamped, workloads

VARIABLE = "TRAINCHECK_REPLAY_STEPS"
ALWAYS = 1_000_000


def observed(workload: Workload, steps: int, sketched: int) -> float:
    """CPU seconds of a step under `traincheck collect`, with sketches in the first `sketched` steps."""
    with tempfile.TemporaryDirectory(prefix="trace-") as folder:
        words = traincheck("collect", "--run", workload.line(steps), "--output", Path(folder) / "trace")
        measured = stamped(lambda env: run(words, cwd=workload.cwd, env={**env, VARIABLE: str(sketched)}))
        return measured.cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="NAME", help="this workload alone; repeatable")
    parser.add_argument("--steps", type=int, default=24, help="steps of a run (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each sort (default: %(default)s)")
    arguments = parser.parse_args()
    rows, after, share = [], [], []
    for workload in workloads():
        if arguments.only and workload.name not in arguments.only:
            continue
        turns = [
            [observed(workload, arguments.steps, sketched) for sketched in (0, 2, ALWAYS)]
            for _ in range(arguments.repeats)
        ]
        without, _, always = (statistics.median(column) for column in zip(*turns, strict=True))
        after.append(statistics.median(two / none for none, two, _ in turns))
        share.append(statistics.median(1 - none / full for none, _, full in turns))
        rows.append(
            [
                workload.name,
                f"{1000 * without:.2f}",
                f"{1000 * always:.2f}",
                f"{100 * share[-1]:.0f} %",
                f"{after[-1]:.2f}x",
            ]
        )
    header = ["workload", "CPU ms/step without", "CPU ms, sketched step", "share of a sketched step", "steps after"]
    print(markdown_table(header, rows))
    print(f"\nSteps after the first two: geometric mean {geometric_mean(after):.3f}x of those without sketches.\n")
    print_facts(machine())


if __name__ == "__main__":
    main()
