"""Runs the programs of the farm without and with the probe, and says in what the two runs differ.

A program is a script that knows nothing of the probe. What it needs of the farm stands in comments at its top:

- `# farm: sample`: it belongs to the sample that every test run looks at.
- `# farm: needs NAME...`: modules that must be importable; without them the program is skipped.
- `# farm: cuda`: it trains on a GPU; where torch can use none the program is skipped.
- `# farm: exits STATUS`: the exit status that it means to have; 0 where nothing is said.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest_traincheck.probe

PROGRAMS = Path(__file__).parent / "programs"
SHARED = "showing.py"
"""What the programs print with; it is no program."""

BOOTSTRAP = Path(pytest_traincheck.probe.__file__).parent / "bootstrap"

LIMIT_S = 240
"""Seconds after which a program counts as hanging; far above what any of them takes on a busy machine."""

DIRECTIVE = re.compile(r"^# farm: (\w+) ?(.*)$", re.MULTILINE)

NEVER_EQUAL = (
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "ADDRESS"),
    # glog's prefix, which torch writes: time, process and thread.
    (re.compile(r"\b[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+"), "LOG"),
    (re.compile(r"^USDT:.* \d+:\d+ ", re.MULTILINE), "USDT "),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]?\d*"), "TIME"),
)


@dataclass(frozen=True)
class Program:
    """One script of the farm, with what it says about itself."""

    path: Path
    sample: bool = False
    needs: tuple[str, ...] = ()
    exits: int = 0
    cuda: bool = False

    @property
    def name(self) -> str:
        return self.path.stem


@dataclass(frozen=True)
class Outcome:
    """What can be seen of one run from outside."""

    stdout: str
    stderr: str
    status: int
    files: dict[str, str]
    """Files that the run left in its directories: content hash by path."""


def read_program(path: Path) -> Program:
    """The program in a file; ValueError where it asks for something that the farm does not know."""
    said = {name: value.split() for name, value in DIRECTIVE.findall(path.read_text())}
    unknown = said.keys() - {"sample", "needs", "exits", "cuda"}
    if unknown:
        raise ValueError(f"{path} asks the farm for {sorted(unknown)}, which it does not know: see {__file__}")
    return Program(
        path,
        sample="sample" in said,
        needs=tuple(said.get("needs", ())),
        exits=int(said.get("exits", ["0"])[0]),
        cuda="cuda" in said,
    )


def read_programs() -> list[Program]:
    """All programs, by name."""
    return [read_program(path) for path in sorted(PROGRAMS.glob("*.py")) if path.name != SHARED]


def missing_module(program: Program) -> str | None:
    """The first module that the program needs and that cannot be found, or None."""
    import importlib.util

    return next((name for name in program.needs if importlib.util.find_spec(name) is None), None)


def has_gpu() -> bool:
    """Whether torch can use a GPU here."""
    import torch

    return torch.cuda.is_available()


def run_program(path: Path, place: Path, trace_dir: Path | None) -> Outcome:
    """Run a copy of the script in `place`, which is emptied first, and observe it where `trace_dir` is given.

    Both runs of a comparison are given the same `place`, so that no path differs between them.
    """
    shutil.rmtree(place, ignore_errors=True)
    for name in ("work", "home", "tmp", "libraries"):
        (place / name).mkdir(parents=True)
    shutil.copy(PROGRAMS / SHARED, place / "work")
    shutil.copy(path, place / "work")
    with (place / "stdin").open("w+b") as stdin:
        stdin.write(b"first line\nsecond line\n")
        stdin.seek(0)
        process = subprocess.Popen(
            [sys.executable, path.name],
            cwd=place / "work",
            env=_environment(place, trace_dir),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    try:
        stdout, stderr = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        stdout, stderr = process.communicate()
        stderr += f"\nended after {LIMIT_S} s\n".encode()
    return Outcome(
        stdout.decode(errors="replace"), stderr.decode(errors="replace"), process.returncode, _files_below(place)
    )


def _environment(place: Path, trace_dir: Path | None) -> dict[str, str]:
    """Little of the tester's own environment: what is left is the same on both sides but for what loads the probe."""
    kept = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CC", "CXX", "SYSTEMROOT")
    environment = {name: os.environ[name] for name in kept if name in os.environ} | {
        "HOME": str(place / "home"),
        "TMPDIR": str(place / "tmp"),
        "PYTHONPATH": str(place / "libraries"),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "MPLBACKEND": "agg",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # without it nobody's sums on a GPU repeat themselves
    }
    if trace_dir is not None:
        environment["TRAINCHECK_TRACE_DIR"] = str(trace_dir)
        environment["PYTHONPATH"] = os.pathsep.join([str(BOOTSTRAP), environment["PYTHONPATH"]])
    return environment


