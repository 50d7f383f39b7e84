"""Loads the probe into every Python process below an observed command.

The launcher puts this directory on `PYTHONPATH` and names the run directory in `TRAINCHECK_TRACE_DIR`. Python imports
`sitecustomize` by name at start-up; another one further down the path belongs to the user and runs too.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_PACKAGE = "_traincheck"


def _run_next_sitecustomize() -> None:
    """Execute the `sitecustomize` that would have been found without this one, as Python would have."""
    others = [entry for entry in sys.path if Path(entry or ".").resolve() != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _drop_empty_entry() -> None:
    """Take out of the import path the working directory, which stands there for an empty entry behind the launcher's:
    see `launch.environment.python_path`. Where `PYTHONPATH` is not as the launcher gave it, it is the program's own.
    """
    given = os.environ.get("TRAINCHECK_PYTHONPATH")
    if given is None or given != os.environ.get("PYTHONPATH"):
        return
    try:
        ours, here = given.split(os.pathsep)[:-1], str(Path.cwd())
    except OSError:
        return  # the working directory is gone, and Python has left it out
    for place in range(1, len(sys.path)):
        if here not in ours and sys.path[place] in ("", here) and sys.path[place - 1] in ours:
            del sys.path[place]
            return


def _note_failure(run_dir: str, error: BaseException) -> None:
    """Leave a process directory that says why nothing was observed; the run then counts as unreliable."""
    import json
    import time

    try:
        directory = Path(run_dir) / f"proc-{os.getpid()}-{time.time_ns()}"
        directory.mkdir(parents=True)
        note = {
            "format": 1,
            "pid": os.getpid(),
            "ppid": os.getppid(),
            "argv": [str(word) for word in getattr(sys, "argv", None) or ()],
            "executable": sys.executable,
            "finished": False,
            "events": 0,
            "lost_events": 0,
            "probe_errors": [{"where": "loading the probe", "error": f"{type(error).__name__}: {error}"}],
            "probe_error_count": 1,
        }
        (directory / "meta.json").write_text(json.dumps(note), encoding="utf-8")
    except OSError:
        return  # nowhere to write: the launcher sees a run without a trace and reports that


def _import_package() -> None:
    """Import this package from where this file lies, under another name, whatever is installed here.

    Its `__init__` needs nothing. Of what is in it only the rooms that need no more than torch are imported: the probe,
    the descriptions of frameworks, and the planted mistakes.
    """
    directory = _HERE.parent.parent
    spec = importlib.util.spec_from_file_location(
        _PACKAGE, directory / "__init__.py", submodule_search_locations=[str(directory)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no package at {directory}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_PACKAGE] = module
    spec.loader.exec_module(module)


def _load_probe(run_dir: str) -> None:
    """Import the probe by file path, since this package may not be installed in the user's environment."""
    _import_package()
    imports = importlib.import_module(f"{_PACKAGE}.probe.imports")
    importlib.import_module(f"{_PACKAGE}.probe.own_tree").install_from_environment()

    def install() -> None:
        try:
            importlib.import_module(f"{_PACKAGE}.probe.install").start_from_environment()
            if os.environ.get("TRAINCHECK_MUTANT"):
                # After the probe, so that it sees a planted mistake as if the user had made it.
                importlib.import_module(f"{_PACKAGE}.mutants.install").start_from_environment()
        except Exception as error:  # noqa: BLE001 - a probe that cannot start must not stop the user's program
            _note_failure(run_dir, error)

    # Before the probe is there: it is not the program that seeds.
    importlib.import_module(f"{_PACKAGE}.probe.seeds").seed_from_environment()
    imports.after_import("torch", install)
    # Before any of them is imported: one that imports torch itself would be in the middle of it afterwards.
    importlib.import_module(f"{_PACKAGE}.probe.expected").expect_from_environment()


_run_dir = os.environ.get("TRAINCHECK_TRACE_DIR")
_drop_empty_entry()
if _run_dir:
    try:
        _load_probe(_run_dir)
    except Exception as _error:  # noqa: BLE001 - a probe that cannot load must not stop the user's program
        _note_failure(_run_dir, _error)
_run_next_sitecustomize()
