"""What can be imported without the probe can be imported with it: every public module of libraries that train."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from farm import BOOTSTRAP, trace_faults

WALKER = Path(__file__).parent / "walk_modules.py"

LIBRARIES = (
    "torch",
    *(pytest.param(name, marks=pytest.mark.sweep) for name in ("transformers", "accelerate", "lightning", "peft")),
)

LIMIT_S = 580
"""Seconds for all modules of a library; an import that takes as long by itself is left out."""

SAMPLED = 25
"""Every so-many-th module is imported where not all are asked for."""

ALWAYS = frozenset({"torch.distributed.optim", "torch.distributed.tensor", "torch.ao.quantization", "torch.testing"})
"""These script classes, or look at their callers, while they are imported."""

SCRIPTS = frozenset({"__main__", "setup", "conftest"})
"""Modules that do something when they are imported, or belong to another build."""


def public_modules(library: str) -> list[str]:
    """Names of all modules below a library's package, by its files: nothing is imported to find them."""
    spec = importlib.util.find_spec(library)
    assert spec is not None
    assert spec.submodule_search_locations
    root = Path(spec.submodule_search_locations[0])
    found = {library}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if all(part.isidentifier() and not part.startswith("_") and part not in SCRIPTS for part in parts):
            found.add(".".join((library, *parts)))
    return sorted(found)


def of_sample(library: str, names: list[str]) -> list[str]:
    """The library itself and a part of its modules, of which there are thousands."""
    wanted = {library, *names[::SAMPLED]} | ALWAYS
    return [name for name in names if name in wanted]


def walk(names: list[str], place: Path, trace_dir: Path | None) -> tuple[dict[str, str], str | None]:
    """What came of each import, and the module at which the interpreter ended or hung, or None."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRAINCHECK_")}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1", "PYTHONPATH": ""}
    if trace_dir is not None:
        environment |= {"TRAINCHECK_TRACE_DIR": str(trace_dir), "PYTHONPATH": str(BOOTSTRAP)}
    place.mkdir(exist_ok=True)
    with (place / "names").open("w+") as stdin, (place / "out").open("w+") as stdout:
        stdin.write("\n".join(names))
        stdin.seek(0)
        try:
            command = [sys.executable, str(WALKER)]
            subprocess.run(
                command, cwd=place, env=environment, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL,
                timeout=LIMIT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            pass
        stdout.seek(0)
        lines = [line.split() for line in stdout.read().splitlines()]
    results = {words[1]: words[2] for words in lines if words[0] == "result"}
    begun = [words[1] for words in lines if words[0] == "import"]
    ended = lines[-1:] == [["end"]]
    return results, None if ended else begun[-1]


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_module_is_imported_as_without_the_probe(
    library: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    names = public_modules(library)
    if request.config.getoption("identity") != "all":
        names = of_sample(library, names)
    plain, stopped = walk(names, tmp_path / "place", None)
    for _ in range(5):
        if stopped is None:
            break
        names.remove(stopped)
        plain, stopped = walk(names, tmp_path / "place", None)
    assert stopped is None, f"importing {stopped} ends the interpreter without the probe too"
    assert "ok" in plain.values()
    observed, stopped = walk(names, tmp_path / "place", tmp_path / "trace")
    assert stopped is None, f"importing {stopped} ends the interpreter under the probe, or hangs"
    assert {name: (plain[name], observed[name]) for name in names if plain[name] != observed[name]} == {}
    assert trace_faults(tmp_path / "trace") == []
