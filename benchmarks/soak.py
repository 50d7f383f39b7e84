"""Twenty thousand steps under `traincheck run`: how much memory the training and the checker hold as it goes on, and
whether what goes wrong late is named in time.

    python benchmarks/soak.py

A golden of eight steps is learned; then the script trains for `--steps`, resumes half way, and is checked while it goes
on: once as it is right, and once for each mistake. Memory is that of each process of its own (`RssAnon` of /proc),
looked at twice a second; what is told is its median in the first and in the last quarter of the time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from measure import environment, machine, markdown_table, print_facts, traincheck

HERE = Path(__file__).resolve().parent
MISTAKES = {
    "nothing": {},
    "the optimizer's state is not restored at the resume": {"WRONG": "resume"},
    "nothing, and another process goes on at the resume": {"RESUME_IN": "process"},
    "the optimizer's state is not restored by the process that goes on": {"WRONG": "resume", "RESUME_IN": "process"},
    "`zero_grad` is left out of one step": {"WRONG": "zero_grad"},
    "frozen weights are written to": {"WRONG": "frozen"},
    "the model stays in eval mode": {"WRONG": "eval"},
}


@dataclass
class Soaked:
    """One training. Memory in MiB, by process: what is said of it, and its samples."""

    status: int
    seconds: float
    incidents: list[dict[str, object]]
    memory: dict[str, list[float]] = field(default_factory=dict)


def soak(project: Path, steps: int, variables: dict[str, str]) -> Soaked:
    """Train once under `traincheck run`."""
    out = project / "out.json"
    command = [*traincheck(), "run", "soak", "--json", str(out), "--", sys.executable, "soak.py"]
    begin = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--steps", str(steps), "--seed", "0"],
        cwd=project, env={**environment(None), **variables}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    memory: dict[str, list[float]] = {"training": [], "checker": []}
    while process.poll() is None:
        for name, pid in (("checker", process.pid), ("training", _training(process.pid))):
            if pid and (held := _anonymous(pid)):
                memory[name].append(held)
        time.sleep(0.5)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    return Soaked(process.returncode, time.perf_counter() - begin, lines[:-1], memory)


def _training(parent: int) -> int:
    """The process below that has the most memory: the others start it and wait for it."""
    below: set[int] = {parent}
    found: dict[int, float] = {}
    parents = {int(path.name): _parent(path) for path in Path("/proc").iterdir() if path.name.isdecimal()}
    while new := {pid for pid, above in parents.items() if above in below} - below:
        below |= new
    for pid in below - {parent}:
        found[pid] = _anonymous(pid)
    return max(found, key=lambda pid: found[pid], default=0)


def _parent(path: Path) -> int:
    try:
        return int((path / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _anonymous(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon")), 0.0)


def _quarters(samples: list[float]) -> str:
    quarter = max(len(samples) // 4, 1)
    first, last = (statistics.median(part) for part in (samples[quarter : 2 * quarter] or samples, samples[-quarter:]))
    return f"{first:.0f} to {last:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--only", default="", help="a part of the name of a row")
    arguments = parser.parse_args()
    resume_at, wrong_at = arguments.steps // 2, arguments.steps * 3 // 4
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory)
        (project / "soak.py").write_text((HERE / "workloads" / "soak.py").read_text())
        (project / "traincheck.toml").write_text(
            f'python = "{sys.executable}"\n[pipelines.soak]\nrun = "{sys.executable} soak.py --steps 8"\n'
            'seed_arg = "--seed {seed}"\n'
        )
        subprocess.run([*traincheck(), "refresh", "soak"], cwd=project, env=environment(None), check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        for what, wrong in MISTAKES.items():
            if arguments.only not in what:
                continue
            planned = {"RESUME_AT": str(resume_at), "WRONG_AT": str(wrong_at), **wrong}
            found = soak(project, arguments.steps, planned)
            told = [f"step {item['step']}: {item['title']}" for item in found.incidents]
            rows.append([
                what, str(found.status), "; ".join(told) or "nothing", f"{found.seconds:.0f}",
                _quarters(found.memory["training"]), _quarters(found.memory["checker"]),
            ])  # fmt: skip
    print_facts(machine())
    print(f"\nResumed at step {resume_at}, wrong at step {wrong_at} of {arguments.steps}.\n")
    header = ["what goes wrong", "exit status", "told while it went on", "s", "training, MiB", "checker, MiB"]
    print(markdown_table(header, rows))
    sys.exit(any(row[1] != ("0" if row[0].startswith("nothing") else "1") for row in rows))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
