"""Runs a command and says what it cost: the one stopwatch of all benchmarks, and the machine facts beside it."""

from __future__ import annotations

import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
FIXTURES = REPOSITORY / "fixtures"


@dataclass(frozen=True)
class Measured:
    """One finished command. `wall` and `cpu` are seconds; `cpu` includes the children that it waited for. `memory` is
    the most that the command itself held at once, in bytes, or what this process holds, if that is more.
    """

    command: tuple[str, ...]
    returncode: int
    wall: float
    cpu: float
    output: str
    memory: int = 0

    def checked(self, allowed: Sequence[int] = (0,)) -> Measured:
        """Itself.

        Raises:
            SystemExit: if the command ended with a status that is not in `allowed`.
        """
        if self.returncode not in allowed:
            raise SystemExit(
                f"benchmark: a command ended with status {self.returncode}: {' '.join(self.command)}\n"
                f"{self.output[-4000:]}\nRun it by hand to see more; no numbers are printed for a broken run."
            )
        return self


def run(
    command: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 1200.0
) -> Measured:
    """Run `command` to its end and measure it; it is killed with its children after `timeout` seconds."""
    words = tuple(str(word) for word in command)
    with tempfile.TemporaryFile() as output:
        begin = time.perf_counter()
        process = subprocess.Popen(
            words, cwd=cwd, env=environment(env), stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        returncode, cpu, memory = _wait(process.pid, begin + timeout)
        wall = time.perf_counter() - begin
        process.returncode = returncode  # reaped by wait4, which Popen cannot know
        output.seek(0)
        return Measured(words, returncode, wall, cpu, output.read().decode(errors="replace"), memory)


def _wait(pid: int, deadline: float) -> tuple[int, float, int]:
    """The exit status, CPU seconds and peak memory of a child, by `wait4`, which knows what one child alone took."""
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
        if time.perf_counter() > deadline:
            os.killpg(pid, signal.SIGKILL)
            os.wait4(pid, 0)
            raise SystemExit(f"benchmark: process {pid} ran past its limit; raise --timeout or use fewer steps")
        time.sleep(0.005)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of every measured command: one thread, this interpreter first, nothing of ours from outside."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TRAINCHECK_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {**inherited, "PATH": path, "OMP_NUM_THREADS": "1", **(extra or {})}


def traincheck(*words: str | Path) -> tuple[str | Path, ...]:
    """The command line of this repository's `traincheck`, whether or not it is installed."""
    return (sys.executable, "-m", "pytest_traincheck", *words)


def own_package() -> dict[str, str]:
    """Environment that makes the package of this repository importable in a measured command."""
    path = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    return {"PYTHONPATH": os.pathsep.join(path)}


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive ratios."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def machine(python: str | Path = sys.executable) -> dict[str, str]:
    """Facts about the machine that a reader needs beside a table of times."""
    versions = subprocess.run(
        [str(python), "-c", "import platform, torch; print(platform.python_version(), torch.__version__)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        "load at the start": f"{os.getloadavg()[0]:.2f}",
        "python": versions[0],
        "torch": versions[1],
        "threads": "OMP_NUM_THREADS=1",
    }


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A GitHub-flavoured table."""
    lines = [header, ["---"] * len(header), *([str(cell).replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def print_facts(facts: Mapping[str, str]) -> None:
    """The machine facts as one line under the table."""
    print("\n" + ", ".join(f"{name} {value}" for name, value in facts.items()))
