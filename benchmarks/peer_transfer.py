"""TrainCheck 0.2.0 without a golden: invariants of some right programs, checked on programs that had no part in it.

    python benchmarks/peer.py --make DIR                    # an environment for the peer, made once with pip
    python benchmarks/peer_transfer.py --python DIR/bin/python --learn mnist_cnn --learn vae

Each row is a run of a program, right or with a bug, collected in full and checked with all invariants. A bug is found
when it breaks one that its right program does not break; what the right program breaks are false alarms. Only programs
of one process whose script has a variable `model` come into question, since the peer asks for its name: after the
pipelines of `peer_corpus.py` every third of such programs of `fixtures/second`, by position, with its first two bugs.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import unseen
from measure import FIXTURES, machine, markdown_table, print_facts, run
from peer import failed_rules, rule_key
from peer_corpus import MODELS
from planted import Bug, Pipeline, apply_patch, load_bugs, load_pipelines, tree_of

EVERY, BUGS = 3, 2
_NAMED = re.compile(r"^ *model = ", re.MULTILINE)


@dataclass(frozen=True)
class Transfer:
    """The peer's commands, with the limit of each in seconds."""

    python: Path
    timeout: float

    def collect(self, program: Pipeline, tree: Path, trace: Path) -> None:
        """One instrumented run; the script's arguments go through a shell script, the only way that the peer has."""
        words = f"{program.run} {program.seed_arg.format(seed=0)}".split()
        shell = tree / "collect_it.sh"
        shell.write_text(f"set -e\n{self.python} -u {' '.join(words[1:])}\n")
        command = [self.python.parent / "traincheck-collect", "--pyscript", words[1], "--shscript", shell.name]
        run([*command, "--models-to-track", "model", "--output-dir", trace], cwd=tree, timeout=self.timeout).checked()

    def infer(self, traces: Sequence[Path], invariants: Path) -> None:
        command = [self.python.parent / "traincheck-infer", "-f", *traces, "-o", invariants]
        run(command, cwd=invariants.parent, timeout=self.timeout).checked()

    def broken(self, program: Pipeline, bug: Bug | None, scratch: Path, invariants: Path) -> dict[str, dict[str, Any]]:
        """The invariants that a run breaks, by what they claim."""
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            tree = tree_of(program, Path(folder) / program.name)
            if bug is not None:
                apply_patch(bug.patch, tree)
            trace, results = Path(folder) / "trace", Path(folder) / "results"
            self.collect(program, tree, trace)
            command = [self.python.parent / "traincheck-check", "-f", trace, "-i", invariants, "-o", results]
            run(command, cwd=Path(folder), timeout=self.timeout).checked()
            return {rule_key(rule): dict(rule) for rule in failed_rules(results)}


def tried() -> list[tuple[Pipeline, list[Bug]]]:
    """The programs in order, each with its bugs."""
    second = [
        program
        for program in unseen.load_programs(FIXTURES / "second")
        if program.run.startswith("python ") and _NAMED.search((program.folder / program.run.split()[1]).read_text())
    ]
    programs = [program for program in load_pipelines() if program.name in MODELS] + second[::EVERY]
    bugs = load_bugs() + unseen.load_bugs(FIXTURES / "second")
    return [(program, [bug for bug in bugs if bug.pipeline == program.name][:BUGS]) for program in programs]


def rows_of(peer: Transfer, program: Pipeline, bugs: Sequence[Bug], invariants: Path, scratch: Path) -> Iterator[Any]:
    """The right program, and each bug."""
    begun = time.perf_counter()
    alarms = peer.broken(program, None, scratch, invariants)
    yield [program.name, "right", len(alarms), "", "", round(time.perf_counter() - begun)]
    for bug in bugs:
        begun = time.perf_counter()
        found = peer.broken(program, bug, scratch, invariants)
        own = [rule for key, rule in found.items() if key not in alarms]
        texts = [(rule.get("text_description", "") + json.dumps(rule["params"])).lower() for rule in own]
        named = sum(any(word in text for word in bug.cause) for text in texts)
        yield [program.name, bug.name, len(found), len(own), named, round(time.perf_counter() - begun)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="interpreter of an environment with the peer")
    parser.add_argument("--learn", action="append", required=True, metavar="NAME", help="learn from this; repeatable")
    parser.add_argument("--only", action="append", metavar="NAME", help="try them on this program alone; repeatable")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one command (default: %(default)s)")
    arguments = parser.parse_args()
    peer = Transfer(arguments.python.absolute(), arguments.timeout)
    scratch = Path(tempfile.mkdtemp(prefix="transfer-"))
    header = ["program", "case", "broken", "not by the right program", "name the cause", "s"]
    rows: list[list[Any]] = []
    try:
        traces, invariants = [], scratch / "invariants.json"
        for program in (program for program in load_pipelines() if program.name in arguments.learn):
            traces.append(scratch / f"trace_{program.name}")
            peer.collect(program, tree_of(program, scratch / program.name), traces[-1])
        begun = time.perf_counter()
        peer.infer(traces, invariants)
        count = len(invariants.read_text().splitlines())
        print(f"{count} invariants in {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
        for program, bugs in tried():
            if program.name in arguments.learn or program.name not in (arguments.only or [program.name]):
                continue
            try:
                for row in rows_of(peer, program, bugs, invariants, scratch):
                    rows.append(row)
                    print(row, file=sys.stderr, flush=True)
            except SystemExit as error:
                rows.append([program.name, f"no result: {str(error).splitlines()[-1][:160]}", "", "", "", ""])
                print(rows[-1], file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"{count} invariants of {', '.join(arguments.learn)}.\n\n{markdown_table(header, rows)}\n")
    print_facts(machine(arguments.python))
    return 0


if __name__ == "__main__":
    sys.exit(main())
