"""Putting the probe into this process and taking it out again."""

from __future__ import annotations

import atexit
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any

import torch

from ..frameworks.built_in import built_in
from ..frameworks.description import Framework
from ..frameworks.extensions import FRAMEWORK, NONE, VARIABLE, Extensions
from ..looks import NOTHING, Looks, from_text
from ..looks import VARIABLE as NOT_NEEDED
from . import storages
from .context import unseen
from .core.short_ways import writer
from .in_place import Hooks
from .limit import Limit, limit
from .names import is_user_file
from .patch import Patches
from .recorder import Recorder
from .sampling import sampling
from .switches import Switches
from .targets import absent_modules
from .theirs import is_theirs
from .wrappers import Wrappers

_FAMILIES = (
    "functions",
    "module_calls",
    "optimizer",
    "autograd",
    "clip",
    "scaler",
    "schedulers",
    "modes",
    "loading",
    "collectives",
    "initializers",
    "io",
    "data",
    "averaging",
    "draws",
    "copies",
    "checkpointing",
    "graphs",
    "compiled",
    "observations",
)


class Probe(Switches):
    """The probe of this process: what it has patched, and the recorder of the trace that is being written."""

    def __init__(self, run_dir: Path, seed: str | None, extensions: Extensions, not_needed: Looks) -> None:
        self.patches = Patches()
        self.recorder: Recorder | None = None
        self.limit: Limit | None = None
        """Set where the run ends after so many steps."""
        self.extensions = extensions
        self.observed: set[str] = set()
        """APIs that plug-ins named and that are observed."""
        self.frameworks = (*built_in(), *extensions.frameworks)
        self._wrappers = Wrappers(self.frameworks)
        self._run_dir = run_dir
        self._seed = seed
        self._not_needed = not_needed
        self.mesh: dict[str, list[int]] = {}
        self._codes: list[CodeType] = []
        self._undo: list[Callable[[], None]] = []
        # Python takes this attribute away before `atexit` functions run.
        self._main = getattr(sys.modules.get("__main__"), "__file__", None)

    @property
    def directory(self) -> Path:
        """Where the trace of this process is written."""
        assert self.recorder is not None
        return self.recorder.writer.directory

    def stop_at(self, code: CodeType) -> None:
        """Announce the code of a function whose frame stands for a recorded call."""
        self._codes.append(code)
        if self.recorder is not None:
            self.recorder.sources.stop_at(code)

    def on_removal(self, undo: Callable[[], None]) -> None:
        """Call `undo` when the probe is taken out."""
        self._undo.append(undo)

    def start(self) -> None:
        """Open the trace and observe every family of functions."""
        self.limit = limit(self, self._run_dir)
        self._open([])
        assert self.recorder is not None
        self.patches.may_sleep = self.recorder.sampling is not None
        for name in _FAMILIES:
            try:
                import_module(f"{__package__}.families.{name}").install(self)
            except Exception as error:  # noqa: BLE001 - one family that does not fit this torch must not cost the rest
                self._failed(f"installing {name}", error)
        self.patches.installed()
        self.write_meta()

    def _open(self, known: list[torch.nn.Module]) -> None:
        trace = writer(self._run_dir)
        try:
            recorder = Recorder(trace, known, self._wrappers, self._not_needed)
        except BaseException:
            trace.discard()  # else what is told is a damaged trace, and not why there is none
            raise
        for code in self._codes:
            recorder.sources.stop_at(code)
        recorder.sampling = sampling(recorder, self.patches) if not known else None
        recorder.limit = self.limit
        self.recorder = recorder
        self.write_meta()

    def _failed(self, where: str, error: BaseException) -> None:
        if self.recorder is not None:
            self.recorder.failed(where, error)

    def write_meta(self, finished: bool = False) -> None:
        """Say in `meta.json` who this process is, as far as is known now."""
        recorder = self.recorder
        if recorder is not None:
            known = self._known_rank(recorder.writer.meta)
            recorder.writer.meta = {**_identity(self.frameworks), **known, "seed": self._seed, "mesh": self.mesh}
            if recorder.writer.started == 0:
                recorder.writer.started = time.time()
            recorder.writer.meta["started"] = recorder.writer.started
            recorder.writer.meta["not_needed"] = sorted(self._not_needed)
            unobserved = self._unobserved(recorder, finished)
            recorder.writer.meta |= {"unobserved": unobserved, **self._extended(recorder, unobserved)}
            if recorder.sampling is not None:
                recorder.writer.meta["sampling"] = recorder.sampling.as_meta()
            if self.limit is not None:
                recorder.writer.meta["limit"] = self.limit.as_meta()
            recorder.writer.meta["modules"] = _user_modules(self._main) if finished else []
            if not finished:
                recorder.writer.write_meta()

    def _unobserved(self, recorder: Recorder, finished: bool) -> dict[str, str]:
        """What was to be observed or looked through and cannot be, and why; all of that is known at the end."""
        if not finished or not self.extensions:
            return self.patches.left_out
        absent = absent_modules(self.extensions.observations)
        return {**self.patches.left_out, **recorder.modules.without_inner(), **absent}

    def _extended(self, recorder: Recorder, unobserved: Mapping[str, str]) -> dict[str, Any]:
        """What plug-ins have told that is in force here, and which of it there was an occasion for."""
        used = (item for item in self.extensions.frameworks if item.name in sys.modules)
        names = {
            FRAMEWORK + item.name
            for item in used
            if item.samplers
            or item.parallel
            or item.observations
            or not recorder.modules.wrapped.isdisjoint(item.wrappers)
        }
        digests = self.extensions.digests
        return {
            "extensions": {key: digest for key, digest in digests.items() if key not in unobserved},
            "extensions_in_use": sorted(self.observed | names),
        }

    @staticmethod
    def _known_rank(meta: dict[str, Any]) -> dict[str, Any]:
        """Rank and world size that a process group told us before it was destroyed."""
        if _distributed("get_world_size", 0) or meta.get("world_size", 1) == 1:
            return {}
        return {name: meta[name] for name in ("rank", "world_size")}

    def finish(self) -> None:
        """End the trace; functions are still observed, but nothing is recorded any more."""
        recorder = self.recorder
        if recorder is not None:
            with unseen(recorder, "ending"):
                recorder.by_hand.finish()
                recorder.write_waiting(recorder.threads)
                recorder.measures.write_waiting(recorder.threads, ends=True)
                if self.limit is not None:
                    self.limit.finished()
            self.write_meta(finished=True)
            self.recorder = None
            recorder.writer.close(finished=True)

    def leaving(self, *_: Any, **__: Any) -> None:
        """The process is about to end without another word."""
        try:
            self.finish()
        except Exception as error:
            if is_theirs(error):
                raise

    def stop(self) -> None:
        """End the trace and remove the probe from this process."""
        global _active
        self.finish()
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
        self.patches.remove()
        if _active is self:
            _active = None

    def forked(self) -> None:
        """In a forked child: leave the parent's trace alone and begin one of our own."""
        parent = self.recorder
        if parent is None:
            return
        self.recorder = None
        try:
            parent.writer.abandon()
            self.patches.forked()
            if parent.sampling is not None:
                parent.sampling.of_child()
            if self.limit is not None:
                self.limit = self.limit.of_child()
            storages.forked()
            self._open(parent.modules.live())
        except Exception:  # noqa: BLE001 - a child that cannot be observed must still run; it leaves no directory
            self.recorder = None


