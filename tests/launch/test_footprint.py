"""What runs leave in the user's own tree is found, named once with the remedy, and never made up."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_traincheck.cli import main
from pytest_traincheck.launch import footprint
from pytest_traincheck.launch.footprint import Footprint, difference, snapshot, together
from pytest_traincheck.launch.run import RunRequest, execute
from pytest_traincheck.workflow.files_note import written_notes

Make = Callable[..., RunRequest]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("train.py", "runs/best.pt", "runs/old/log.txt", "deep/er/file"):
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text("before")
    return tmp_path / "tree"


def after(tree: Path, change: Callable[[Path], object]) -> tuple[tuple[str, ...], ...]:
    before = snapshot(tree)
    change(tree)
    found = difference(before, snapshot(tree))
    return found.created, found.changed, found.deleted


def make(path: Path, text: str = "new") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def overwrite_in_place(tree: Path) -> None:
    """The same size, and the time of change put back by hand: only another file in its place shows in its number."""
    status = (tree / "runs/best.pt").stat()
    (tree / "runs/new.pt").write_text("AFTER!")
    (tree / "runs/new.pt").replace(tree / "runs/best.pt")
    os.utime(tree / "runs/best.pt", ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES: dict[str, tuple[Callable[[Path], object], tuple[tuple[str, ...], ...]]] = {
    "nothing": (lambda _: None, ((), (), ())),
    "only reads": (lambda tree: (tree / "train.py").read_text(), ((), (), ())),
    "a checkpoint is overwritten": (lambda tree: make(tree / "runs/best.pt"), ((), ("runs/best.pt",), ())),
    "a log is appended to": (
        lambda tree: (tree / "runs/old/log.txt").open("a").write("more"), ((), ("runs/old/log.txt",), ())
    ),
    "a file is replaced": (overwrite_in_place, ((), ("runs/best.pt",), ())),
    "a file is created": (lambda tree: make(tree / "runs/last.pt"), (("runs/last.pt",), (), ())),
    "a directory is created": (lambda tree: make(tree / "out/deep/last.pt"), (("out/",), (), ())),
    "a file is deleted": (lambda tree: (tree / "deep/er/file").unlink(), ((), (), ("deep/er/file",))),
    "a directory is deleted": (
        lambda tree: ((tree / "deep/er/file").unlink(), (tree / "deep/er").rmdir()), ((), (), ("deep/er/",))
    ),
    "a file becomes a directory": (
        lambda tree: ((tree / "train.py").unlink(), (tree / "train.py").mkdir()), ((), ("train.py",), ())
    ),
    "a link is created": (lambda tree: (tree / "etc").symlink_to("/etc"), (("etc",), (), ())),
    "bytecode and caches": (
        lambda tree: (make(tree / "__pycache__/x.pyc"), make(tree / ".pytest_cache/x"), make(tree / ".git/index")),
        ((), (), ()),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_what_happened_to_a_tree(tree: Path, what: str) -> None:
    change, expected = CHANGES[what]
    assert after(tree, change) == expected


def test_an_environment_is_not_watched(tree: Path) -> None:
    make(tree / "env/pyvenv.cfg")
    assert after(tree, lambda tree: make(tree / "env/lib/module.py")) == ((), (), ())


def test_a_tree_that_is_too_large_is_watched_from_the_top_and_nothing_is_made_up(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        make(tree / f"data/{number}")
    monkeypatch.setattr(footprint, "MAX_ENTRIES", 10)

    def change(tree: Path) -> None:
        make(tree / "train.py")
        make(tree / "data/31")
        (tree / "data/5").unlink()

    assert after(tree, change) == ((), ("train.py",), ())


def test_a_tree_that_is_gone_or_closed_is_nothing_to_watch(tree: Path, tmp_path: Path) -> None:
    assert snapshot(tmp_path / "absent").directories == {}
    before = snapshot(tree)
    assert difference(before, snapshot(tmp_path / "absent")) == Footprint(tree)


def test_several_runs_are_told_together(tmp_path: Path) -> None:
    runs = [
        Footprint(tmp_path, created=("out/", "x"), changed=("log",)),
        Footprint(tmp_path, changed=("log", "x"), deleted=("y",)),
        Footprint(tmp_path, created=("y",), deleted=("x",)),
        Footprint(tmp_path / "other", created=("z",)),
    ]
    first, second = together(runs)
    assert (first.created, first.changed, first.deleted) == (("out/",), ("log", "y"), ())
    assert second.created == ("z",)
    notes = written_notes("golden", runs)
    assert len(notes) == 2
    assert "created `out/`; changed `log`, `y`." in notes[0]
    assert "python train.py --output {tmp}" in notes[0]


def test_the_run_tells_what_it_did_but_not_what_we_did(project: Path, request_for: Make) -> None:
    (project / "train.py").write_text("open('model.pt', 'w').write('x')")
    request = request_for("python train.py", run_dir=project / "trace", watched=(project,), ours=(project / "trace",))
    assert execute(request).written == (Footprint(project, created=("model.pt",)),)
    request = request_for("python train.py", run_dir=project / "trace", watched=(project,), ours=(project / "trace",))
    assert execute(request).written == (Footprint(project, changed=("model.pt",)),)
    (project / "train.py").write_text("pass")
    assert execute(request).written == ()


WRITES = "import pathlib\npathlib.Path('model.pt').write_text('x')\n"


@pytest.mark.fault(
    area="Runs",
    tried="a pipeline writes into the tree, golden is {golden}",
    happens="one note for each tree that is no worktree names the file and `{{tmp}}`",
)
@pytest.mark.parametrize("golden", ["HEAD", "."])
def test_a_check_names_it_once(
    repository: Path, git: Callable[..., str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    golden: str,
) -> None:  # fmt: skip
    """In a worktree it is thrown away, and nothing needs to be said."""
    (repository / "train.py").write_text(WRITES)
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "writes")
    monkeypatch.chdir(repository)
    assert main(["compare", "--golden", golden, "--candidate", ".", "--run", "python train.py"]) == 3
    said = " ".join(capsys.readouterr().out.split())
    expected = f"files of {repository} were written: created `model.pt`"
    assert said.count(expected) == (golden == ".")


def test_collect_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text(WRITES)
    monkeypatch.chdir(tmp_path)
    main(["collect", "--run", "python train.py", "--output", "trace"])
    said = " ".join(capsys.readouterr().out.split())
    assert f"files of {tmp_path} were written: created `model.pt`" in said
    assert "`trace" not in said