def _files_below(place: Path) -> dict[str, str]:
    """Content hashes of the files of a run, without the caches that compilers fill under names of their own."""
    found = {}
    for top in ("work", "home"):
        for path in sorted((place / top).rglob("*")):
            name = str(path.relative_to(place))
            if path.is_file() and not name.startswith("home/."):
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return found


def settled(text: str) -> str:
    """The text without what differs between any two runs: addresses, and times in log lines."""
    for pattern, word in NEVER_EQUAL:
        text = pattern.sub(word, text)
    return text


def differences(plain: Outcome, observed: Outcome) -> list[str]:
    """One text for each thing in which the two runs differ; empty where nothing does."""
    found = []
    for name in ("stdout", "stderr"):
        before, after = settled(getattr(plain, name)), settled(getattr(observed, name))
        if before != after:
            lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "without", "with", lineterm="", n=0)
            found.append(f"{name} differs:\n" + "\n".join(line[:1000] for line in list(lines)[:60]))
    if plain.status != observed.status:
        found.append(f"exit status {plain.status} without, {observed.status} with the probe")
    if plain.files != observed.files:
        changed = {name for name, _ in plain.files.items() ^ observed.files.items()}
        found.append("files differ: " + ", ".join(sorted(changed)))
    return found


def trace_faults(trace_dir: Path) -> list[str]:
    """Why the traces of a run would not be relied on; empty where they would.

    Only the program's own process must have finished: it may end others, as loaders end workers they keep.
    """
    directories = sorted(trace_dir.glob("proc-*"))
    if not directories:
        return ["no trace was left"]
    found, metas = [], {}
    for directory in directories:
        if (directory / "meta.json").exists():
            metas[directory] = json.loads((directory / "meta.json").read_text())
        else:
            found.append(f"{directory.name}: no meta.json")
    if metas and not min(metas.values(), key=lambda meta: float(meta["started"]))["finished"]:
        found.append("the trace of the program's own process was not finished")
    for directory, meta in metas.items():
        if meta["probe_errors"]:
            found.append(f"{directory.name}: errors of the probe: {meta['probe_errors']}")
        if meta["lost_events"]:
            found.append(f"{directory.name}: {meta['lost_events']} events were lost")
    return found


def look_at(program: Program, scratch: Path) -> list[str]:
    """Run a program without and with the probe; say what differs, and what is wrong with the traces.

    A program that fails by itself, says nothing, or does not repeat itself cannot show anything: a fault too.
    """
    place, trace_dir = scratch / "place", scratch / "trace"
    plain = run_program(program.path, place, None)
    if plain.status != program.exits or not plain.stdout.strip():
        return [f"without the probe it ends with {plain.status}:\n{plain.stdout[-1000:]}\n{plain.stderr[-3000:]}"]
    observed = run_program(program.path, place, trace_dir)
    found = differences(plain, observed)
    if found and differences(plain, run_program(program.path, place, None)):
        found.insert(0, "the program does not repeat itself without the probe either")
    return found + trace_faults(trace_dir)
