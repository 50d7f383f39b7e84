"""Reads from an exit status and the last lines of stderr why a run ended badly."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from pytest_traincheck.launch.process import OUTPUT_LIMIT, Ended

TEARDOWN_ABORT = "terminate called without an active exception"
"""What the C++ runtime prints when a thread of gloo outlives its process group."""

_TORCHRUN_ROOT_CAUSE = "Root Cause (first observed failure):"
_TORCHRUN_EXIT = re.compile(r"\bexitcode\s*:\s*(-?\d+)")
_NO_MODULE = re.compile(r"^\s*(?:\S+: )?(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)", re.MULTILINE)
_LAST_LINES = 60
# Signals that end a process from outside or by a fault; a shell reports them as 128 + number.
_FATAL = (
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGHUP,
    signal.SIGILL,
    signal.SIGINT,
    signal.SIGKILL,
    signal.SIGSEGV,
    signal.SIGTERM,
)


def killing_signal(exit_code: int | None) -> signal.Signals | None:
    """The signal that ended the command, or that a shell says ended what it ran."""
    if exit_code is None:
        return None
    number = -exit_code if exit_code < 0 else exit_code - 128
    if exit_code > 0 and number not in _FATAL:
        return None
    try:
        return signal.Signals(number)
    except ValueError:
        return None


def worker_exit(stderr: str) -> int | None:
    """The exit status of the worker that failed first, where torchrun reports one in its summary.

    The other workers in that summary were ended by torchrun itself.
    """
    _, found, root_cause = stderr.rpartition(_TORCHRUN_ROOT_CAUSE)
    match = _TORCHRUN_EXIT.search(root_cause) if found else None
    return int(match.group(1)) if match is not None else None


def aborted_in_teardown(exit_code: int | None, stderr: str) -> bool:
    """Whether a process aborted as gloo does now and then on a busy machine while its process group is torn down."""
    if TEARDOWN_ABORT not in stderr:
        return False
    aborts = (killing_signal(exit_code), killing_signal(worker_exit(stderr)))
    # `torch.multiprocessing.spawn` names the signal in its own message.
    return signal.SIGABRT in aborts or "signal SIGABRT" in stderr


def explain(ended: Ended, stderr: str, timeout: float) -> tuple[str, str]:
    """What happened to a run that did not end well, to follow its name, and what to do now."""
    after = f"after {ended.seconds:.1f} s"
    if ended.stopped:
        return (
            f"stopped itself, or was stopped, and did not go on within {timeout:g} s",
            "look for what sends SIGSTOP, SIGTSTP or SIGTTIN to it, a debugger for instance",
        )
    if ended.timed_out:
        return (
            f"did not end within {timeout:g} s and was stopped with everything below it",
            "look in the output for where it hangs; if it is only slow, run fewer steps or raise `timeout`",
        )
    if ended.too_much_output:
        return (
            f"wrote more than {OUTPUT_LIMIT // 2**20} MiB of output and was stopped {after}",
            "make the pipeline print less, or send its output to /dev/null",
        )
    by = killing_signal(ended.exit_code)
    if by is not None:
        return f"was killed by {by.name} {after}", _cure(by)
    what = f"ended with exit status {ended.exit_code} {after}"
    worker = worker_exit(stderr)
    by = killing_signal(worker)
    if by is not None:
        return f"{what}: a worker was killed by {by.name}", _cure(by)
    if worker is not None:
        what = f"{what}: a worker ended with exit status {worker}"
    return what, "read its last lines of output, then run the command by hand in the same directory"


def missing_module(stderr: str) -> str:
    """The top-level module for want of which a run ended; empty when it ended for another reason."""
    found = _NO_MODULE.findall("\n".join(stderr.splitlines()[-_LAST_LINES:]))
    return str(found[-1]).partition(".")[0] if found else ""


def not_installed(what: str, module: str, interpreter: Path) -> tuple[str, str]:
    """How to explain a run that lacks a module."""
    return (
        f"{what}: {interpreter} has no module `{module}`",
        "install it there, or name another interpreter with `python` in the configuration (`--golden-python` and "
        "`--candidate-python` in compare)",
    )


def not_in_worktree(what: str, path: Path, link: str) -> tuple[str, str]:
    """How to explain a run that lacks a file which only the working tree has; `link` is what to write."""
    cure = (
        f'write `link = ["{link}"]` below the pipeline in the configuration (`--link {link}` in compare), which lets '
        "worktrees see it, or give the pipeline an absolute path"
        if link
        else "give the pipeline an absolute path"
    )
    return f"{what}: a worktree has no {path}, since git does not track it", cure


def _cure(by: signal.Signals) -> str:
    if by is signal.SIGKILL:
        return "check whether the machine ran out of memory (`dmesg | tail`), or who else may have killed it"
    if by in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT):
        return "run the command by hand with PYTHONFAULTHANDLER=1 to see where it crashes"
    return "find out who ended it, and run it again"
