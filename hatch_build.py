"""Compiles the core of the probe's recorder into the package, where there is a compiler; without one the wheel is pure.

    python hatch_build.py

does it in a working tree; hatchling does it for wheels and editable installs.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand
    BuildHookInterface = object  # type: ignore[assignment, misc]

SOURCES = Path("pytest_traincheck", "probe", "core")
TARGET = "_core.abi3.so"
FLAGS = ("-O3", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", "-DNDEBUG")


def compilers() -> Iterator[list[str]]:
    """What may compile C here, the user's own wish first."""
    for command in (os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc", "gcc", "clang"):
        if command:
            yield shlex.split(command)[:1]


def build(root: Path) -> str:
    """Compile into the package below `root`. Returns why that is not possible, nothing where it was done."""
    if sys.implementation.name != "cpython" or sys.platform not in ("linux", "darwin"):
        return f"not for {sys.implementation.name} on {sys.platform}"
    if os.environ.get("TRAINCHECK_CORE") == "python":
        return "TRAINCHECK_CORE=python asks for none"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "it relies on the global interpreter lock"
    folder = root / SOURCES
    sources = [str(path) for path in sorted(folder.glob("*.c"))]
    if not sources:
        return f"no source in {folder}"
    shared = ("-bundle", "-undefined", "dynamic_lookup") if sys.platform == "darwin" else ("-shared",)
    reason = "no compiler"
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch, TARGET)
        for compiler in compilers():
            words = [*compiler, *FLAGS, *shared, f"-I{sysconfig.get_path('include')}", *sources, "-lm", "-o", str(made)]
            try:
                subprocess.run(words, check=True, capture_output=True, text=True, timeout=300)
                # A process that has the old one in memory keeps it.
                beside = folder / f".{TARGET}.{os.getpid()}"
                beside.write_bytes(made.read_bytes())
                beside.replace(folder / TARGET)
            except OSError:
                continue  # there is no such compiler
            except subprocess.SubprocessError as error:
                reason = (getattr(error, "stderr", None) or str(error)).strip()
            else:
                return ""
    return reason


class CoreHook(BuildHookInterface):  # type: ignore[misc]
    """Adds to a wheel its version and the core. With the core it is for one platform and every CPython from 3.10 on."""

    PLUGIN_NAME = "custom"

    def initialize(
        self,
        version: str,
        build_data: dict[str, Any],
    ) -> None:
        """Build before hatchling collects the files of a wheel; a source distribution has the C source."""
        if self.target_name != "wheel":
            return
        if version != "editable":
            self._say_version(build_data)
        reason = build(Path(self.root))
        if reason:
            (Path(self.root) / SOURCES / TARGET).unlink(missing_ok=True)
            self.app.display_warning(f"the probe's core is not compiled, Python does its work: {reason}")
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["artifacts"].append(f"/{(SOURCES / TARGET).as_posix()}")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp310-abi3-{platform}"

    def _say_version(self, build_data: dict[str, Any]) -> None:
        """Put the version into the package: where the probe is loaded, nobody else knows it.

        A working tree goes on to another version with each commit, so nothing is written there.
        """
        self.scratch = tempfile.TemporaryDirectory()
        written = Path(self.scratch.name, "_version.py")
        written.write_text(
            f'"""The version of this wheel."""\n\nversion = "{self.metadata.version}"\n', encoding="utf-8"
        )
        build_data["force_include"][str(written)] = "pytest_traincheck/_version.py"

    def finalize(
        self,
        version: str,  # noqa: ARG002 - hatchling gives these
        build_data: dict[str, Any],  # noqa: ARG002
        artifact_path: str,  # noqa: ARG002
    ) -> None:
        """Remove what was only written for the wheel."""
        if hasattr(self, "scratch"):
            self.scratch.cleanup()


if __name__ == "__main__":
    sys.exit(build(Path(__file__).resolve().parent) or 0)
