"""What an interpreter has to observe a training with: its torch, GPUs that torch can use, and the compiled core."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pytest_traincheck.launch.command import CommandError, resolve_interpreter
from pytest_traincheck.launch.interpreter import require_python
from pytest_traincheck.launch.output import show_tail

_TIMEOUT_S = 180.0
_PACKAGE = Path(__file__).resolve().parents[1]
# The core is imported as the probe does it: by its place, whatever is installed there.
_QUESTION = r"""
import importlib.util, json, platform, sys
found = {"python": platform.python_version(), "torch": "", "gpus": 0, "core": False, "no_core": ""}
try:
    import torch
    found["torch"] = torch.__version__
    found["gpus"] = torch.cuda.device_count()
except Exception as error:
    found["failure"] = type(error).__name__ + ": " + str(error)
else:
    for name, place in (("_traincheck", sys.argv[1]), ("_traincheck.probe", sys.argv[1] + "/probe")):
        spec = importlib.util.spec_from_file_location(name, place + "/__init__.py", submodule_search_locations=[place])
        sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        importlib.import_module("_traincheck.probe.core._core")
        core = importlib.import_module("_traincheck.probe.core")
        found["core"] = core.native is not None
        found["no_core"] = "" if found["core"] else "it is of another version, or `TRAINCHECK_CORE` leaves it out"
    except Exception as error:
        found["no_core"] = type(error).__name__ + ": " + str(error)
print("traincheck-torch " + json.dumps(found))
"""
_MARK = "traincheck-torch "


@dataclass(frozen=True)
class TorchOf:
    """An interpreter: its path and version, that of its torch, and how many GPUs torch can use.

    `torch` is empty where it cannot be imported, and `failure` says why; `no_core` why the compiled core is not used.
    """

    path: Path
    python: str
    torch: str
    gpus: int
    failure: str
    core: bool
    no_core: str


def describe(python: str | None) -> TorchOf:
    """Ask an interpreter, as the configuration names it. Raises `CommandError` where it cannot be asked."""
    path = resolve_interpreter(python)
    require_python(path)
    environment = {name: value for name, value in os.environ.items() if name != "TRAINCHECK_TRACE_DIR"}
    try:
        done = subprocess.run(
            [str(path), "-c", _QUESTION, str(_PACKAGE)],
            env=environment,
            # Elsewhere than in the project: what lies in the working directory is on the path of `-c`.
            cwd=tempfile.gettempdir(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(
            f"{path} does not say what torch it has: {error}", "run it by hand and import torch"
        ) from error
    line = next((line for line in done.stdout.splitlines() if line.startswith(_MARK)), None)
    if line is None:
        said = show_tail(done.stderr or done.stdout, 1) or f"it ended with exit status {done.returncode}"
        raise CommandError(f"{path} ended while it imported torch: {said}", f'run `{path} -c "import torch"` by hand')
    found = json.loads(line.removeprefix(_MARK))
    return TorchOf(
        path,
        found["python"],
        found["torch"],
        found["gpus"],
        found.get("failure", ""),
        found["core"],
        found["no_core"],
    )
