"""Time per training step in each mode of observation, as a ratio to the plain run, beside TrainCheck 0.2.0.

    python benchmarks/modes.py --peer DIR/bin/python     # an environment that `peer.py --make DIR` made

Ten workloads of the kinds that TrainCheck's own benchmark has, half a millisecond to some hundred milliseconds a step,
each a plain script of `workloads/`; with `--device cuda` they train on a GPU, and one more of a GPU's size does. A turn
runs each mode once: without an observer; `collect`, which observes every step; `run --golden`, in check mode, which
checks every step by every rule while the training goes on; `run --every 10`; and `run --every auto`. With `--peer`,
turns of the other system follow: without an observer, `traincheck-collect` as it comes, and with the invariants that it
inferred from ten steps (`--invariants`), on every step and on every tenth (`--sampling-interval`).

The time of a step is that of the second half of a run: wall seconds over optimizer steps, so that sampled steps count
as often as they come and the first steps, which are always observed, do not. Ratios are medians over the turns.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from measure import geometric_mean, machine, markdown_table, own_package, print_facts, run, traincheck
from overhead import HERE, stamped

PLAIN = "plain"
OURS = ("full", "watched", "every 10th", "auto")
PEERS = ("peer full", "peer selective", "peer every 10th")
BUDGETS = {"full": (1.15, 1.5), "watched": (1.05, 1.2), "every 10th": (1.02, None)}
"""The geometric mean and the worst that each mode may cost; `watched` is check mode."""
GOLDEN_STEPS, PEER_REFERENCE_STEPS, PEER_STEPS = 12, 10, 60


@dataclass(frozen=True)
class Workload:
    """A script of `workloads/`, the steps of a measured run, and the names of its models, which the peer asks for."""

    name: str
    steps: int
    models: tuple[str, ...] = ("model",)
    device: str = "cpu"

    @property
    def script(self) -> Path:
        return HERE / "workloads" / f"{self.name}.py"

    def words(self, steps: int, python: str | Path = sys.executable) -> list[str]:
        words = [str(python), self.script.name, "--steps", str(steps)]
        # Not said where it is the scripts' own: the peer's runs are those that were measured before.
        return words if self.device == "cpu" else [*words, "--device", self.device]

    def line(self, steps: int) -> str:
        return shlex.join(["python", *self.words(steps)[1:]])


WORKLOADS = (
    Workload("regression", 3000),
    Workload("gcn", 1500),
    Workload("adversarial", 1000, ("generator", "discriminator")),
    Workload("mlp", 600),
    Workload("autoencoder", 600),
    Workload("siamese", 600),
    Workload("language", 480),
    Workload("resnet", 480),
    Workload("encoder", 280),
    Workload("vision", 60),
)
ON_GPUS = (Workload("gpt", 200),)
"""What would take too long on a CPU."""


def learned(workload: Workload, env: Mapping[str, str], scratch: Path) -> Path:
    """A golden of a workload, learned from two seeds by the package that `env` makes importable."""
    golden, traces = scratch / "golden.jsonl", [scratch / f"golden-{seed}" for seed in (0, 1)]
    line = workload.line(GOLDEN_STEPS)
    for seed, trace in enumerate(traces):
        words = traincheck("collect", "--run", line, "--seed", str(seed), "--output", trace)
        run(words, cwd=workload.script.parent, env=env).checked()
    run(traincheck("infer", *traces, "--output", golden), cwd=scratch, env=env).checked()
    return golden


class Ours:
    """The modes of this package on one workload. The golden is learned once, from two seeds, in `scratch`."""

    modes = (PLAIN, *OURS)

    def __init__(self, workload: Workload, steps: int, scratch: Path) -> None:
        self.workload, self.steps, self.scratch = workload, steps, scratch
        self.golden = learned(workload, own_package(), scratch)

    def command(self, mode: str) -> Sequence[str | Path]:
        plain = self.workload.words(self.steps)
        if mode == PLAIN:
            return plain
        if mode == "full":
            trace = self.scratch / "trace"
            shutil.rmtree(trace, ignore_errors=True)
            return traincheck("collect", "--run", self.workload.line(self.steps), "--output", trace)
        every = {"watched": "1", "every 10th": "10", "auto": "auto"}[mode]
        return traincheck("run", "--golden", self.golden, "--every", every, "--", *plain)

    def step(self, mode: str) -> float:
        """Seconds of a step in one run."""
        words, cwd = self.command(mode), self.workload.script.parent
        return stamped(lambda env: run(words, cwd=cwd, env=env), attempts=1).later


class Peer:
    """The modes of TrainCheck 0.2.0 on one workload, used as its README says; see `peer.py`."""

    modes = (PLAIN, *PEERS)

    def __init__(self, python: Path, workload: Workload, steps: int, scratch: Path, limit: float) -> None:
        self.python, self.workload, self.steps = python, workload, min(steps, PEER_STEPS)
        self.scratch, self.limit = scratch, limit
        shutil.copy(workload.script, scratch)
        self.invariants = scratch / "invariants.json"
        self.failure = ""
        reference = scratch / "reference"
        try:
            run(self._collect(reference, PEER_REFERENCE_STEPS), cwd=scratch, timeout=limit).checked()
            infer = [self._tool("infer"), "-f", reference, "-o", self.invariants]
            run(infer, cwd=scratch, timeout=limit).checked()
        except SystemExit as error:
            self.failure = str(error)

    def _tool(self, name: str) -> Path:
        return self.python.parent / f"traincheck-{name}"

    def _collect(self, trace: Path, steps: int, *more: str | Path) -> list[str | Path]:
        shell = self.scratch / f"run_{steps}.sh"
        # Its runner sets PYTHONPATH anew, so the stopwatch is put back here.
        hooks = f'export PYTHONPATH="{HERE / "hooks"}:$PYTHONPATH"'
        shell.write_text(f"set -e\n{hooks}\n{self.python} -u {self.workload.script.name} --steps {steps}\n")
        shutil.rmtree(trace, ignore_errors=True)
        words: list[str | Path] = [self._tool("collect"), "--pyscript", self.workload.script.name]
        words += ["--shscript", shell.name, "--models-to-track", *self.workload.models, "--output-dir", trace]
        return [*words, *more]

    def step(self, mode: str) -> float:
        """Seconds of a step in one run.

        Raises:
            SystemExit: if the run failed or went past its limit, or there are no invariants to select by.
        """
        if mode in PEERS[1:] and not self.invariants.exists():
            raise SystemExit(self.failure)
        words: list[str | Path] = [*self.workload.words(self.steps, self.python)]
        if mode != PLAIN:
            interval = "10" if mode == "peer every 10th" else "1"
            selected = ["--invariants", self.invariants, "--sampling-interval", interval]
            more = selected if mode != "peer full" else []
            words = self._collect(self.scratch / "trace", self.steps, *more)
        return stamped(lambda env: run(words, cwd=self.scratch, env=env, timeout=self.limit), attempts=1).later


@dataclass(frozen=True)
class Cost:
    """One mode of one workload over the turns: the ratio to the plain run, median, lowest and highest."""

    ratio: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        return f"**{self.ratio:.2f}x** ({self.lowest:.2f} to {self.highest:.2f})"


def turns(system: Ours | Peer, repeats: int, wanted: Sequence[str] = ()) -> tuple[float, dict[str, Cost | None]]:
    """Plain seconds of a step, and the cost of each mode that is wanted (none: of all); None for one that failed, which
    stderr tells.
    """
    modes = [mode for mode in system.modes if mode == PLAIN or not wanted or mode in wanted]
    seconds: dict[str, list[float]] = {mode: [] for mode in modes}
    failed: set[str] = set()
    for turn in range(repeats):
        for mode in modes[:: 1 if turn % 2 == 0 else -1]:
            if mode in failed:
                continue
            try:
                seconds[mode].append(system.step(mode))
            except SystemExit as error:
                failed.add(mode)
                print(f"{system.workload.name}, {mode}: {str(error)[-1500:]}", file=sys.stderr)
    plain = seconds.pop(PLAIN)
    costs: dict[str, Cost | None] = {}
    for mode, found in seconds.items():
        ratios = [mine / other for mine, other in zip(found, plain, strict=False)]
        costs[mode] = None if mode in failed else Cost(statistics.median(ratios), min(ratios), max(ratios))
    return statistics.median(plain), costs


def rows_of(
    systems: Mapping[str, Callable[[Workload, Path], Ours | Peer]],
    chosen: Sequence[Workload],
    repeats: int,
    wanted: Sequence[str],
) -> Iterator[tuple[Workload, str, float, dict[str, Cost | None]]]:
    """Workload by workload, system by system."""
    for workload in chosen:
        for name, system_of in systems.items():
            with tempfile.TemporaryDirectory(prefix="modes-") as folder:
                plain, costs = turns(system_of(workload, Path(folder).resolve()), repeats, wanted)
            print(f"{workload.name}, {name}: { ({mode: str(cost) for mode, cost in costs.items()}) }", file=sys.stderr)
            yield workload, name, plain, costs


def report(rows: Sequence[tuple[Workload, str, float, dict[str, Cost | None]]]) -> str:
    """Markdown: a table for each system, then the means and the worst beside the budgets."""
    parts = []
    for system in dict.fromkeys(name for _, name, _, _ in rows):
        mine = [row for row in rows if row[1] == system]
        modes = list(mine[0][3])
        cells = [
            [workload.name, f"{1000 * plain:.2f}", *(str(costs[mode] or "failed") for mode in modes)]
            for workload, _, plain, costs in mine
        ]
        for label, of in (("geometric mean", geometric_mean), ("worst", max)):
            found = {mode: [cost.ratio for *_, costs in mine if (cost := costs[mode])] for mode in modes}
            cells.append([label, "", *(f"{of(found[mode]):.2f}x" if found[mode] else "" for mode in modes)])
        if BUDGETS.keys() & modes:
            for label, which in (("budget, mean", 0), ("budget, worst", 1)):
                budgets = [BUDGETS.get(mode, (None, None))[which] for mode in modes]
                cells.append([label, "", *(f"<= {budget}x" if budget else "" for budget in budgets)])
        parts.append(f"### {system}\n\n{markdown_table(['workload', 'plain ms/step', *modes], cells)}")
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="turns for each workload")
    parser.add_argument("--only", action="append", metavar="NAME", help="measure this workload alone; repeatable")
    parser.add_argument("--mode", action="append", choices=[*OURS, *PEERS], help="measure this alone; repeatable")
    parser.add_argument("--steps", type=int, help="steps of every run, instead of each workload's own")
    parser.add_argument("--device", default="cpu", help="where the workloads train, as torch names it: cuda")
    parser.add_argument("--peer", type=Path, metavar="PYTHON", help="an interpreter that has TrainCheck 0.2.0")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one run of the peer")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the ratios to FILE")
    arguments = parser.parse_args()
    every = WORKLOADS if arguments.device == "cpu" else (*WORKLOADS, *ON_GPUS)
    unknown = set(arguments.only or ()) - {workload.name for workload in every}
    if unknown:
        parser.error(f"no workload {', '.join(sorted(unknown))}; there are {', '.join(w.name for w in every)}")
    chosen = [
        replace(workload, device=arguments.device)
        for workload in every
        if not arguments.only or workload.name in arguments.only
    ]
    systems: dict[str, Callable[[Workload, Path], Ours | Peer]] = {
        "pytest-traincheck": lambda workload, scratch: Ours(workload, arguments.steps or workload.steps, scratch)
    }
    if arguments.peer:
        python = arguments.peer.absolute()
        systems["TrainCheck 0.2.0"] = lambda workload, scratch: Peer(
            python, workload, arguments.steps or workload.steps, scratch, arguments.limit
        )
    facts = machine()
    rows = list(rows_of(systems, chosen, arguments.repeats, arguments.mode or ()))
    print(report(rows))
    print_facts({**facts, "turns": str(arguments.repeats)})
    if arguments.json:
        found = [
            {"workload": workload.name, "system": system, "plain_s": plain}
            | {mode: None if cost is None else [cost.ratio, cost.lowest, cost.highest] for mode, cost in costs.items()}
            for workload, system, plain, costs in rows
        ]
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
