"""What the parts of a check cost: runs, a whole pytest, inference, checking, trace size.

    python benchmarks/timing.py

The first table is `mnist_cnn` as the fixtures configure it: commands as a user types them, in turns with the plain run,
and inference and checking in one process, so that they do not hold the start of an interpreter. Its traces are a few
hundred events, of which the fixed costs are nearly everything; so the second table takes inference and checking to long
traces of `workloads/mlp.py`, and the marginal seconds per million events between the two longest.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import (
    FIXTURES,
    REPOSITORY,
    machine,
    markdown_table,
    own_package,
    print_facts,
    run,
    traincheck,
)

sys.path.insert(0, str(REPOSITORY))

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn
from pytest_traincheck.trace import load_run

PIPELINE = "mnist_cnn"
WORKLOADS = Path(__file__).resolve().parent / "workloads"
SEEDS = (0, 1, 2)
CONFIGURATION = """\
[pipelines.{name}]
run = "python pipeline.py --steps {steps}"
seed_arg = "--seed {{seed}}"
seeds = [0, 1, 2]
"""


def script(steps: int, seed: int) -> str:
    return f"{shlex.quote(sys.executable)} pipeline.py --steps {steps} --seed {seed}"


def collect(tree: Path, command: str, trace: Path) -> float:
    """Wall seconds of one `traincheck collect`."""
    words = traincheck("collect", "--run", command, "--output", trace)
    return run(words, cwd=tree, env=own_package()).checked().wall


def events_and_bytes(trace: Path) -> tuple[int, int]:
    """Events of a run directory and the bytes of what its processes wrote."""
    size = sum(path.stat().st_size for path in trace.glob("proc-*/*"))
    return load_run(trace).events, size


def median_seconds(work: Callable[[], object], repeats: int) -> float:
    """The median CPU time of a call in this process, which other load disturbs less; a first call warms up."""
    work()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return statistics.median(times)


def learned(folders: Sequence[Path]) -> Golden:
    """What `traincheck infer` learns from these runs, reading included."""
    runs = [load_run(folder) for folder in folders]
    return learn(runs, pipeline=PIPELINE, seeds=tuple(range(len(runs))))


@dataclass(frozen=True)
class EngineTimes:
    """Medians of reading and learning from the golden runs, and of reading and checking one run."""

    rules: int
    golden_events: int
    infer_s: float
    events: int
    size: int
    check_s: float


def engine_times(golden: Sequence[Path], candidate: Path, repeats: int) -> EngineTimes:
    """Inference from `golden` and a check of `candidate`, in this process."""
    rules = learned(golden)
    events, size = events_and_bytes(candidate)
    return EngineTimes(
        len(rules.invariants),
        sum(events_and_bytes(trace)[0] for trace in golden),
        median_seconds(lambda: learned(golden), repeats),
        events,
        size,
        median_seconds(lambda: check_run(rules, load_run(candidate), same_spec=True), repeats),
    )


def pipeline_rows(tree: Path, scratch: Path, steps: int, repeats: int) -> list[list[object]]:
    """The fixture's own inference, check and trace."""
    traces = [scratch / f"seed-{seed}" for seed in (*SEEDS, 3)]
    for seed, trace in zip((*SEEDS, 3), traces, strict=True):
        collect(tree, script(steps, seed), trace)
    times = engine_times(traces[:-1], traces[-1], repeats)
    return [
        [
            f"infer {times.rules} rules from three runs ({times.golden_events:,} events), CPU s",
            f"{times.infer_s:.3f}",
            "",
        ],
        [f"check one run ({times.events:,} events), CPU s", f"{times.check_s:.3f}", ""],
        ["trace, bytes an event, names included", f"{times.size / times.events:.0f}", "<= 64"],
    ]


