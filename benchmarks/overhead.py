"""Time per training step under full collection, as a ratio to the plain run.

    python benchmarks/overhead.py

Each workload runs in pairs, plain and observed one after the other, in turns, so that both see the same machine. Both
carry the same stopwatch (`hooks/sitecustomize.py`), which stamps the clock at every optimizer step; the scripts are not
touched. The time of a step is the median interval between two steps of one optimizer, the first two left out, and
averaged over the optimizers by their number of steps. The ratio is the median over the pairs. Beside it: the same from
CPU seconds, which a busy machine disturbs less, and the ratio of the whole training loop, first step to last.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import shlex
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import (
    FIXTURES,
    Measured,
    geometric_mean,
    machine,
    markdown_table,
    own_package,
    print_facts,
    run,
    traincheck,
)

HERE = Path(__file__).resolve().parent
WARM_UP = 2
BUDGET_MEAN, BUDGET_WORST = 1.15, 1.5

Stamps = list[list[tuple[float, float]]]
"""One process: optimizer by optimizer, (wall, CPU) seconds at each of its steps."""


@dataclass(frozen=True)
class Workload:
    """A training script and the folder that it runs in. `command` takes the number of steps."""

    name: str
    cwd: Path
    command: str

    def line(self, steps: int) -> str:
        return self.command.format(steps=steps)


def workloads() -> list[Workload]:
    """The fixtures and the plain scripts; the Hugging Face one only where `transformers` is installed."""
    python = shlex.quote(sys.executable)
    ranks = f"{python} -m torch.distributed.run --nproc-per-node 2"
    found = [
        Workload("mnist_cnn", FIXTURES / "mnist_cnn", python + " pipeline.py --steps {steps}"),
        Workload("tiny_gpt", FIXTURES / "tiny_gpt", python + " train.py --steps {steps}"),
        Workload("gan", FIXTURES / "gan", python + " gan.py --steps {steps}"),
        Workload("lstm", FIXTURES / "lstm", python + " main.py --steps {steps}"),
        Workload("finetune", FIXTURES / "finetune", python + " finetune.py --steps {steps}"),
        Workload("ddp", FIXTURES / "ddp", ranks + " train.py --steps {steps}"),
        *(
            Workload(name, HERE / "workloads", f"{python} {name}.py --steps {{steps}}")
            for name in ("mlp", "encoder", "resnet")
        ),
    ]
    if importlib.util.find_spec("transformers"):
        found.append(Workload("hf_gpt2", FIXTURES / "hf_gpt2", python + " train.py --steps {steps}"))
    return [workload for workload in found if any(workload.cwd.glob("*.py"))]


@dataclass(frozen=True)
class StepTime:
    """Seconds per training step of one run: by the wall clock, by CPU time, by the wall over the whole loop, and over
    its second half.
    """

    wall: float
    cpu: float
    loop: float
    later: float


def step_time(processes: Sequence[Stamps]) -> StepTime:
    """The time of a step, averaged over the processes of a run."""
    return StepTime(
        statistics.fmean(_of_intervals(stamps, 0) for stamps in processes),
        statistics.fmean(_of_intervals(stamps, 1) for stamps in processes),
        statistics.fmean(_of_loop(stamps, lambda _: WARM_UP) for stamps in processes),
        statistics.fmean(_of_loop(stamps, lambda count: count // 2) for stamps in processes),
    )


def _of_intervals(stamps: Stamps, clock: int) -> float:
    total, count = 0.0, 0
    for steps in stamps:
        times = [step[clock] for step in steps[WARM_UP:]]
        if len(times) > 1:
            total += statistics.median(b - a for a, b in itertools.pairwise(times)) * len(times)
            count += len(times)
    return total / count


def _of_loop(stamps: Stamps, left_out: Callable[[int], int]) -> float:
    walls = sorted(step[0] for steps in stamps for step in steps)
    first = left_out(len(walls))
    return (walls[-1] - walls[first]) / (len(walls) - 1 - first)


def stamped(launch: Callable[[dict[str, str]], Measured], attempts: int = 3) -> StepTime:
    """Runs a command with the stopwatch inside. A run that died while its process group was torn down is run again."""
    for _ in range(attempts):
        with tempfile.TemporaryDirectory(prefix="stamps-") as folder:
            paths = own_package()["PYTHONPATH"]
            measured = launch({"BENCHMARK_STAMPS": folder, "PYTHONPATH": f"{HERE / 'hooks'}:{paths}"})
            processes = [json.loads(path.read_text()) for path in Path(folder).glob("*.json")]
            if measured.returncode == 0 and processes:
                return step_time(processes)
    raise SystemExit(f"no stamps from: {' '.join(measured.command)}\n{measured.output[-3000:]}\nRun it by hand.")


def plain(workload: Workload, steps: int) -> StepTime:
    """One run without an observer."""
    return stamped(lambda env: run(shlex.split(workload.line(steps)), cwd=workload.cwd, env=env))


def observed(workload: Workload, steps: int, core: str = "") -> StepTime:
    """One run under `traincheck collect`, with one of the recorder's cores where it is named."""
    with tempfile.TemporaryDirectory(prefix="trace-") as folder:
        words = traincheck("collect", "--run", workload.line(steps), "--output", Path(folder) / "trace")
        chosen = {"TRAINCHECK_CORE": core} if core else {}
        return stamped(lambda env: run(words, cwd=workload.cwd, env={**env, **chosen}))