_active: Probe | None = None
_at_fork_registered = False


def _after_fork() -> None:
    if _active is not None:
        _active.forked()


def start(run_dir: Path, seed: str | None, extensions: Extensions = NONE, not_needed: Looks = NOTHING) -> Probe:
    """Put the probe into this process; looks that are `not_needed` are left out.

    Raises `RuntimeError` when there is one already.
    """
    global _active, _at_fork_registered
    if _active is not None:
        raise RuntimeError(
            "this process is observed already: "
            f"its trace goes to {_active.directory}; end that observation before another one begins"
        )
    run_dir.mkdir(parents=True, exist_ok=True)
    probe = Probe(run_dir.resolve(), seed, extensions, not_needed)
    _active = probe
    try:
        probe.start()
    except BaseException:
        _active = None
        raise
    if not _at_fork_registered:
        os.register_at_fork(after_in_child=_after_fork)
        _at_fork_registered = True
    return probe


def start_from_environment() -> None:
    """Observe this process to its end, as the launcher's environment variables say."""
    told = os.environ.get(VARIABLE)
    extensions = Extensions.from_text(told) if told else NONE
    not_needed = from_text(os.environ.get(NOT_NEEDED, ""))
    run_dir, seed = Path(os.environ["TRAINCHECK_TRACE_DIR"]), os.environ.get("TRAINCHECK_SEED")
    probe = start(run_dir, seed, extensions, not_needed)
    atexit.register(probe.leaving)
    # Worker processes of `multiprocessing` and some frameworks leave this way, without `atexit`.
    probe.patches.observe(os._exit, lambda _: Hooks(probe.leaving, _nothing, _nothing), always=True)


def _nothing(*_: Any) -> None:
    """`os._exit` does not return."""


def _identity(frameworks: Iterable[Framework]) -> dict[str, Any]:
    """Everything `meta.json` says about the process itself."""
    return {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "rank": _number("RANK", _distributed("get_rank", 0)),
        "local_rank": _number("LOCAL_RANK", 0),
        "world_size": _number("WORLD_SIZE", _distributed("get_world_size", 1)),
        "argv": _texts(getattr(sys, "argv", None)),
        "executable": sys.executable,
        "cwd": _cwd(),
        "versions": {"python": platform.python_version(), "torch": str(torch.__version__), **_imported(frameworks)},
        "platform": _platform(),
    }


def _texts(values: Any) -> list[str]:
    """A program may put paths, bytes or anything else into its `sys.argv`, or take it away."""
    if not isinstance(values, (list, tuple)):
        return []
    return [os.fsdecode(value) if isinstance(value, (str, bytes, os.PathLike)) else repr(value) for value in values]


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isdigit() else default


def _distributed(function: str, default: int) -> int:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return default
    return int(getattr(distributed, function)())


def _cwd() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return ""  # the directory was deleted


def _imported(frameworks: Iterable[Framework]) -> dict[str, str]:
    """Versions of the libraries that are loaded."""
    names = (name for framework in frameworks for name in framework.versions)
    found = {name: getattr(sys.modules.get(name), "__version__", None) for name in names}
    return {name: str(version) for name, version in found.items() if version is not None}


def _platform() -> str:
    system = f"{sys.platform}-{platform.machine()}"
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return f"{system}-cuda-{torch.cuda.get_device_name().replace(' ', '-')}"
    return f"{system}-cpu"


def _user_modules(main: str | None) -> list[str]:
    """Files of imported modules that are the user's own."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())} | {main}
    found = (Path(file) for file in files if isinstance(file, str) and is_user_file(file))
    return sorted(str(path.absolute()) for path in found if path.name != "sitecustomize.py" and path.exists())
