"""One file per library, plain data, and no other place that knows a library."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

import pytest_traincheck
from pytest_traincheck import observing
from pytest_traincheck.frameworks.built_in import built_in
from pytest_traincheck.frameworks.description import CallType, Framework, Observation, Wrapper
from pytest_traincheck.frameworks.extensions import Extensions

PACKAGE = Path(pytest_traincheck.__file__).parent
ROOM = PACKAGE / "frameworks"

PAPERLIB = Framework(
    "paperlib",
    versions=("paperlib",),
    wrappers=(Wrapper("Monitored", inner="network", short="Mon"),),
    parallel=("paperlib.Many",),
    samplers=("paperlib.data.Share",),
    observations=(Observation("paperlib.files:write", ("weights",), CallType.SAVE),),
)
FOCAL = Observation("paperlib.losses:focal_loss", ("gamma",), CallType.CLIP)


def test_every_file_of_the_room_is_found() -> None:
    described = {path.stem for path in ROOM.glob("*.py")} - {"__init__", "built_in", "description", "extensions"}
    assert {framework.name.replace(".", "_") for framework in built_in()} == described


def test_what_torch_and_accelerate_bring_is_known() -> None:
    by_name = {framework.name: framework for framework in built_in()}
    distributed = {wrapper.name: wrapper for wrapper in by_name["torch.distributed"].wrappers}
    assert distributed["DistributedDataParallel"].inner == "module"
    assert observing.short_names("DistributedDataParallel") == ("DDP",)
    assert "torch.nn.parallel.DistributedDataParallel".startswith(observing.parallel())
    assert by_name["accelerate"].samplers


def test_looking_at_them_imports_no_library() -> None:
    code = (
        "import sys; from pytest_traincheck.frameworks.built_in import built_in\n"
        "names = {name.partition('.')[0] for item in built_in() for name in (item.name, *item.versions)}\n"
        "sys.exit(', '.join(names & set(sys.modules)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def texts(path: Path) -> Iterator[str]:
    """Every text in a module that is no documentation."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Constant) and isinstance(child.value, str) and not isinstance(node, ast.Expr):
                yield child.value


def names_of_a_library(package: Path) -> set[str]:
    """Modules outside the room that name a wrapper, or a library, as a text of its own."""
    wrappers = [wrapper for framework in built_in() for wrapper in framework.wrappers]
    libraries = {name for framework in built_in() for name in framework.versions if name != "numpy"}
    known = {wrapper.name for wrapper in wrappers} | {item.inner for item in wrappers if item.inner.startswith("_")}
    known |= libraries | {"accelerate.data_loader"}
    paths = (path for path in package.rglob("*.py") if "frameworks" not in path.relative_to(package).parts)
    return {str(path.relative_to(package)) for path in paths if not known.isdisjoint(texts(path))}


def test_no_other_place_names_a_wrapper_or_a_library() -> None:
    # The relation says by which words of code its rules are found; those who plant mistakes plant them somewhere; a law
    # of a library says which one it is about.
    laws = {f"relations/laws/{name}.py" for name in ("adapters", "lightning", "prepared", "sequences")}
    allowed = {"relations/consistent.py", "mutants/ranks.py", *laws}
    assert names_of_a_library(PACKAGE) <= allowed


def test_the_test_above_can_fail(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("INNER = {'DistributedDataParallel': 'module'}\n")
    (tmp_path / "other.py").write_text('"""DistributedDataParallel"""\nVERSIONS = ("peft",)\n')
    (tmp_path / "third.py").write_text('"""DistributedDataParallel"""\n')
    assert names_of_a_library(tmp_path) == {"module.py", "other.py"}


def test_what_plug_ins_tell_arrives_as_it_was_told() -> None:
    told = Extensions((FOCAL, Observation("paperlib:Net")), (PAPERLIB,))
    assert Extensions.from_text(told.to_text()) == told
    assert told
    assert not Extensions()
    assert set(told.digests) == {"paperlib.losses.focal_loss", "paperlib.Net", "framework paperlib"}


@pytest.mark.parametrize("field", [field.name for field in fields(Framework) if field.name != "name"])
def test_a_hash_says_whether_the_same_is_known_of_a_library(field: str) -> None:
    other = replace(PAPERLIB, **{field: ()})  # type: ignore[arg-type]
    assert Extensions((), (PAPERLIB,)).digests != Extensions((), (other,)).digests


def test_a_hash_says_whether_a_function_is_observed_alike() -> None:
    others = (Observation(FOCAL.target), Observation(FOCAL.target, FOCAL.arguments))
    found = {Extensions((item,)).digests["paperlib.losses.focal_loss"] for item in (FOCAL, *others)}
    assert len(found) == 3