@dataclass(frozen=True)
class Overhead:
    """Medians over the pairs of one workload; `plain_ms` and `observed_ms` are wall milliseconds of a step."""

    name: str
    plain_ms: float
    observed_ms: float
    wall: float
    cpu: float
    loop: float
    spread: tuple[float, float]


def measure(workload: Workload, steps: int, repeats: int) -> Overhead:
    """All pairs of one workload. The order within a pair alternates."""
    pairs = []
    for number in range(repeats):
        if number % 2:
            second, first = observed(workload, steps), plain(workload, steps)
        else:
            first, second = plain(workload, steps), observed(workload, steps)
        pairs.append((first, second))
    ratios = [after.wall / before.wall for before, after in pairs]
    return Overhead(
        workload.name,
        1000 * statistics.median(before.wall for before, _ in pairs),
        1000 * statistics.median(after.wall for _, after in pairs),
        statistics.median(ratios),
        statistics.median(after.cpu / before.cpu for before, after in pairs),
        statistics.median(after.loop / before.loop for before, after in pairs),
        (min(ratios), max(ratios)),
    )


def report(results: Sequence[Overhead]) -> str:
    """Markdown: a row for each workload, then the geometric mean and the worst beside the budgets."""
    rows = [
        [
            each.name,
            f"{each.plain_ms:.2f}",
            f"{each.observed_ms:.2f}",
            f"**{each.wall:.2f}x**",
            f"{each.spread[0]:.2f} to {each.spread[1]:.2f}",
            f"{each.cpu:.2f}x",
            f"{each.loop:.2f}x",
        ]
        for each in results
    ]
    header = ["workload", "plain ms/step", "observed ms/step", "ratio", "lowest to highest", "CPU ratio", "loop ratio"]
    mean = geometric_mean(each.wall for each in results)
    worst = max(results, key=lambda each: each.wall)
    totals = markdown_table(
        ["full collection, time per training step", "measured", "budget", ""],
        [
            ["geometric mean", f"{mean:.2f}x", f"<= {BUDGET_MEAN}x", "kept" if mean <= BUDGET_MEAN else "missed"],
            [
                f"worst ({worst.name})",
                f"{worst.wall:.2f}x",
                f"<= {BUDGET_WORST}x",
                "kept" if worst.wall <= BUDGET_WORST else "missed",
            ],
        ],
    )
    return f"{markdown_table(header, rows)}\n\n{totals}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5, help="pairs of runs for each workload")
    parser.add_argument("--only", action="append", metavar="NAME", help="measure this workload alone; repeatable")
    arguments = parser.parse_args()
    every = workloads()
    unknown = set(arguments.only or ()) - {workload.name for workload in every}
    if unknown:
        parser.error(f"no workload {', '.join(sorted(unknown))}; there are {', '.join(w.name for w in every)}")
    facts = machine()
    results = []
    for workload in every:
        if not arguments.only or workload.name in arguments.only:
            results.append(measure(workload, arguments.steps, arguments.repeats))
            print(f"{workload.name}: {results[-1].wall:.2f}x", file=sys.stderr)
    print(report(results))
    print_facts({**facts, "steps": str(arguments.steps), "pairs": str(arguments.repeats)})


if __name__ == "__main__":
    main()
