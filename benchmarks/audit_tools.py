"""The tools of `audit_peers.py`: how each is run on a program, and what it says.

A tool is used as its README says, with the same few lines for every program. Those that live inside the training are
put there by `audit_hooks/sitecustomize.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure import own_package
from planted import Pipeline

HOOKS = Path(__file__).resolve().parent / "audit_hooks"
_PATIENCE = 40.0
"""Seconds for a launcher to end its workers: it waits for 30 before it kills them."""


@dataclass(frozen=True)
class Remark:
    """One thing that a tool said. `where` is the part of the program, as far as the tool names one."""

    level: str
    kind: str
    where: str
    text: str

    @property
    def alarming(self) -> bool:
        return self.level != "info"

    @property
    def key(self) -> str:
        """What makes it the same remark on another program: numbers aside, which differ without being meant."""
        return f"{self.level} {self.kind} {self.where}: {re.sub(r'[-+]?[0-9][0-9.,]*(e[-+]?[0-9]+)?', '#', self.text)}"


@dataclass(frozen=True)
class Said:
    """What became of one run. `used`: how often the tool was called in it; `notes`: why it could not do its work;
    `problem`: the run itself ended otherwise than well. `printed`: what the program and its libraries warned of.
    """

    remarks: tuple[Remark, ...] = ()
    used: int = 0
    notes: tuple[str, ...] = ()
    problem: str = ""
    seconds: float = 0.0
    printed: tuple[Remark, ...] = ()


Run = Callable[["Server", Pipeline, Path, float], Said]
"""With a server, a program, a copy of it in a folder of its own, and a limit in seconds."""


@dataclass(frozen=True)
class Tool:
    """A tool: its import name, the lines that a user adds, and how it is run."""

    name: str
    imports: tuple[str, ...]
    lines: str
    run: Run = field(repr=False)


class Server:
    """Runs programs one at a time; see `audit_hooks/server.py`. Scripts under `torchrun` are processes of their own."""

    def __init__(self, python: Path, imports: Sequence[str] = ()) -> None:
        self.python = python
        self.imports = tuple(imports)
        self._process: subprocess.Popen[str] | None = None

    def train(self, program: Pipeline, tree: Path, extra: Mapping[str, str], timeout: float) -> tuple[int, str, float]:
        """Status (124 when it ran past its limit), everything printed, seconds."""
        words = shlex.split(f"{program.run} {program.seed_arg.format(seed=0)}")
        if words[0] == "torchrun":
            return execute([str(self.python), "-m", "torch.distributed.run", *words[1:]], tree, extra, timeout)
        output = tree.parent / "output.txt"
        asked = {"script": words[1], "arguments": words[2:], "folder": str(tree), "environment": dict(extra)}
        answer = self._ask({**asked, "output": str(output), "timeout": timeout})
        return answer["status"], output.read_text(errors="replace"), answer["seconds"]

    def module(self, name: str, arguments: Sequence[str], tree: Path, timeout: float) -> tuple[int, str, float]:
        """The same of `python -m NAME` in a folder."""
        output = tree.parent / "output.txt"
        asked = {"module": name, "arguments": list(arguments), "folder": str(tree), "environment": {}}
        answer = self._ask({**asked, "output": str(output), "timeout": timeout})
        return answer["status"], output.read_text(errors="replace"), answer["seconds"]

    def _ask(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        if self._process is None:
            self._process = subprocess.Popen(
                [str(self.python), str(HOOKS / "server.py"), *self.imports],
                env=_environment({"PYTHONPATH": str(HOOKS)}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TRAINCHECK_")}
    return {**inherited, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **extra}


def execute(words: Sequence[str], tree: Path, extra: Mapping[str, str], timeout: float) -> tuple[int, str, float]:
    """A process of its own: status (124 when it ran past its limit), everything printed, seconds."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            words,
            cwd=tree,
            env=_environment(extra),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.terminate()  # `torchrun` ends its workers then, which are sessions of their own
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = 124
        printed.seek(0)
        return status, printed.read().decode(errors="replace"), time.perf_counter() - begin


def _problem(status: int, output: str, timeout: float) -> str:
    if not status:
        return ""
    lines = [line for line in output.splitlines() if re.match(r"\w*(Error|Exception)\b", line.lstrip("[rank01]: "))]
    return f"no end after {timeout:g} s" if status == 124 else (lines or output.splitlines() or [""])[-1][:300]


