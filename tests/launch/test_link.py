"""`link`: untracked data of the working tree in worktrees, without a way to lose it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_traincheck.cli import main
from pytest_traincheck.config import ConfigError, load
from pytest_traincheck.launch import link
from pytest_traincheck.launch.run import RunRequest, RunStatus, execute
from pytest_traincheck.launch.sides import SideError, open_side, resolve_side

Make = Callable[..., RunRequest]
Git = Callable[..., str]


@pytest.fixture
def tree(repository: Path, git: Git) -> Path:
    """A working tree whose data git ignores."""
    (repository / ".gitignore").write_text("data/\nmore.bin\n")
    (repository / "train.py").write_text("import sys\nprint(open('data/deep/x.txt').read())\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "a pipeline")
    (repository / "data/deep").mkdir(parents=True)
    (repository / "data/deep/x.txt").write_text("precious")
    (repository / "data/y.txt").write_text("precious")
    (repository / "more.bin").write_text("precious")
    return repository


def contents(tree: Path) -> dict[str, str]:
    return {str(path.relative_to(tree)): path.read_text() for path in sorted(tree.rglob("data/**/*")) if path.is_file()}


@pytest.mark.parametrize("most", [10_000, 3, 0], ids=["files", "some directories", "one directory"])
def test_what_is_linked_is_seen_and_survives(tree: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(link, "MAX_LINKS", most)
    before = contents(tree)
    with open_side(resolve_side("HEAD", tree), ["data", "more.bin", "data/deep"]) as side:
        assert (side.path / "data/deep/x.txt").read_text() == "precious"
        assert (side.path / "more.bin").read_text() == "precious"
        assert side.linked == (tree / "data", tree / "more.bin")
        worktree = side.path
    assert not worktree.exists()
    assert contents(tree) == before
    assert (tree / "more.bin").read_text() == "precious"


@pytest.mark.fault(
    area="Runs",
    tried="a run deletes, replaces and creates files in linked data",
    happens="the working tree's own are as they were",
)
def test_files_that_come_and_go_in_a_worktree_are_its_own(tree: Path) -> None:
    before = contents(tree)
    with open_side(resolve_side("HEAD", tree), ["data"]) as side:
        (side.path / "data/cache.bin").write_text("made by the run")
        (side.path / "data/deep/x.txt").unlink()
        (side.path / "data/new.txt").write_text("new")
        (side.path / "data/new.txt").replace(side.path / "data/y.txt")
    assert contents(tree) == before


def test_a_commit_that_has_the_path_keeps_its_own(tree: Path, git: Git) -> None:
    git(tree, "add", "--force", "data/y.txt")
    git(tree, "commit", "--quiet", "-m", "with data")
    git(tree, "rm", "--quiet", "--cached", "data/y.txt")
    git(tree, "commit", "--quiet", "-m", "without data")
    (tree / "data/y.txt").write_text("newer")
    with open_side(resolve_side("HEAD~", tree), ["data"]) as side:
        assert contents(side.path) == {"data/y.txt": "precious"}
        assert side.linked == ()


@pytest.mark.fault(area="Configuration", tried="`link` names `{name}`", happens="exit status 2: *{said}*")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent", "names `absent`, and there is no "),
        ("sub", "of which git tracks `sub/value.txt`"),
        ("train.py", "of which git tracks `train.py`"),
        ("*.py", "there is no "),
    ],
)
def test_what_cannot_be_linked(tree: Path, git: Git, name: str, said: str) -> None:
    with pytest.raises(SideError, match="`link` names") as raised, open_side(resolve_side("HEAD", tree), [name]):
        pytest.fail("linked")
    assert said in str(raised.value)
    assert "take it out" in str(raised.value)
    assert len(git(tree, "worktree", "list").splitlines()) == 1


HOSTILE = {
    "is absolute": "/etc",
    "begins in a home directory": "~/data",
    "leads out of the tree": "../data",
    "leads out of the tree in the middle": "data/../..",
    "is the tree": ".",
    "is the tree, written otherwise": "./",
    "is empty": "",
    "is a space": " ",
    "is git's": ".git",
    "lies in git's": ".git/hooks",
    "holds a NUL character": "a\0b",
}


@pytest.mark.fault(area="Configuration", tried="`link` with a path that {why}, in the {place}", happens="exit status 2")
@pytest.mark.parametrize("why", HOSTILE)
@pytest.mark.parametrize("place", ["configuration", "option"])
def test_hostile_values(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str, why: str
) -> None:
    name = HOSTILE[why]
    monkeypatch.chdir(tree)
    if place == "option":
        with pytest.raises(SystemExit) as left:
            main(["compare", "--golden", "HEAD", "--candidate", ".", "--run", "python train.py", "--link", name])
        assert left.value.code == 2
        assert "argument --link" in capsys.readouterr().err
        return
    text = name.replace("\0", "\\u0000")
    (tree / "traincheck.toml").write_text(f'[pipelines.net]\nrun = "python train.py"\nlink = ["{text}"]\n')
    with pytest.raises(ConfigError, match=r"`pipelines.net.link` names") as raised:
        load(tree)
    assert "Write paths below this file" in str(raised.value)


@pytest.mark.parametrize("value", ['"data"', "[1]", "{}"])
def test_values_of_another_type(tmp_path: Path, value: str) -> None:
    (tmp_path / "traincheck.toml").write_text(f'[pipelines.net]\nrun = "python train.py"\nlink = {value}\n')
    with pytest.raises(ConfigError, match="Write an array of paths"):
        load(tmp_path)


@pytest.mark.fault(
    area="Names and paths",
    tried="a commit with a symbolic link in the way of a linked path",
    happens="exit status 2, nothing is made outside of the worktree",
)
def test_a_link_of_the_commit_does_not_lead_out_of_the_worktree(tmp_path: Path, tree: Path, git: Git) -> None:
    (tmp_path / "outside").mkdir()
    (tree / "way").symlink_to(tmp_path / "outside")
    git(tree, "add", "way")
    git(tree, "commit", "--quiet", "-m", "a way out")
    git(tree, "rm", "--quiet", "--cached", "way")
    git(tree, "commit", "--quiet", "-m", "no way out")
    (tree / "way").unlink()
    (tree / "way").mkdir()
    (tree / "way/data").write_text("x")
    with (
        pytest.raises(SideError, match="leads out of the worktree"),
        open_side(resolve_side("HEAD~", tree), ["way/data"]),
    ):
        pytest.fail("linked")
    assert list((tmp_path / "outside").iterdir()) == []


def test_it_changes_neither_the_spec_nor_what_a_golden_says(tmp_path: Path) -> None:
    prints = set()
    for line in ("", 'link = ["data", "data"]\n'):
        (tmp_path / "traincheck.toml").write_text(f'[pipelines.net]\nrun = "python train.py"\n{line}')
        prints.add(load(tmp_path).pipelines["net"].fingerprint())
    assert load(tmp_path).pipelines["net"].link == ("data",)
    assert len(prints) == 1


def test_a_golden_in_the_cache_knows_what_was_linked(tree: Path) -> None:
    states = [link.linked_state(["data"], tree)]
    states.append(link.linked_state(["data"], tree))
    (tree / "data/deep/x.txt").write_text("other data")
    states.append(link.linked_state(["data"], tree))
    assert states[0] == states[1] != states[2]


def compare(tree: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> int:
    monkeypatch.chdir(tree)
    return main(["compare", "--golden", "HEAD", "--candidate", "HEAD", "--run", "python train.py", *more])


@pytest.mark.fault(
    area="Runs",
    tried="a pipeline reads untracked data in a worktree",
    happens="exit status 3; the error names the path and `link`",
)
def test_a_run_that_misses_data_names_it_and_the_remedy(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(tree, monkeypatch) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert f"a worktree has no {tree / 'data/deep/x.txt'}, since git does not track it" in said
    assert 'Write `link = ["data"]` below the pipeline in the configuration (`--link data` in compare)' in said
    # With it, the run goes through; it trains nothing.
    assert compare(tree, monkeypatch, "--link", "data") == 3
    assert "a worktree has no" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ("open('data/deep/x.txt')", "data"),
        ("open(os.path.abspath('data/y.txt'))", "data"),
        ("os.chdir('sub'); open('../data/y.txt')", ""),
        ("sys.exit('Dataset not found at data/deep, use download=True')", "data"),
        ("sys.exit('open file failed: No such file or directory, file path: more.bin')", "more.bin"),
        ("open('sub/mine/x.txt')", "sub/mine"),
        ("open('absent.txt')", ""),
        ("sys.exit('data/y.txt is broken')", ""),
        ("sys.exit('not found: train.py')", ""),
    ],
)
def test_what_a_worktree_lacks(
    tree: Path, git: Git, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    program: str, found: str,
) -> None:  # fmt: skip
    """Only what the working tree has, the worktree has not, and git does not track is to be linked."""
    (tree / "train.py").write_text(f"import os, sys\n{program}\n")
    git(tree, "commit", "--quiet", "-am", "another pipeline")
    (tree / "sub/mine").mkdir()
    (tree / "sub/mine/x.txt").write_text("mine")
    assert compare(tree, monkeypatch) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert ("a worktree has no" in said) == bool(found), said
    assert f'link = ["{found}"]' in said or not found


def test_a_directory_as_a_side_lacks_nothing(tree: Path, request_for: Make) -> None:
    (tree / "train.py").write_text("open('absent')")
    outcome = execute(request_for("python train.py", cwd=tree))
    assert outcome.status is RunStatus.FAILED
    assert "link" not in outcome.remedy


@pytest.mark.fault(area="Runs", tried="a run writes into a linked file", happens="a note names the file and the remedy")
def test_what_a_run_writes_into_a_linked_file_is_told(
    tree: Path, git: Git, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "train.py").write_text("open('data/y.txt', 'a').write('!'); open('data/new.txt', 'w')\n")
    git(tree, "commit", "--quiet", "-am", "writes into its data")
    assert compare(tree, monkeypatch, "--link", "data") == 3
    said = " ".join(capsys.readouterr().out.split())
    assert (
        f"something in {tree / 'data'} was written, which `link` lets it see and which is no copy: changed `y.txt`."
        in said
    )
    assert "Restore it" in said
    assert not (tree / "data/new.txt").exists()
    assert sorted(path.name for path in (tree / "data").iterdir()) == ["deep", "y.txt"]
