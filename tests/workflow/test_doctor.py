"""`traincheck doctor` on real interpreters, repositories and directories, whole and broken ones."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from pytest_traincheck.cli import main
from pytest_traincheck.launch.torch_of import describe
from pytest_traincheck.workflow.doctor import Finding, Level, examine

PIPELINE = "[tool.traincheck.pipelines.net]\nrun = 'python train.py --data data/train --out=out'\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "pyproject.toml").write_text(PIPELINE)
    (root / "train.py").write_text("import torch\n")
    monkeypatch.chdir(root)
    monkeypatch.setenv("TRAINCHECK_CACHE_DIR", str(tmp_path / "cache"))
    # A path may be so long that a line is folded in the middle of what is looked for.
    monkeypatch.setenv("COLUMNS", "400")
    return root


def commit(root: Path) -> None:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "--quiet"], ["add", "."], [*who, "commit", "--quiet", "-m", "first"]):
        subprocess.run(["git", "-C", str(root), *words], check=True)


def found(root: Path) -> dict[str, Finding]:
    return {finding.subject: finding for finding in examine(root)}


def configure(root: Path, line: str) -> None:
    (root / "pyproject.toml").write_text(f"[tool.traincheck]\n{line}\n{PIPELINE}")


@pytest.mark.slow
def test_all_is_well(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commit(project)
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "wrong" not in said
    assert "torch 2." in said
    assert subprocess.run(
        ["git", "-C", str(project), "worktree", "list"], capture_output=True, text=True, check=True
    ).stdout.count("\n") == 1  # fmt: skip


@pytest.mark.slow
def test_an_interpreter_without_torch(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    configure(project, f"golden_python = '{tmp_path}/bare/bin/python'")
    findings = found(project)
    assert findings["interpreter (golden)"].level is Level.WRONG
    assert "No module named 'torch'" in findings["interpreter (golden)"].said
    assert "-m pip install torch" in findings["interpreter (golden)"].remedy
    assert findings["interpreter (candidate)"].level is Level.FINE
    assert main(["doctor"]) == 2
    assert "wrong" in capsys.readouterr().out


def test_an_interpreter_that_does_not_exist(project: Path) -> None:
    configure(project, "python = 'nowhere/python'")
    (finding,) = (finding for finding in examine(project) if finding.subject == "interpreter")
    assert finding.level is Level.WRONG
    assert "does not exist" in finding.said


def test_an_interpreter_that_dies_at_torch(project: Path, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text(
        f"#!/bin/sh\ncase \"$*\" in *torch*) echo 'Illegal instruction' >&2; exit 132;; esac\n"
        f'exec "{sys.executable}" "$@"\n'
    )
    broken.chmod(0o755)
    configure(project, f"python = '{broken}'")
    finding = found(project)["interpreter"]
    assert (finding.level, "Illegal instruction" in finding.said) == (Level.WRONG, True)


@pytest.mark.slow
def test_without_the_compiled_core(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINCHECK_CORE", "python")
    assert not describe(None).core
    assert found(project)["recorder"].level is Level.NOTE


class Quick:
    """Without interpreters, which take seconds."""

    @pytest.fixture(autouse=True)
    def _no_interpreters(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pytest_traincheck.workflow.doctor._interpreters", lambda _: iter(()))


class TestPieces(Quick):
    def test_no_configuration(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        finding = found(tmp_path)["configuration"]
        assert finding.level is Level.WRONG
        assert "[tool.traincheck.pipelines.my_model]" in finding.said

    def test_no_git(self, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert (found(project)["git"].level, found(project)["git"].said) == (Level.NOTE, "not installed")

    def test_no_repository_and_no_commit(self, project: Path) -> None:
        assert "is in no repository" in found(project)["git"].said
        subprocess.run(["git", "init", "--quiet"], cwd=project, check=True)
        assert "has no commit yet" in found(project)["git"].said

    def test_a_shallow_clone(self, project: Path, tmp_path: Path) -> None:
        commit(project)
        (project / "train.py").write_text("import torch  # again\n")
        commit(project)
        subprocess.run(
            ["git", "clone", "--quiet", "--depth", "1", f"file://{project}", str(tmp_path / "clone")], check=True
        )
        assert "git fetch --unshallow" in found(tmp_path / "clone")["history"].remedy

    def test_changed_files(self, project: Path) -> None:
        commit(project)
        assert "changes" not in found(project)
        (project / "train.py").write_text("import torch  # again\n")
        assert found(project)["changes"].said.endswith(": 1")

    def test_untracked_data(self, project: Path) -> None:
        (project / ".gitignore").write_text("data/\nout/\n")
        commit(project)
        assert "data of net" not in found(project)
        (project / "data" / "train").mkdir(parents=True)
        (project / "data" / "train" / "a.bin").write_bytes(b"1")
        assert found(project)["data of net"].remedy.startswith('Write `link = ["data"]`')
        (project / "pyproject.toml").write_text(PIPELINE + "link = ['data']\n")
        assert "data of net" not in found(project)

    def test_a_link_that_leads_nowhere(self, project: Path) -> None:
        commit(project)
        (project / "pyproject.toml").write_text(PIPELINE + "link = ['data']\n")
        assert found(project)["data of net"].level is Level.WRONG

    def test_goldens(self, project: Path) -> None:
        assert "traincheck refresh net" in found(project)["goldens"].remedy

    @pytest.mark.skipif(os.geteuid() == 0, reason="a superuser writes everywhere")
    def test_no_room_for_a_cache(self, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o500)
        monkeypatch.setenv("TRAINCHECK_CACHE_DIR", str(closed / "cache"))
        assert found(project)["cache"].level is Level.WRONG

    def test_a_cache_that_is_a_file(self, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("TRAINCHECK_CACHE_DIR", str(tmp_path / "file"))
        assert "TRAINCHECK_CACHE_DIR" in found(project)["cache"].remedy
