"""Each side imports its own code: through the import path first, and verified afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_traincheck.launch.environment import BOOTSTRAP, child_environment, python_path
from pytest_traincheck.launch.isolation import find_breach
from pytest_traincheck.launch.run import RunRequest, RunStatus, execute


def record(run_dir: Path, *modules: object, name: str = "proc-1-1") -> Path:
    (run_dir / name).mkdir(parents=True)
    (run_dir / name / "meta.json").write_text(json.dumps({"modules": list(modules), "cwd": str(run_dir)}))
    return run_dir


def test_a_module_of_the_other_tree_is_found_in_any_process(tmp_path: Path) -> None:
    run = record(tmp_path / "run", str(tmp_path / "golden" / "a.py"))
    record(run, str(tmp_path / "candidate" / "b.py"), str(tmp_path / "candidate" / "a.py"), name="proc-2-1")
    breach = find_breach(run, tmp_path / "golden", (tmp_path / "candidate",))
    assert breach is not None
    assert (breach.module, breach.count) == (tmp_path / "candidate" / "a.py", 2)
    message = breach.message("golden", tmp_path / "golden")
    assert "a.py and 1 more" in message
    assert "the other side's tree" in message


def test_trees_inside_one_another(tmp_path: Path) -> None:
    """A worktree below the repository is its own tree, and so is a candidate directory below the golden one."""
    repo, worktree = tmp_path / "repo", tmp_path / "repo" / ".worktrees" / "golden"
    inner = record(tmp_path / "inner", str(worktree / "a.py"))
    assert find_breach(inner, worktree, (repo,)) is None
    assert find_breach(inner, repo, (worktree,)) is not None
    outer = record(tmp_path / "outer", str(repo / "a.py"))
    assert find_breach(outer, worktree, (repo,)) is not None
    assert find_breach(outer, repo, (worktree,)) is None


def test_a_name_that_only_begins_alike_is_elsewhere(tmp_path: Path) -> None:
    run = record(tmp_path / "run", str(tmp_path / "repo-old" / "a.py"))
    assert find_breach(run, tmp_path / "golden", (tmp_path / "repo",)) is None


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "candidate").mkdir()
    (tmp_path / "candidate" / "a.py").write_text("")
    (tmp_path / "golden").mkdir()
    (tmp_path / "golden" / "pkg").symlink_to(tmp_path / "candidate")
    run = record(tmp_path / "run", str(tmp_path / "golden" / "pkg" / "a.py"))
    assert find_breach(run, tmp_path / "golden", (tmp_path / "candidate",)) is not None


def test_the_probe_itself_is_no_breach(tmp_path: Path) -> None:
    run = record(tmp_path / "run", str(BOOTSTRAP / "sitecustomize.py"))
    assert find_breach(run, tmp_path, (BOOTSTRAP.parent.parent.parent,)) is None


def test_a_record_that_is_broken_or_hostile_is_no_crash(tmp_path: Path) -> None:
    run = record(tmp_path / "run", 3, None, "a\0b", "relative.py")
    for number, text in enumerate(["", "[]", '{"modules": 3}', "[" * 100_000, "\udcff".encode("utf-8", "replace")]):
        (run / f"proc-{number}-2").mkdir()
        content = text if isinstance(text, bytes) else text.encode()
        (run / f"proc-{number}-2" / "meta.json").write_bytes(content)
    assert find_breach(run, tmp_path / "golden", (tmp_path / "candidate",)) is None


def test_the_import_path_has_the_source_tree_before_what_was_there(tmp_path: Path) -> None:
    golden, candidate = tmp_path / "golden", tmp_path / "candidate"
    for directory in (golden / "src", golden / "lib", candidate / "lib", candidate / "gone"):
        directory.mkdir(parents=True)
    before = os.pathsep.join([str(candidate / "lib"), str(candidate / "gone"), "relative", "/opt/shared"])
    assert python_path(before, golden, (candidate,)) == [
        str(BOOTSTRAP),
        str(golden),
        str(golden / "src"),
        str(golden / "lib"),
        "relative",
        "/opt/shared",
    ]
    assert python_path("", None, ()) == [str(BOOTSTRAP), ""]


@pytest.mark.parametrize("before", ["", "/opt/shared", "/opt/shared:"])
@pytest.mark.parametrize(
    "export",
    ["", "export PYTHONPATH=src:$PYTHONPATH;", 'export PYTHONPATH="$PYTHONPATH:src";', "unset PYTHONPATH;",
     "export PYTHONPATH=$PWD:$PYTHONPATH;", "cd src;"],
)  # fmt: skip
def test_a_program_imports_from_where_it_does_without_us(tmp_path: Path, before: str, export: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "train.py").write_text("import sys; print(*sys.path, sep='\\n')")
    base = {"PATH": os.environ["PATH"], **({"PYTHONPATH": before} if before else {})}
    ours = child_environment(
        base, run_dir=tmp_path / "run", run_id="r", path_first=(), interpreter=Path(sys.executable)
    )

    def imports(environment: dict[str, str], option: str) -> list[str]:
        words = ["sh", "-c", f"{export} {sys.executable} {option}"]
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return [line for line in done.stdout.splitlines() if line != str(BOOTSTRAP)]

    for option in (f"{tmp_path}/scripts/train.py", "-c 'import sys; print(*sys.path, sep=\"\\n\")'"):
        assert imports(ours, option) == imports(base, option)


def test_what_an_outer_run_set_does_not_leak_into_this_one(tmp_path: Path) -> None:
    base = {"TRAINCHECK_SEED": "9", "TRAINCHECK_RUN_ID": "outer", "PYTHONHOME": "/x", "VIRTUAL_ENV": "/y", "PATH": "/z"}
    env = child_environment(
        base, run_dir=tmp_path, run_id="r", path_first=(tmp_path,), interpreter=tmp_path / "b" / "p"
    )
    assert env["PATH"] == f"{tmp_path}{os.pathsep}/z"
    assert env["TRAINCHECK_RUN_ID"] == "r"
    assert not {"TRAINCHECK_SEED", "PYTHONHOME", "VIRTUAL_ENV"} & set(env)


def test_an_editable_install_of_the_candidate_does_not_win(
    tmp_path: Path, project: Path, request_for: Callable[..., RunRequest], bare_venv: Path
) -> None:
    """The golden interpreter has the candidate installed the editable way; the golden tree is imported all the same."""
    candidate = tmp_path / "candidate"
    for tree in (project, candidate):
        (tree / "src").mkdir(parents=True)
        (tree / "src" / "my_model.py").write_text(f"WHERE = {tree.name!r}\n")
    site = next((bare_venv / "lib").glob("python*/site-packages"))
    (site / "my_model.pth").write_text(f"{candidate / 'src'}\n")
    (project / "train.py").write_text("import my_model; print(my_model.WHERE)\n")
    request = request_for(
        "python train.py",
        python=str(bare_venv / "bin" / "python"),
        source_root=project,
        forbidden_roots=(candidate,),
        side="golden",
    )
    outcome = execute(request)
    assert outcome.status is RunStatus.OK, outcome
    assert (outcome.run_dir / "stdout.txt").read_text() == "project\n"


@pytest.fixture
def bare_venv(tmp_path: Path) -> Path:
    """An interpreter in which neither this package nor anything else is installed."""
    target = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(target)], check=True)
    return target


def test_an_interpreter_without_this_package(
    project: Path, request_for: Callable[..., RunRequest], bare_venv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (project / "train.py").write_text(
        "import importlib.util, sys\n"
        "print(sys.prefix, [n for n in ('numpy', 'psutil', 'pytest_traincheck') if importlib.util.find_spec(n)])\n"
    )
    (project / "train.sh").write_text("python train.py\npython3 train.py\n")
    for command, times in (("python train.py", 1), ("sh train.sh", 2), ("cd . && python train.py", 1)):
        request = request_for(command, python=str(bare_venv / "bin" / "python"), source_root=project)
        outcome = execute(request)
        assert outcome.status is RunStatus.OK, outcome
        assert (outcome.run_dir / "stdout.txt").read_text() == f"{bare_venv} []\n" * times
        assert (outcome.run_dir / "stderr.txt").read_text() == ""
        assert json.loads((outcome.run_dir / "run.json").read_text())["python"] == str(bare_venv / "bin" / "python")


def test_a_mistake_is_planted_on_purpose_only(tmp_path: Path) -> None:
    """What a shell still holds from an experiment must not reach a run, least of all one of a golden."""

    def environment(mutant: str) -> dict[str, str]:
        return child_environment(
            {"TRAINCHECK_MUTANT": "loss-scaled"},
            run_dir=tmp_path,
            run_id="1",
            path_first=(),
            interpreter=Path(sys.executable),
            mutant=mutant,
        )

    assert "TRAINCHECK_MUTANT" not in environment("")
    assert environment("step-twice")["TRAINCHECK_MUTANT"] == "step-twice"
