"""The three moments of a week, lived through from an empty repository: makes a table of what each step takes.

    python benchmarks/moments.py
    python benchmarks/moments.py --jobs 2 --rounds 3 --package ../earlier --package .

A virtual environment gets this package by `pip install`, and torch and the rest from the interpreter that runs this.
What follows are the commands of the README and the guides, in a repository that begins empty and ends with a merged
refresh. With several packages (directories with this package, as it was at some time) each round lives a week with
each of them in turn, and the table has medians. The exit status is 1 when a step did not end as it should.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from measure import REPOSITORY, machine, markdown_table, print_facts, run

TRAIN = """\
import argparse

import tinyloss
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
torch.manual_seed(args.seed)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(args.steps):
    inputs = torch.randn(16, 8)
    labels = inputs.argmax(dim=1) % 4
    optimizer.zero_grad()
    loss = tinyloss.of(model(inputs), labels)
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.6f}")
"""

CONFIGURATION = """\
[tool.traincheck.pipelines.my_model]
run = "python train.py --steps 6"
seed_arg = "--seed {{seed}}"
seeds = {seeds}
timeout = 300
{more}"""

LIBRARY = """\
import torch.nn.functional as F


def of(logits, labels):
    return F.cross_entropy(logits, labels{argument})
"""

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "tinyloss"
version = "{version}"
"""


@dataclass(frozen=True)
class Moment:
    """One step: what was typed, how it had to end and did, how long it took, and what it printed."""

    name: str
    command: str
    expected: int
    status: int
    wall: float
    cpu: float
    output: str

    @property
    def as_expected(self) -> bool:
        return self.status == self.expected


@dataclass
class Week:
    """A directory with a virtual environment and a repository, and what happened in them."""

    directory: Path
    package: Path = REPOSITORY
    jobs: int = 1
    moments: list[Moment] = field(default_factory=list)

    @property
    def repository(self) -> Path:
        return self.directory / "repository"

    @property
    def bin(self) -> Path:
        return self.directory / "venv" / "bin"

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.pathsep.join([str(self.bin), os.environ.get("PATH", os.defpath)]),
            "PYTHONPATH": "",
            "COLUMNS": "80",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GITHUB_ACTIONS": "",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.directory / "wheels"),
            "TRAINCHECK_CACHE_DIR": str(self.directory / "cache"),
        }

    def step(self, name: str, command: Sequence[str | Path], expected: int = 0) -> Moment:
        """Type a command in the repository."""
        done = run(command, cwd=self.repository, env=self.environment(), timeout=600)
        text = " ".join(Path(word).name if str(word).startswith("/") else str(word) for word in command)
        moment = Moment(name, text, expected, done.returncode, done.wall, done.cpu, done.output)
        self.moments.append(moment)
        return moment

    def git(self, *words: str) -> str:
        names = ("-c", "user.name=A. Person", "-c", "user.email=person@example.invalid", "-c", "commit.gpgsign=false")
        command = ["git", *names, *words]
        env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
        return subprocess.run(command, cwd=self.repository, check=True, capture_output=True, text=True, env=env).stdout

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def change(self, old: str, new: str) -> None:
        script = self.repository / "train.py"
        text = script.read_text(encoding="utf-8")
        if old not in text:
            raise SystemExit(f"the script has no {old!r}")
        script.write_text(text.replace(old, new), encoding="utf-8")


def live(directory: Path, seeds: Sequence[int] = (0, 1, 2), *, package: Path = REPOSITORY, jobs: int = 1) -> Week:
    """Live through the three moments below an empty directory."""
    week = Week(directory, package, jobs)
    week.repository.mkdir()
    _wheels(directory)
    _monday(week, seeds)
    _before_a_merge(week)
    _library_upgrade(week)
    _refresh(week)
    return week


def _wheels(directory: Path) -> None:
    """A library in two versions, the second of which sums where the first averages."""
    for version, argument in (("1.0", ""), ("2.0", ', reduction="sum"')):
        source = directory / "library" / version
        (source / "tinyloss").mkdir(parents=True)
        (source / "pyproject.toml").write_text(PROJECT.format(version=version), encoding="utf-8")
        (source / "tinyloss" / "__init__.py").write_text(LIBRARY.format(argument=argument), encoding="utf-8")
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
        subprocess.run([*command, "--wheel-dir", str(directory / "wheels"), str(source)], check=True)