def hooked(peer: str) -> Run:
    """A tool that is called inside the training, by the module `use_PEER` of `audit_hooks`."""

    def run(server: Server, program: Pipeline, tree: Path, timeout: float) -> Said:
        reports = tree.parent / "reports"
        reports.mkdir()
        extra = {"PYTHONPATH": str(HOOKS), "AUDIT_PEER": peer, "AUDIT_REPORT": str(reports)}
        status, output, seconds = server.train(program, tree, extra, timeout)
        remarks: dict[str, Remark] = {}
        used, notes = 0, []
        for path in sorted(reports.glob("*.json")):
            held = json.loads(path.read_text())
            used += held["used"]
            notes += held["notes"]
            for each in held["remarks"]:
                remark = Remark(**each)
                remarks.setdefault(remark.key, remark)
        problem = _problem(status, output, timeout)
        return Said(tuple(remarks.values()), used, tuple(dict.fromkeys(notes)), problem, seconds, _warnings_in(output))

    return run


def torchfix(server: Server, program: Pipeline, tree: Path, timeout: float) -> Said:  # noqa: ARG001 - all files of it
    """`torchfix .` in the folder of the program: the rules that are on by default."""
    status, output, seconds = server.module("torchfix", ["--jobs", "1", "."], tree, timeout)
    found = re.findall(r"^\S*?([^/\s]+\.py):\d+:\d+: (TOR\d+) (.*)$", output, re.MULTILINE)
    times: Counter[tuple[str, str, str]] = Counter()
    remarks = []
    for file, code, text in found:
        times[file, code, text] += 1
        remarks.append(Remark("warning", code, f"{file} ({'I' * times[file, code, text]})", text))
    problem = "" if status in (0, 1) else _problem(status, output, timeout)
    return Said(tuple(remarks), 1, (), problem, seconds)


_PYTHON_WARNING = re.compile(r"^(?:\[rank\d+\]:)?\s*(\S*\.py):\d+: (?:(\w*Warning): )?(.*)$", re.MULTILINE)
"""As Python writes it, or Lightning, which leaves the category out."""
_LOGGED = re.compile(r"^(?:\[rank\d+\]:)?.*?\b(WARNING|WARN)\b:?\s*(.*)$|^\[rank\d+\]:\[W.*?\]\s*(.*)$", re.MULTILINE)


def _warnings_in(output: str) -> tuple[Remark, ...]:
    """What Python, PyTorch and the libraries warn of in a program's output."""
    remarks = {}
    for path, kind, text in _PYTHON_WARNING.findall(output):
        remark = Remark("warning", kind or "warning", Path(path).name, text)
        remarks.setdefault(remark.key, remark)
    for match in _LOGGED.finditer(_PYTHON_WARNING.sub("", output)):
        remark = Remark("warning", "log", "", (match[2] or match[3] or match[0]).strip())
        remarks.setdefault(remark.key, remark)
    return tuple(remarks.values())


def own_warnings(server: Server, program: Pipeline, tree: Path, timeout: float) -> Said:
    """The program as it is, but that it may not silence warnings: several do, Lightning's above all."""
    extra = {"PYTHONPATH": str(HOOKS), "AUDIT_PEER": "warnings"}
    status, output, seconds = server.train(program, tree, extra, timeout)
    return Said(_warnings_in(output), 1, (), _problem(status, output, timeout), seconds)


def own_audit(server: Server, program: Pipeline, tree: Path, timeout: float) -> Said:
    """`traincheck audit` with its defaults."""
    words = shlex.split(f"{program.run} {program.seed_arg.format(seed=0)}")
    report = tree.parent / "audit.json"
    audit = [str(server.python), "-m", "pytest_traincheck", "audit", "--json", str(report), "--", *words]
    path = os.pathsep.join([str(server.python.parent), os.environ.get("PATH", os.defpath)])
    status, output, seconds = execute(audit, tree, {**own_package(), "PATH": path}, timeout)
    held = json.loads(report.read_text()) if report.exists() else {"incidents": [], "errors": []}
    remarks = [Remark(each["level"], each["law"], each["subject"], each["title"]) for each in held["incidents"]]
    problem = "" if report.exists() and not held["errors"] else _problem(status or 1, output, timeout)
    return Said(tuple(remarks), int(not problem), (), problem, seconds)


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("torchfix", ("torchfix.torchfix",), "0 (a command)", torchfix),
        Tool("torch-audit", ("torch_audit",), "4 (two imports, `autopatch`, `finish`)", hooked("torch_audit")),
        Tool("torchtest2", ("torchtest2",), "3 and the loss as a function", hooked("torchtest2")),
        Tool("torchtest", ("torchtest.torchtest",), "3 and the loss as a function", hooked("torchtest")),
        Tool("traincheck-audit", (), "0 (a command)", own_audit),
        Tool("warnings", (), "0", own_warnings),
    )
}