def scaling_rows(scratch: Path, lengths: Sequence[int], repeats: int) -> Iterator[list[object]]:
    """Inference and checking on traces of growing length, and the marginal cost between the two longest."""
    measured = []
    for steps in lengths:
        traces = [scratch / f"mlp-{steps}-{seed}" for seed in range(3)]
        for seed, trace in enumerate(traces):
            collect(WORKLOADS, f"{shlex.quote(sys.executable)} mlp.py --steps {steps} --seed {seed}", trace)
        times = engine_times(traces[:-1], traces[-1], repeats)
        measured.append(times)
        yield [
            f"{steps} steps",
            f"{times.golden_events:,}",
            f"{times.infer_s:.3f}",
            per_million(times.infer_s, times.golden_events),
            f"{times.events:,}",
            f"{times.check_s:.3f}",
            per_million(times.check_s, times.events),
            f"{times.size / times.events:.1f}",
        ]
    short, long = measured[-2:]
    yield [
        "**marginal**",
        "",
        "",
        f"**{per_million(long.infer_s - short.infer_s, long.golden_events - short.golden_events)}**",
        "",
        "",
        f"**{per_million(long.check_s - short.check_s, long.events - short.events)}**",
        f"{(long.size - short.size) / (long.events - short.events):.1f}",
    ]
    yield ["budget", "", "", "<= 2", "", "", "<= 1", "<= 64"]


def per_million(seconds: float, events: int) -> str:
    return f"{seconds / events * 1e6:.2f}"


def command_rows(tree: Path, scratch: Path, steps: int, repeats: int) -> list[list[object]]:
    """Plain run, collection and a whole `pytest --traincheck` with a stored golden, in turns."""
    project = scratch / "project"
    shutil.copytree(tree, project)
    (project / "traincheck.toml").write_text(CONFIGURATION.format(name=PIPELINE, steps=steps))
    run(traincheck("refresh"), cwd=project, env=own_package()).checked()
    plain, collected, tested = [], [], []
    for number in range(repeats):
        plain.append(run(shlex.split(script(steps, 0)), cwd=tree).checked().wall)
        collected.append(collect(tree, script(steps, 0), scratch / f"collected-{number}"))
        tested.append(run(pytest_command(), cwd=project, env=own_package()).checked().wall)
    alone, observed, whole = (statistics.median(times) for times in (plain, collected, tested))
    allowed = alone * 1.15 + 2.0
    return [
        ["plain run, s", f"{alone:.2f}", ""],
        ["`traincheck collect`, s", f"{observed:.2f}", ""],
        ["`pytest --traincheck` with a stored golden, s", f"{whole:.2f}", f"<= {allowed:.2f} (plain + 2 s + 15 %)"],
    ]


def pytest_command() -> list[str]:
    """`pytest --traincheck`; the plugin is named only where it is not installed, since twice is an error."""
    words = [sys.executable, "-m", "pytest", "--traincheck", "-q", "-p", "no:cacheprovider"]
    installed = importlib.metadata.entry_points(group="pytest11")
    if not any(entry.value == "pytest_traincheck.plugin" for entry in installed):
        words += ["-p", "pytest_traincheck.plugin"]
    return words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--long", default="20,200,2000", help="steps of the longer traces (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    lengths = [int(part) for part in arguments.long.split(",")]
    if len(lengths) < 2:
        parser.error("--long needs two lengths at least, for the marginal cost between them")
    facts = machine()
    with tempfile.TemporaryDirectory(prefix="timing-") as folder:
        scratch = Path(folder).resolve()
        tree = scratch / PIPELINE
        shutil.copytree(FIXTURES / PIPELINE, tree, ignore=shutil.ignore_patterns("__pycache__"))
        rows = command_rows(tree, scratch, arguments.steps, arguments.repeats)
        rows += pipeline_rows(tree, scratch, arguments.steps, arguments.repeats)
        scaling = list(scaling_rows(scratch, lengths, arguments.repeats))
    print(f"### `{PIPELINE}`, {arguments.steps} steps\n\n{markdown_table(['what', 'measured', 'budget'], rows)}\n")
    header = [
        "trace",
        "golden events",
        "infer s",
        "infer s/million",
        "events",
        "check s",
        "check s/million",
        "bytes/event",
    ]
    print(f"### Traces of growing length\n\n{markdown_table(header, scaling)}")
    print_facts({**facts, "medians of": str(arguments.repeats)})


if __name__ == "__main__":
    main()
