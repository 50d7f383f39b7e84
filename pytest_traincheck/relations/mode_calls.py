"""Calls of `train()` and `eval()`, by the modules whose mode they set."""

from __future__ import annotations

from pytest_traincheck.trace import Process

TRAIN = "torch.nn.Module.train"


def set_at(process: Process, row: int) -> str:
    """Where the mode of a module, or of one that it is in, was last set before a call of it; empty if nowhere."""
    call = _last(process, row)
    return process.source(call) if call >= 0 else ""


def never_set_to_eval(process: Process, row: int) -> bool:
    """Whether a module was called without any `eval()` of it, or of one that it is in, before. Of later steps alone,
    or where not every step is observed, nobody knows.
    """
    if process.raw.stretch is not None or process.sampled or _last(process, row) >= 0:
        return False
    models = {process.module_name(entered) for entered in process.forward_rows.tolist()}
    # What is called itself is another model; anything else may have the module in it under another name.
    return all(
        process.module_name(call) in models or _mode(process, call) is not False for call in _calls(process, row)
    )


def _last(process: Process, row: int) -> int:
    module = process.module_name(row)
    for call in reversed(_calls(process, row)):
        name = process.module_name(call)
        if name == module or module.startswith(f"{name}."):
            return call
    return -1


def _calls(process: Process, row: int) -> list[int]:
    calls = process.rows_of_type("mode")
    calls = calls[calls < row]
    return [call for call in calls.tolist() if process.api[call] == TRAIN]


def _mode(process: Process, call: int) -> object:
    arguments = process.raw.symbols["args"][int(process.events["args"][call])].get("values") or {}
    return arguments.get("mode")
