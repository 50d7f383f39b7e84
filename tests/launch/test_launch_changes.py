"""What differs between two trees: named by git or by looking, read within limits, never from outside."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_traincheck.launch import changes
from pytest_traincheck.launch.changes import Tree, between, code_differs, commit_of_file, read_text, since_commit

Git = Callable[..., str]


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    return write(tmp_path / "a", train_py="one\n", lib__same_py="same\n"), write(
        tmp_path / "b", train_py="two\n", lib__same_py="same\n"
    )


def test_two_directories_differ_in_the_files_that_differ(two: tuple[Path, Path]) -> None:
    old, new = two
    write(old, gone_py="gone\n")
    write(new, lib__more_py="more\n")
    assert between(Tree(old), Tree(new)) == {
        "gone.py": ("gone\n", ""),
        "lib/more.py": ("", "more\n"),
        "train.py": ("one\n", "two\n"),
    }


def test_hidden_files_data_and_installed_packages_are_left_out(two: tuple[Path, Path]) -> None:
    old, new = two
    for name in (".venv/x.py", "site-packages/x.py", "__pycache__/x.py", ".hidden.py", "notes.md", "weights.bin"):
        path = new / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (new / "data.json").write_text("1" * (changes.MAX_BYTES + 1))
    (new / "binary.py").write_bytes(b"\0\1")
    (new / "latin.py").write_bytes(b"\xe4")
    assert set(between(Tree(old), Tree(new))) == {"train.py"}


def test_a_link_that_leads_out_is_not_followed(two: tuple[Path, Path], tmp_path: Path) -> None:
    old, new = two
    (tmp_path / "secret.py").write_text("secret")
    (new / "link.py").symlink_to(tmp_path / "secret.py")
    (new / "folder").symlink_to(tmp_path)
    (new / "loop.py").symlink_to(new / "loop.py")
    os.mkfifo(new / "pipe.py")
    assert set(between(Tree(old), Tree(new))) == {"train.py"}
    assert read_text(new, "../secret.py") is None
    assert read_text(new, str(tmp_path / "secret.py")) is None


def test_the_effort_is_bounded(two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = two
    write(new, **{f"x{number}_py": "x" for number in range(20)})
    monkeypatch.setattr(changes, "MAX_FILES", 7)
    assert len(between(Tree(old), Tree(new))) == 7
    monkeypatch.setattr(changes, "MAX_SCANNED", 3)
    assert len(between(Tree(old), Tree(new))) <= 3


@pytest.fixture
def project_with_history(repository: Path, git: Git) -> Path:
    write(repository, train_py="\n  zero_grad()\nstep()\n\n", lib__model_py="a\nb\nc\nd\ne\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "golden")
    git(repository, "tag", "golden")
    write(repository, train_py="\n  step()\n")
    git(repository, "mv", "lib/model.py", "lib/network.py")
    git(repository, "commit", "--quiet", "-am", "candidate")
    write(repository, config_py="new\n")
    return repository


def test_since_a_commit_edits_renames_and_new_files_are_seen(project_with_history: Path) -> None:
    assert since_commit("golden", project_with_history) == {
        "config.py": ("", "new\n"),
        "train.py": ("\n  zero_grad()\nstep()\n\n", "\n  step()\n"),
    }
    write(project_with_history, lib__network_py="a\nb\nc\nd\nX\n")
    assert since_commit("golden", project_with_history)["lib/network.py"] == ("a\nb\nc\nd\ne\n", "a\nb\nc\nd\nX\n")


def test_a_file_that_git_was_not_told_of_is_followed_to_its_new_name(repository: Path, git: Git) -> None:
    lines = "".join(f"line {number}\n" for number in range(8))
    write(repository, lib__model_py=lines, lib__same_py="a\nb\n", old_py="1\n2\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "golden")
    (repository / "lib" / "model.py").unlink()
    (repository / "lib" / "same.py").unlink()
    (repository / "old.py").unlink()
    write(repository, net_py=lines.replace("3", "4"), lib__twin_py="a\nb\n", new_py="3\n4\n")
    found = since_commit("HEAD", repository)
    assert found == {"net.py": (lines, lines.replace("3", "4")), "old.py": ("1\n2\n", ""), "new.py": ("", "3\n4\n")}
    assert found.renamed == {"net.py": "lib/model.py", "lib/twin.py": "lib/same.py"}


def test_two_directories_are_followed_to_new_names_too(two: tuple[Path, Path]) -> None:
    old, new = two
    write(old, lib__model_py="a\nb\nc\n")
    write(new, lib__net_py="a\nb\nx\n")
    found = between(Tree(old), Tree(new))
    assert found == {"train.py": ("one\n", "two\n"), "lib/net.py": ("a\nb\nc\n", "a\nb\nx\n")}
    assert found.renamed == {"lib/net.py": "lib/model.py"}


def test_data_that_git_knows_is_compared_and_what_lies_about_is_not(repository: Path, git: Git) -> None:
    names = ("words.txt", "rows.csv", "notes.md", "run.ipynb", "LICENSE", "packages.lock")
    for name in names:
        (repository / name).write_text("one\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "golden")
    for name in (*names, "log.txt"):
        (repository / name).write_text("two\n")
    assert set(since_commit("HEAD", repository)) == {"words.txt", "rows.csv"}


def test_a_commit_that_the_repository_lacks_gives_nothing(project_with_history: Path, tmp_path: Path) -> None:
    for commit in ("0" * 40, "", "--output=x", "nonsense"):
        assert since_commit(commit, project_with_history) == {}
    assert since_commit("HEAD", tmp_path) == {}


def test_two_trees_of_one_repository_are_compared_by_git(project_with_history: Path, git: Git, tmp_path: Path) -> None:
    worktrees = {}
    for name in ("golden", "main"):
        git(project_with_history, "worktree", "add", "--quiet", "--detach", str(tmp_path / name), name)
        commit = git(project_with_history, "rev-parse", name)
        worktrees[name] = Tree(tmp_path / name, project_with_history, commit)
    here = Tree(project_with_history, project_with_history)
    edit = {"train.py": ("\n  zero_grad()\nstep()\n\n", "\n  step()\n")}
    assert between(worktrees["golden"], worktrees["main"]) == edit
    assert between(worktrees["golden"], here) == {**edit, "config.py": ("", "new\n")}
    assert between(here, worktrees["golden"])["train.py"] == edit["train.py"][::-1]
    assert between(here, worktrees["golden"])["config.py"] == ("new\n", "")


def test_the_commit_of_a_file_is_the_last_that_changed_it(project_with_history: Path, git: Git, tmp_path: Path) -> None:
    assert commit_of_file(project_with_history / "sub" / "value.txt") == git(
        project_with_history, "rev-parse", "main~2"
    )
    assert commit_of_file(project_with_history / "config.py") == ""
    assert commit_of_file(tmp_path / "nowhere" / "x") == ""
    (project_with_history / "sub" / "value.txt").write_text("edited")
    assert commit_of_file(project_with_history / "sub" / "value.txt") == ""


def test_code_differs_from_a_commit_where_a_training_may(project_with_history: Path, git: Git) -> None:
    top = project_with_history
    store = top / "golden_invariants"
    assert code_differs("golden", top, store)
    git(top, "add", ".")
    git(top, "commit", "--quiet", "-m", "all")
    head = git(top, "rev-parse", "HEAD").strip()
    assert not code_differs(head, top, store)
    for name in ("README.md", "golden_invariants/net.jsonl", "report.json", "trace/events.bin"):
        write(top, **{name.replace("/", "__"): "x"})
    assert not code_differs(head, top, store)
    git(top, "add", "README.md", "golden_invariants")
    assert not code_differs(head, top, store)
    # Data that is in the repository counts, and so does a script that is not yet.
    (top / "sub" / "value.txt").write_text("other data")
    assert code_differs(head, top / "sub", store)
    git(top, "checkout", "--quiet", "sub/value.txt")
    write(top, lib__new_py="x")
    assert code_differs(head, top / "sub", store)


def test_code_differs_between_directories(two: tuple[Path, Path]) -> None:
    old, new = two
    assert code_differs(old, new, new / "golden_invariants")
    assert not code_differs(old, old, old / "golden_invariants")
