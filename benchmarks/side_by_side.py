"""Time per training step in check mode, as a ratio to the plain run, where the machine is not idle.

    python benchmarks/side_by_side.py --only adversarial --beside before=CHECKOUT

Where other work goes on, a run differs from the next by more than a mode costs. Here all trainings of a workload are
started, and go on by turns of a second behind their first steps: without an observer, and under `traincheck run` with
this package and with those of other checkouts. Whoever waits is stopped with all its processes, the checker included,
so that each turn has what the machine gives in that second. A ratio is that of two turns side by side; that of a
process is the median of its turns, and beside the median over the processes stand the lowest and the highest.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import socket
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil
from measure import REPOSITORY, environment, geometric_mean, machine, markdown_table, print_facts, traincheck
from modes import WORKLOADS, Workload, learned
from overhead import HERE

HERE_NAME, PLAIN = "here", "plain"
FIRST = 140
"""Steps before the first turn: behind the 128th what is observed stays as it is."""
LIMIT_S = 300.0
"""Seconds that a training may take for its turn, or for what comes before."""


class Side:
    """One training that goes on while it is its turn.

    Raises:
        SystemExit: where it ends before it had its turns.
    """

    def __init__(self, words: Sequence[str | Path], cwd: Path, package: Path, seconds: float, scratch: Path) -> None:
        place = scratch / "turns"
        paths = os.pathsep.join([str(HERE / "hooks"), str(package)])
        env = environment({"BENCHMARK_TURNS": f"{place} {FIRST} {seconds}", "PYTHONPATH": paths})
        self._words = " ".join(map(str, words))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(place))
            listener.listen(1)
            listener.settimeout(LIMIT_S)
            self._log = (scratch / "output").open("wb")
            self._process = psutil.Popen([*map(str, words)], cwd=cwd, env=env, stdout=self._log, stderr=self._log)
            try:
                self._peer, _ = listener.accept()
            except TimeoutError:
                self._all("kill")
                raise SystemExit(f"benchmark: a training came to no step {FIRST}: {self._words}") from None
        self._peer.settimeout(LIMIT_S)
        self._said = self._peer.makefile()
        self._wait()

    def turn(self) -> float:
        """Seconds of a step, from some while it is its turn."""
        self._all("resume")
        self._peer.sendall(b"x")
        return self._wait()

    def end(self) -> None:
        """Kill it with all its processes."""
        self._all("kill")
        self._process.wait()
        self._peer.close()
        self._log.close()

    def _wait(self) -> float:
        line = self._said.readline().split()
        self._all("suspend")
        if not line:
            raise SystemExit(f"benchmark: a training ended before it had its turns: {self._words}")
        return float(line[1]) / int(line[0])

    def _all(self, what: str) -> None:
        """Do something to it and to all its processes, of which some may end meanwhile."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in [*self._process.children(recursive=True), self._process]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    getattr(process, what)()


def ratios_of(
    workload: Workload, packages: dict[str, Path], turns: int, repeats: int, seconds: float
) -> tuple[float, dict[str, list[float]]]:
    """Plain seconds of a step, and for each package the median ratio of each of its processes."""
    plain: list[float] = []
    found: dict[str, list[float]] = {name: [] for name in packages}
    # The steps of each workload take a second or more; a training that had its turns is ended.
    words = workload.words(FIRST + workload.steps * math.ceil((turns + 2) * seconds))
    with tempfile.TemporaryDirectory(prefix="side-") as folder:
        scratch = Path(folder).resolve()
        goldens = {}
        for name, package in packages.items():
            (scratch / name).mkdir()
            goldens[name] = learned(workload, {"PYTHONPATH": str(package)}, scratch / name)
        for repeat in range(repeats):
            names = [PLAIN, *packages][:: 1 if repeat % 2 == 0 else -1]
            with ExitStack() as stack:
                sides: dict[str, Side] = {}
                for name in names:
                    own = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=scratch)))
                    watched = [*traincheck("run", "--golden", goldens[name], "--"), *words] if name != PLAIN else words
                    package = packages.get(name, scratch)
                    sides[name] = Side(watched, workload.script.parent, package, seconds, own)
                    stack.callback(sides[name].end)
                taken: dict[str, list[float]] = {name: [] for name in names}
                for turn in range(turns + 1):
                    for name in names[:: 1 if turn % 2 == 0 else -1]:
                        took = sides[name].turn()
                        if turn:  # in the first one what was stopped comes back into the caches
                            taken[name].append(took)
            plain += taken[PLAIN]
            for name in packages:
                pairs = zip(taken[name], taken[PLAIN], strict=True)
                found[name].append(statistics.median(mine / other for mine, other in pairs))
            print(f"{workload.name}: { ({name: round(all_[-1], 4) for name, all_ in found.items()}) }", file=sys.stderr)
    return statistics.median(plain), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="NAME", help="measure this workload alone; repeatable")
    beside = "the package of another checkout too; repeatable"
    parser.add_argument("--beside", action="append", default=[], metavar="NAME=CHECKOUT", help=beside)
    parser.add_argument("--turns", type=int, default=12, help="turns of each process")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long a turn lasts")
    parser.add_argument("--repeats", type=int, default=3, help="processes of each")
    arguments = parser.parse_args()
    unknown = set(arguments.only or ()) - {workload.name for workload in WORKLOADS}
    if unknown:
        parser.error(f"no workload {', '.join(sorted(unknown))}; there are {', '.join(w.name for w in WORKLOADS)}")
    packages = {HERE_NAME: REPOSITORY}
    for item in arguments.beside:
        name, _, path = item.partition("=")
        if not (Path(path) / "pytest_traincheck").is_dir() or name in {"", PLAIN, HERE_NAME}:
            parser.error(f"--beside takes NAME=CHECKOUT with a checkout of this repository, not {item}")
        packages[name] = Path(path).resolve()
    facts, cells = machine(), []
    means: dict[str, list[float]] = {name: [] for name in packages}
    for workload in WORKLOADS:
        if arguments.only and workload.name not in arguments.only:
            continue
        plain, found = ratios_of(workload, packages, arguments.turns, arguments.repeats, arguments.seconds)
        cells.append([workload.name, f"{1000 * plain:.2f}"])
        for name, ratios in found.items():
            means[name].append(statistics.median(ratios))
            cells[-1].append(f"**{means[name][-1]:.2f}x** ({min(ratios):.2f} to {max(ratios):.2f})")
    cells.append(["geometric mean", "", *(f"{geometric_mean(ratios):.3f}x" for ratios in means.values())])
    print(markdown_table(["workload", "plain ms/step", *packages], cells))
    print_facts({**facts, "turns": f"{arguments.turns} of {arguments.seconds:g} s, {arguments.repeats} processes"})


if __name__ == "__main__":
    main()