def _monday(week: Week, seeds: Sequence[int]) -> None:
    """Install, configure, learn."""
    venv = week.bin.parent
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    site = next((venv / "lib").glob("python*/site-packages"))
    packages = [entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
    (site / "from_outside.pth").write_text("\n".join(packages), encoding="utf-8")
    week.git("init", "--quiet", "--initial-branch=main")
    offline = ("--quiet", "--no-deps", "--no-build-isolation", "--ignore-installed")
    week.step("install", ["python", "-m", "pip", "install", *offline, week.package, "tinyloss==1.0"])
    (week.repository / "train.py").write_text(TRAIN, encoding="utf-8")
    more = f"\n[tool.traincheck]\njobs = {week.jobs}\n" if week.jobs > 1 else ""
    configuration = CONFIGURATION.format(seeds=list(seeds), more=more)
    (week.repository / "pyproject.toml").write_text(configuration, encoding="utf-8")
    (week.repository / ".gitignore").write_text("__pycache__/\n.pytest_cache/\n.traincheck*\n", encoding="utf-8")
    week.commit("Train a model")
    week.step("learn the golden", ["traincheck", "refresh"])
    week.commit("Learn the golden")
    week.step("check what has not changed", ["python", "-m", "pytest", "--traincheck"])


def _before_a_merge(week: Week) -> None:
    """A refactor passes, a silent bug does not; with the stored golden and with that of a commit."""
    week.git("checkout", "--quiet", "-b", "tidy")
    week.change("for step in range(args.steps):", "for number in range(1, args.steps + 1):")
    week.change("step {step}", "step {number}")
    week.step("check a refactor", ["python", "-m", "pytest", "--traincheck"])
    week.commit("Rename the counter")
    week.change("    optimizer.zero_grad()\n", "")
    week.step("check a silent bug", ["python", "-m", "pytest", "--traincheck"], expected=1)
    live_golden = ["traincheck", "check", "--golden", "merge-base:main"]
    week.step("the same against the merge base, cold", live_golden, expected=1)
    week.step("the same, its golden in the cache", live_golden, expected=1)
    week.git("checkout", "--quiet", "--", "train.py")
    week.git("checkout", "--quiet", "main")
    week.git("merge", "--quiet", "--ff-only", "tidy")


def _library_upgrade(week: Week) -> None:
    """The library changed its mind."""
    upgrade = ["traincheck", "upgrade", "my_model", "--with", "tinyloss==2.0"]
    week.step("try a library, cold", upgrade, expected=1)
    week.step("the same, environment and golden in the cache", upgrade, expected=1)


def _refresh(week: Week) -> None:
    """A change that was meant: refused, accepted, merged."""
    week.git("checkout", "--quiet", "-b", "faster")
    week.change("lr=0.1", "lr=0.2")
    document = week.directory / "result.json"
    week.step("check an intended change", ["traincheck", "check", "--json", document], expected=1)
    week.step("refresh without a word", ["traincheck", "refresh", "my_model"], expected=1)
    (incident,) = json.loads(document.read_text(encoding="utf-8"))["incidents"]
    accept = ["--accept", incident["id"], "--reason", "The learning rate was too low"]
    week.step("refresh what was meant", ["traincheck", "refresh", "my_model", *accept])
    week.commit("Raise the learning rate")
    week.git("checkout", "--quiet", "main")
    week.git("merge", "--quiet", "--no-ff", "faster", "--message", "Merge the faster training")
    week.step("check what was merged", ["python", "-m", "pytest", "--traincheck"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", type=Path, action="append", metavar="DIR", help="what is installed (repeatable)")
    parser.add_argument("--jobs", type=int, action="append", help="`jobs` of each package's week (default: 1)")
    parser.add_argument("--rounds", type=int, default=1, help="weeks with each package")
    arguments = parser.parse_args()
    packages = [path.resolve() for path in arguments.package or [REPOSITORY]]
    variants = list(zip(packages, (arguments.jobs or []) + [1] * len(packages), strict=False))
    facts = machine()
    weeks: list[list[Week]] = [[] for _ in variants]
    for _ in range(arguments.rounds):
        for number, (package, jobs) in enumerate(variants):
            with tempfile.TemporaryDirectory(prefix="moments-") as directory:
                week = live(Path(directory), package=package, jobs=jobs)
                weeks[number].append(week)
            spent = ", ".join(f"{moment.wall:.1f} ({moment.cpu:.1f} CPU)" for moment in week.moments)
            print(f"{package.name}, {jobs} at a time: {spent}", file=sys.stderr, flush=True)
    print(markdown_table(["step", "command", "exit status", *_heads(variants)], _rows(weeks)))
    print_facts(facts)
    wrong = [moment for lived in weeks for week in lived for moment in week.moments if not moment.as_expected]
    for moment in wrong:
        print(f"\n{moment.name}: expected {moment.expected}\n{moment.output}", file=sys.stderr)
    return int(bool(wrong))


def _heads(variants: Sequence[tuple[Path, int]]) -> list[str]:
    if len(variants) == 1:
        return ["s", "CPU s"]
    return [f"{package.name}, {jobs} at a time: {what}" for package, jobs in variants for what in ("s", "CPU s")]


def _rows(weeks: Sequence[Sequence[Week]]) -> list[list[str]]:
    """A row for each step and one for the sum, with the medians of the rounds."""
    first = weeks[0][0].moments
    rows = [[moment.name, f"`{moment.command}`", str(moment.status)] for moment in first]
    sums = ["all of it", "", ""]
    for lived in weeks:
        for kind in ("wall", "cpu"):
            medians = [
                statistics.median(getattr(week.moments[number], kind) for week in lived) for number in range(len(first))
            ]
            for row, seconds in zip(rows, medians, strict=True):
                row.append(f"{seconds:.1f}")
            sums.append(f"{sum(medians):.1f}")
    return [*rows, sums]


if __name__ == "__main__":
    sys.exit(main())
