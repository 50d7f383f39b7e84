"""Where the time of observing goes in the steady state: microseconds of a training step, by part of the probe.

    python benchmarks/steady.py

Each workload of `modes.py` is run without the probe, with it, and with all left out that check mode may leave out, in
turns, each in a process of its own; the CPU time of a step is that behind the first `--begin` steps, when measures and
sketches are over and training is no longer followed, and the least of the turns, which other work on the machine
disturbs least. One more run is profiled by `cProfile`. Its functions, and the built-in ones that they call, are summed
up by part; a profile makes calls of Python's dearer than they are, so that these numbers are scaled to what observing
costs without it.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import runpy
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from measure import environment, machine, markdown_table, own_package, print_facts

HERE = Path(__file__).resolve().parent
PLAIN, FULL, CHECK, PROFILED = "plain", "full", "check mode", "profiled"
SHOWN = ("regression", "gcn", "adversarial", "mlp", "siamese", "autoencoder")
PARTS = {
    "walks": "looks at tensors", "variables": "looks at tensors", "variable": "looks at tensors",
    "backwards": "looks at tensors", "digest": "norms and hashes in Python", "modules": "names",
    "optimizer": "steps of optimizers", "optimizers": "steps of optimizers", "module_calls": "calls of models",
    "context": "keeping apart", "base": "other calls", "recorder": "other calls", "autograd": "other calls",
}  # fmt: skip
"""What the files of the probe are about; all others are `rest`."""
NATIVE = "calls, compiled"


def one_run(name: str, mode: str, begin: int, end: int) -> None:
    """Run a workload in this process until step `end`, and print what a step took behind step `begin`."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    if mode != PLAIN:
        from pytest_traincheck.looks import EVERYTHING, NOTHING
        from pytest_traincheck.probe import install

        looks = EVERYTHING if mode == CHECK else NOTHING
        install.start(Path(tempfile.mkdtemp(dir=os.environ["STEADY"])), "0", not_needed=looks)
    profile, steps, since = cProfile.Profile(), Counter[int](), 0.0

    def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG001 - the signature is PyTorch's
        nonlocal since
        steps[id(optimizer)] += 1
        if id(optimizer) != next(iter(steps)):
            return
        if steps[id(optimizer)] == begin:
            since = time.process_time()
            if mode == PROFILED:
                profile.enable()
        elif steps[id(optimizer)] == end:
            profile.disable()
            each = 1e6 / (end - begin)
            spent = each * (time.process_time() - since)
            print("\nsteady:", json.dumps([spent, parts_of(profile, each)]), flush=True)
            os._exit(0)

    register_optimizer_step_post_hook(stepped)  # type: ignore[no-untyped-call]
    sys.argv = [f"{name}.py", "--steps", str(end + 1)]
    runpy.run_path(str(HERE / "workloads" / f"{name}.py"), run_name="__main__")


def parts_of(profile: cProfile.Profile, each: float) -> dict[str, float]:
    """Microseconds of a step in each part of the probe; nothing where nothing was profiled."""
    profile.create_stats()
    if not profile.stats:  # type: ignore[attr-defined]
        return {}
    found: Counter[str] = Counter()
    for (file, _, name), (_, _, own, _, callers) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if "probe" in Path(file).parts:
            found[PARTS.get(Path(file).stem, "rest")] += own * each
        elif file == "~" and name in ("<built-in method enter>", "<built-in method leave>"):
            found[NATIVE] += own * each
        elif file == "~":
            for (caller, *_), (_, _, within, _) in callers.items():
                if "probe" in Path(caller).parts:
                    found[PARTS.get(Path(caller).stem, "rest")] += within * each
    return dict(found)


def measured(name: str, mode: str, begin: int, end: int, folder: str) -> tuple[float, dict[str, float]]:
    """CPU microseconds of a step, and by part, of one run in a process of its own."""
    words = [sys.executable, __file__, "--one", name, mode, "--begin", str(begin), "--steps", str(end - begin)]
    env = environment({**own_package(), "STEADY": folder})
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("steady: ")]
    if not lines:
        raise SystemExit(f"{name}, {mode}: no time was told\n{done.stderr[-2000:]}")
    cpu, parts = json.loads(lines[-1].removeprefix("steady: "))
    return cpu, parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--begin", type=int, default=150, help="steps that are left out")
    parser.add_argument("--steps", type=int, default=200, help="steps that are measured")
    parser.add_argument("--repeats", type=int, default=3, help="turns for each workload")
    parser.add_argument("--only", action="append", metavar="NAME", help="measure this workload alone; repeatable")
    parser.add_argument("--one", nargs=2, metavar=("NAME", "MODE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    begin, end = arguments.begin, arguments.begin + arguments.steps
    if arguments.one:
        one_run(*arguments.one, begin, end)
        return
    facts, times, columns = machine(), [], {}
    names = arguments.only or SHOWN
    for name in names:
        with tempfile.TemporaryDirectory(prefix="steady-") as folder:
            best: dict[str, float] = {}
            for _ in range(arguments.repeats):
                for mode in (PLAIN, FULL, CHECK):
                    cpu, _ = measured(name, mode, begin, end, folder)
                    best[mode] = min(cpu, best.get(mode, cpu))
            parts = measured(name, PROFILED, begin, end, folder)[1]
        plain, full, check = (best[mode] for mode in (PLAIN, FULL, CHECK))
        times.append(
            [name, *(f"{value:.0f}" for value in (plain, full, check)), f"{full / plain:.2f}x", f"{check / plain:.2f}x"]
        )
        scale = max(full - plain, 0.0) / sum(parts.values())
        columns[name] = {part: value * scale for part, value in parts.items()}
    print(markdown_table(["workload", PLAIN, FULL, CHECK, "full", "check mode"], times))
    rows = list(dict.fromkeys([NATIVE, *PARTS.values(), "rest"]))
    print()
    cells = [[part, *(f"{columns[name].get(part, 0):.0f}" for name in names)] for part in rows]
    print(markdown_table(["microseconds of a step", *names], cells))
    print_facts({**facts, "turns": str(arguments.repeats)})


if __name__ == "__main__":
    main()
