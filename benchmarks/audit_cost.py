"""What an audit costs: programs as they are and audited, in turns.

    python benchmarks/audit_cost.py --rounds 3

Both times are of the whole command, from its start to its end: what is imported, the training, and of an audit also
what holds the trace against the packs. The programs train for eight steps, which is where an audit ends. Medians of
the rounds count. Seconds of the processor, of all processes together, stand beside those of the clock: on a machine
that has other work to do they are the ones to go by. The exit status is 1 where an audited run takes longer than 1.2
times the plain one and two seconds, by the clock.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from measure import machine, markdown_table, own_package, print_facts, run, traincheck
from planted import Pipeline, load_pipelines, tree_of

PROGRAMS = ("mnist_cnn", "lstm", "gan", "hf_classifier", "lightning_regression", "ddp", "vit", "diffusion")
"""A network without much around it, a recurrent one, two players, a Trainer of transformers, one of Lightning, two
ranks, workers that load, and a checkpoint in the middle."""
FACTOR, SECONDS = 1.2, 2.0


def once(program: Pipeline, folder: Path, *, audited: bool) -> tuple[float, float]:
    """Seconds of one run in a tree of its own, by the clock and of the processor."""
    words = program.run.split()
    with tempfile.TemporaryDirectory(dir=folder) as place:
        tree = tree_of(program, Path(place) / program.name)
        command = traincheck("audit", "--", *words) if audited else tuple(words)
        done = run(command, cwd=tree, env=own_package(), timeout=600).checked((0, 1))
        return done.wall, done.cpu


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of each, in turns (default: %(default)s)")
    parser.add_argument("--program", action="append", metavar="NAME", help="this one alone; repeatable")
    arguments = parser.parse_args()
    facts = machine()
    chosen = arguments.program or PROGRAMS
    programs = [program for program in load_pipelines() if program.name in chosen]
    rows, missed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for program in sorted(programs, key=lambda item: chosen.index(item.name)):
            times: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
            for _ in range(arguments.rounds):
                for audited in times:
                    times[audited].append(once(program, Path(folder), audited=audited))
                    print(program.name, audited, *times[audited][-1], file=sys.stderr)
            cells = []
            for kind in range(2):
                plain, audit = (statistics.median(pair[kind] for pair in times[audited]) for audited in times)
                budget = FACTOR * plain + SECONDS
                kept = audit <= budget
                missed += not kept and kind == 0
                cells += [f"{plain:.1f} s", f"{audit:.1f} s", f"{budget:.1f} s" if kept else f"**{budget:.1f} s**"]
            rows.append([f"`{program.name}`", program.covers, *cells])
    header = [f"{name} ({of})" for of in ("clock", "processor") for name in ("plain", "audited", "budget")]
    print(markdown_table(["program", "what it is", *header], rows))
    print("\nA budget that was missed is bold.")
    print_facts(facts)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
