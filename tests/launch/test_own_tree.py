"""The golden side imports its own code, however the candidate's is installed in its interpreter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_traincheck.launch.run import RunRequest, RunStatus, execute
from pytest_traincheck.probe import own_tree
from pytest_traincheck.probe.own_tree import OwnTree


def make(root: Path, *files: str) -> Path:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"WHERE = {root.name!r}\n")
    return root


def test_a_path_moves_where_the_own_tree_has_its_like(tmp_path: Path) -> None:
    own, other = make(tmp_path / "own", "lib/a.py"), make(tmp_path / "other", "lib/a.py", "built.so", "lib/new.py")
    tree = OwnTree(str(own), [str(other)])
    assert tree.move(str(other / "lib")) == str(own / "lib")
    assert tree.move(str(other)) == str(own)
    assert tree.move(f"{other}/") == str(own)
    for stays in (other / "built.so", own / "lib", tmp_path / "other-too", Path("/usr/lib"), Path("relative")):
        assert tree.move(str(stays)) == str(stays)


def test_what_is_installed_below_the_project_stays(tmp_path: Path) -> None:
    name = ".venv/lib/python3.12/site-packages/torch.py"
    own, other = make(tmp_path / "own", name), make(tmp_path / "other", name)
    assert OwnTree(str(own), [str(other)]).move(str(other / name)) == str(other / name)


def test_trees_inside_one_another(tmp_path: Path) -> None:
    outer = make(tmp_path / "outer", "a.py", "trees/inner/a.py")
    inner = outer / "trees" / "inner"
    assert OwnTree(str(inner), [str(outer)]).move(str(outer / "a.py")) == str(inner / "a.py")
    assert OwnTree(str(inner), [str(outer)]).move(str(inner / "a.py")) == str(inner / "a.py")
    assert OwnTree(str(outer), [str(inner)]).move(str(inner / "a.py")) == str(outer / "a.py")
    assert OwnTree(str(outer), [str(inner)]).move(str(outer / "a.py")) == str(outer / "a.py")


def test_a_tree_that_is_reached_by_a_link(tmp_path: Path) -> None:
    own, other = make(tmp_path / "own", "a.py"), make(tmp_path / "other", "a.py")
    (tmp_path / "link").symlink_to(other)
    tree = OwnTree(str(own), [str(tmp_path / "link")])
    assert tree.move(str(tmp_path / "link" / "a.py")) == tree.move(str(other / "a.py")) == str(own / "a.py")


def test_the_probe_never_moves(tmp_path: Path) -> None:
    """As when this package checks itself: its own tree is the other side's."""
    package = Path(own_tree.__file__).resolve().parents[2]
    own = make(tmp_path / "own", "pytest_traincheck/probe/own_tree.py", "pytest_traincheck/config.py")
    tree = OwnTree(str(own), [str(package)])
    assert tree.move(own_tree.__file__) == own_tree.__file__
    assert tree.move(str(package / "pytest_traincheck/config.py")) == str(own / "pytest_traincheck/config.py")


FINDER = """
import importlib.machinery, importlib.util, sys

class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "hooked":
            return importlib.util.spec_from_file_location(name, ROOT + "/odd/hooked/__init__.py",
                                                          submodule_search_locations=[ROOT + "/odd/hooked"])

        if name == "spread":
            spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [ROOT + "/odd/spread"]
            return spec

sys.meta_path.insert(0, Finder)
"""


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("own-tree") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(target)], check=True)
    return target / "bin" / "python"


MODULES = (
    "flat/net.py",
    "src/inner/net.py",
    "packages/one/src/deep.py",
    "odd/hooked/__init__.py",
    "odd/hooked/part.py",
    "odd/spread/part.py",
)


def test_directories_and_finders_of_editable_installs_lead_to_the_own_tree(
    tmp_path: Path, project: Path, request_for: Callable[..., RunRequest], interpreter: Path
) -> None:
    """A finder that comes before all others, a namespace over two directories, and a package deep in the tree."""
    candidate = make(tmp_path / "candidate", *MODULES, "src/family/early.py", "src/family/late.py")
    make(project, *MODULES, "src/family/early.py")
    site = next((interpreter.parents[1] / "lib").glob("python*/site-packages"))
    (site / "mine.pth").write_text(
        f"{candidate}\n{candidate / 'src'}\n{candidate / 'packages/one/src'}\nimport mine_finder\n"
    )
    (site / "mine_finder.py").write_text(f"ROOT = {str(candidate)!r}\n{FINDER}")
    (project / "train.py").write_text(
        "import deep, hooked, hooked.part, spread.part, flat.net, inner.net, family, family.early, subprocess, sys\n"
        "modules = (deep, hooked, hooked.part, spread.part, flat.net, inner.net, family.early)\n"
        "print([module.WHERE for module in modules])\n"
        "print(len(list(family.__path__)), *spread.__path__, flush=True)\n"
        "subprocess.run([sys.executable, '-c', 'import hooked; print(hooked.WHERE)'], cwd='/', check=True)\n"
    )
    request = request_for("python train.py", python=str(interpreter), side="golden")
    for root, forbidden, name in ((project, (candidate,), "project"), (None, (), "candidate")):
        outcome = execute(RunRequest(**{**vars(request), "source_root": root, "forbidden_roots": forbidden}))
        if name == "candidate":
            # Without the launcher's help the finder and the deep directory win: the test can fail.
            printed = (outcome.run_dir / "stdout.txt").read_text()
            assert printed.startswith("['candidate', 'candidate', 'candidate'")
            continue
        assert outcome.status is RunStatus.OK, outcome
        assert (outcome.run_dir / "stdout.txt").read_text() == f"{[name] * 7}\n1 {project}/odd/spread\n{name}\n"
