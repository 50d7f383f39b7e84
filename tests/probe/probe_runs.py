"""Runs user scripts in processes of their own, with and without the probe, and reads the traces they leave."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from warm_python import WarmPython

import pytest_traincheck.probe

ABORTED_TEARDOWN = "terminate called without an active exception"
"""What gloo says when a rank leaves while its threads are still running; it happens without the probe too."""

BOOTSTRAP = Path(pytest_traincheck.probe.__file__).parent / "bootstrap"

ROW = np.dtype(
    [
        ("kind", "u1"),
        ("flags", "u1"),
        ("thread", "<u2"),
        ("seq", "<u4"),
        ("end", "<u4"),
        ("parent", "<u4"),
        ("subject", "<u4"),
        ("ctx", "<u4"),
        ("args", "<u4"),
        ("ret", "<u4"),
        ("src", "<u4"),
        ("mod", "<u4"),
        ("opt", "<u2"),
        ("old", "u1"),
        ("new", "u1"),
        ("spare", "<u4"),
        ("digest", "<u8"),
        ("value", "<f8"),
    ]
)


@dataclass(frozen=True)
class Call:
    """One call row with its numbers resolved."""

    seq: int
    end: int
    parent: int
    name: str
    type: str
    flags: int
    ctx: dict[str, Any]
    args: dict[str, Any]
    ret: Any
    src: dict[str, Any]
    path: str | None
    root: str | None
    opt: int
    digest: int
    value: float

    @property
    def entry(self) -> bool:
        return bool(self.flags & 2)


@dataclass(frozen=True)
class Change:
    """One change row with its numbers resolved."""

    seq: int
    parent: int
    kind: str
    name: str
    root: str | None
    old: int
    new: int
    digest: int
    value: float


@dataclass(frozen=True)
class Measure:
    """One measure row with its numbers resolved; `name` is that of the variable it is about."""

    seq: int
    parent: int
    measure: str
    value: float
    digest: int
    name: str
    root: str | None
    path: str | None
    opt: int


@dataclass(frozen=True)
class Trace:
    """One process directory, read as `docs/trace-format.md` says."""

    directory: Path
    meta: dict[str, Any]
    symbols: dict[tuple[str, int], dict[str, Any]]
    rows: np.ndarray

    @property
    def calls(self) -> list[Call]:
        found = [self._call(row) for row in self.rows[self.rows["kind"] == 1]]
        return sorted(found, key=lambda call: call.seq)

    @property
    def changes(self) -> list[Change]:
        return [self._change(row) for row in self.rows[self.rows["kind"] == 2]]

    @property
    def measures(self) -> list[Measure]:
        return [self._measure(row) for row in self.rows[self.rows["kind"] == 3]]

    def measured(self, measure: str) -> list[Measure]:
        return [item for item in self.measures if item.measure == measure]

    def values(self, measure: str) -> list[float]:
        return [item.value for item in self.measured(measure)]

    def called(self, name: str) -> list[Call]:
        return [call for call in self.calls if call.name == name]

    def changed(self, kind: str, name: str | None = None) -> list[Change]:
        return [change for change in self.changes if change.kind == kind and name in (None, change.name)]

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [symbol for (found, _), symbol in self.symbols.items() if found == kind]

    def _symbol(self, kind: str, number: Any) -> dict[str, Any]:
        return self.symbols.get((kind, int(number)), {})

    def _call(self, row: Any) -> Call:
        api, mod = self._symbol("api", row["subject"]), self._symbol("mod", row["mod"])
        return Call(
            seq=int(row["seq"]),
            end=int(row["end"]),
            parent=int(row["parent"]),
            name=api["name"],
            type=api["type"],
            flags=int(row["flags"]),
            ctx=self._symbol("ctx", row["ctx"]),
            args=self._symbol("args", row["args"]).get("values", {}),
            ret=self._symbol("ret", row["ret"]).get("value"),
            src=self._symbol("src", row["src"]),
            path=mod.get("path"),
            root=self._symbol("root", mod["root"])["name"] if mod else None,
            opt=int(row["opt"]),
            digest=int(row["digest"]),
            value=float(row["value"]),
        )

    def _change(self, row: Any) -> Change:
        var = self._symbol("var", row["subject"])
        return Change(
            seq=int(row["seq"]),
            parent=int(row["parent"]),
            kind=var["kind"],
            name=var["name"],
            root=self._symbol("root", var["root"]).get("name"),
            old=int(row["old"]),
            new=int(row["new"]),
            digest=int(row["digest"]),
            value=float(row["value"]),
        )

    def _measure(self, row: Any) -> Measure:
        var, mod = self._symbol("var", row["args"]), self._symbol("mod", row["mod"])
        root = var.get("root") or mod.get("root", 0)
        return Measure(
            seq=int(row["seq"]),
            parent=int(row["parent"]),
            measure=self._symbol("measure", row["subject"])["name"],
            value=float(row["value"]),
            digest=int(row["digest"]),
            name=var.get("name", ""),
            root=self._symbol("root", root).get("name"),
            path=mod.get("path"),
            opt=int(row["opt"]),
        )


def read_trace(directory: Path) -> Trace:
    """Read one process directory, as far as it was written."""
    meta = json.loads((directory / "meta.json").read_text())
    symbols = [json.loads(line) for line in (directory / "symbols.jsonl").read_text().rstrip("\0").splitlines()]
    data = (directory / "events.bin").read_bytes()
    rows = np.frombuffer(data[: len(data) // ROW.itemsize * ROW.itemsize], ROW)
    ends = np.flatnonzero(rows["kind"] == 0)
    rows = rows[: ends[0]] if len(ends) else rows
    return Trace(directory, meta, {(symbol["k"], symbol["i"]): symbol for symbol in symbols}, rows)


def read_run(run_dir: Path) -> list[Trace]:
    """All process directories of a run, in the order they were made."""
    found = [read_trace(path) for path in run_dir.glob("proc-*")]
    return sorted(found, key=lambda trace: trace.meta.get("started", 0.0))


@dataclass(frozen=True)
class Outcome:
    """What a script printed and what traces it left."""

    stdout: str
    stderr: str
    status: int
    traces: list[Trace]

    @property
    def trace(self) -> Trace:
        assert len(self.traces) == 1
        return self.traces[0]


Run = Callable[..., Outcome]


def runner(tmp_path: Path) -> Run:
    """Runs scripts, each into a run directory of its own: `run(text, probe=True, launcher=[...], ok=True)`.

    `warm` is what runs them where the start of Python is no part of the test.
    """
    count = 0

    def run_script(
        text: str,
        *,
        probe: bool = True,
        launcher: tuple[str, ...] = (),
        ok: bool = True,
        path: tuple[Path, ...] = (),
        warm: WarmPython | None = None,
    ) -> Outcome:
        nonlocal count
        count += 1
        home = tmp_path / "project"
        home.mkdir(exist_ok=True)
        (home / "train.py").write_text(textwrap.dedent(text))
        run_dir = tmp_path / f"run{count}"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TRAINCHECK_")}
        environment |= {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "TOKENIZERS_PARALLELISM": "false"}
        extra = [str(entry) for entry in path]
        if probe:
            environment["TRAINCHECK_TRACE_DIR"] = str(run_dir)
            extra.insert(0, str(BOOTSTRAP))
        environment["PYTHONPATH"] = os.pathsep.join(extra)
        for _ in range(3):
            if warm is not None:
                done = warm.run(["train.py"], cwd=home, env=environment)
                break
            done = subprocess.run(
                [sys.executable, *launcher, "train.py"],
                cwd=home,
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            if not launcher or not ok or done.returncode == 0 or ABORTED_TEARDOWN not in done.stderr:
                break
            shutil.rmtree(run_dir, ignore_errors=True)
        assert (done.returncode == 0) is ok, done.stderr
        return Outcome(done.stdout, done.stderr, done.returncode, read_run(run_dir) if run_dir.exists() else [])

    return run_script
