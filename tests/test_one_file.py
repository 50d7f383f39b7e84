"""What adding to the package takes: one file, which is found where it lies."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pytest_traincheck import relations
from pytest_traincheck.mutants import mistakes
from pytest_traincheck.relations import builtin
from pytest_traincheck.report import formats, reporter

Add = Callable[[ModuleType, str, str], None]


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Add]:
    """Lets a package have one more file for the length of a test."""
    before = set(sys.modules)

    def put(package: ModuleType, name: str, code: str) -> None:
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])

    reporter._ours.cache_clear()
    yield put
    reporter._ours.cache_clear()
    for name in set(sys.modules) - before:
        del sys.modules[name]


RELATION = """
from pytest_traincheck.relations.shuffled import Shuffled

class Sorted(Shuffled):
    name = "Sorted"

class Helper:
    name = "no relation"
"""


def test_a_relation_is_a_file(add: Add) -> None:
    before = [item.name for item in builtin.relations()]
    add(relations, "sorted", RELATION)
    assert [item.name for item in builtin.relations()] == [*before, "Sorted"]


def test_no_file_with_a_relation_is_forgotten() -> None:
    """As the sources have it, without an import: a class that says what its claims look like is a relation."""
    (folder,) = relations.__path__
    found = {
        target.value
        for path in Path(folder).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and {"name", "claims"} <= set(_assigned(node))
        for target in [_assigned(node)["name"]]
        if isinstance(target, ast.Constant)
    }
    names = [item.name for item in builtin.relations()]
    assert len(names) == len(set(names))
    assert set(names) == found


def _assigned(node: ast.ClassDef) -> dict[str, ast.expr | None]:
    found: dict[str, ast.expr | None] = {}
    for line in node.body:
        if isinstance(line, ast.Assign):
            found |= {target.id: line.value for target in line.targets if isinstance(target, ast.Name)}
        elif isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            found[line.target.id] = line.value
    return found


FORMAT = """
class Titles:
    name = "titles"

    def render(self, document):
        return str([incident["title"] for incident in document["incidents"]])
"""


def test_a_format_of_report_is_a_file(add: Add, tmp_path: Path) -> None:
    add(formats, "titles", FORMAT)
    wanted = reporter.target("titles=out.txt", tmp_path)
    reporter.write(wanted, [])
    assert (tmp_path / "out.txt").read_text() == "[]"


def test_every_file_among_the_formats_gives_the_one_of_its_name() -> None:
    (folder,) = formats.__path__
    assert sorted(reporter.reporters()) == sorted(
        path.stem.replace("_", "-") for path in Path(folder).glob("*.py") if path.stem != "__init__"
    )


MISTAKE = """
from pytest_traincheck.mutants.kind import Kind

KIND = Kind("nothing-saved", "saving", "Nothing is saved.", "It is lost.", "call of `torch.save`")

def plant(mutation):
    raise NotImplementedError
"""


def test_a_planted_mistake_is_a_file(add: Add) -> None:
    before = mistakes.modules()
    add(mistakes, "nothing_saved", MISTAKE)
    (new,) = [module for module in mistakes.modules() if module not in before]
    assert new.KIND.name == "nothing-saved"


def test_a_planted_mistake_is_named_after_its_file() -> None:
    for module in mistakes.modules():
        assert module.KIND.name == module.__name__.rpartition(".")[2].replace("_", "-")
