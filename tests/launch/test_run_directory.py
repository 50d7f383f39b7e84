"""Nothing is removed or overwritten that a run, a check or a refresh has not written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_traincheck.cli import main
from pytest_traincheck.golden import store
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.launch.run import RunRequest, RunStatus, execute
from pytest_traincheck.launch.run_directory import ForeignDirectoryError, clear, is_run_directory, require_usable

Make = Callable[..., RunRequest]


def content(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): path.read_text() if path.is_file() else ""
        for path in sorted(directory.rglob("*"))
    }


def fill(directory: Path) -> dict[str, str]:
    """A directory of the user's whose names look like ours."""
    for name in ("bin/tool", "proc-1-1/meta.json", "proc-data/rows", "stdout.txt", "run.json", "mutants-1.txt"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("mine")
    return content(directory)


@pytest.mark.fault(
    area="Runs",
    tried="`collect --output` onto a directory with files like ours, `run.json`: {id}",
    happens="exit status 2, nothing is touched",
)
@pytest.mark.parametrize(
    "record",
    [
        pytest.param("mine", id="no JSON"),
        pytest.param("[]", id="no object"),
        pytest.param('{"format": 1, "command": "train"}', id="of another program"),
        pytest.param("[" * 100_000, id="nested deeply"),
        pytest.param(None, id="none"),
    ],
)
def test_collect_leaves_a_foreign_directory_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], record: str | None
) -> None:
    directory = tmp_path / "work"
    fill(directory)
    if record is None:
        (directory / "run.json").unlink()
    else:
        (directory / "run.json").write_text(record)
    before = content(directory)
    assert main(["collect", "--run", "python -c pass", "--output", str(directory)]) == 2
    assert content(directory) == before
    said = capsys.readouterr().err
    assert said.startswith(f"traincheck: error: {directory} is no directory of an earlier run and is not empty")
    assert said.rstrip().endswith("Give a new or an empty directory.")


@pytest.mark.fault(
    area="Runs",
    tried="`collect --output` onto a link to a foreign directory",
    happens="exit status 2, nothing is touched",
)
def test_a_link_to_a_foreign_directory_is_one(tmp_path: Path) -> None:
    before = fill(tmp_path / "work")
    (tmp_path / "link").symlink_to(tmp_path / "work")
    with pytest.raises(ForeignDirectoryError):
        clear(tmp_path / "link")
    assert content(tmp_path / "work") == before


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "work").write_text("mine")
    with pytest.raises(ForeignDirectoryError, match="is no directory, and a run is recorded in one"):
        require_usable(tmp_path / "work")


def test_a_directory_of_ours_is_used_again_and_keeps_what_others_put_there(request_for: Make) -> None:
    request = request_for("python -c pass")
    assert execute(request).status is RunStatus.OK
    assert is_run_directory(request.run_dir)
    for name in ("bin/tool", "proc-notes/text", "notes.txt"):
        (request.run_dir / name).parent.mkdir(exist_ok=True)
        (request.run_dir / name).write_text("mine")
    assert execute(request).status is RunStatus.OK
    assert {"bin/tool", "proc-notes/text", "notes.txt"} <= content(request.run_dir).keys()


def test_a_directory_is_ours_from_the_first_file_on(project: Path, request_for: Make) -> None:
    """A run that is killed at any moment leaves a directory that can be used again."""
    (project / "train.py").write_text(
        "import json, os\nprint(json.load(open(os.environ['TRAINCHECK_TRACE_DIR'] + '/run.json'))['status'])"
    )
    request = request_for("python train.py")
    assert execute(request).status is RunStatus.OK
    assert (request.run_dir / "stdout.txt").read_text() == "running\n"


@pytest.mark.fault(
    area="Runs", tried="`--artifacts` onto a directory with a foreign `{name}`", happens="it is not overwritten"
)
@pytest.mark.parametrize("name", ["golden.jsonl", "result.json", "candidate/thesis.txt", "golden-seed0/thesis.txt"])
def test_artifacts_are_not_kept_over_foreign_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "kept" / "train" / name
    file.parent.mkdir(parents=True)
    file.write_text('{"text": "mine"}')
    (tmp_path / "train.py").write_text("import sys\n")
    arguments = ["compare", "--golden", ".", "--candidate", ".", "--run", "python train.py", "--artifacts", "kept"]
    status = main(arguments)
    assert file.read_text() == '{"text": "mine"}'
    if name.startswith("candidate"):
        # Never reached: the golden run trains nothing.
        assert status == 3
        return
    assert status == 2
    assert str(file.parent) in capsys.readouterr().err


def test_artifacts_of_an_earlier_check_are_replaced(tmp_path: Path) -> None:
    from pytest_traincheck.check.result import CheckResult
    from pytest_traincheck.workflow.candidate import keep_artifacts
    from pytest_traincheck.workflow.runs import kept_workspace

    for _ in range(2):
        space = kept_workspace(tmp_path, "net")
        keep_artifacts(space, CheckResult("net"), Golden("net", "0" * 16, (), "", {}, (0,), 1))
    assert json.loads((space.path / "result.json").read_text())["pipeline"] == "net"


@pytest.mark.fault(
    area="Goldens",
    tried="`infer --output` onto a file that was never a golden",
    happens="exit status 2, not overwritten",
)
def test_infer_does_not_write_over_a_foreign_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "train.jsonl"
    file.write_text('{"text": "an example"}\n' * 3)
    assert main(["infer", str(tmp_path / "run"), "--output", str(file)]) == 2
    assert f"{file} is no golden and would be overwritten" in capsys.readouterr().err
    assert file.read_text() == '{"text": "an example"}\n' * 3


@pytest.mark.parametrize(
    ("text", "replaceable"),
    [
        ("", True),
        ("whole", True),
        ("half", True),
        ("<<<<<<< HEAD\nwhole", True),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", True),
        ('{"prompt": "a", "answer": "b"}\n', False),
        ("import torch\n", False),
    ],
)
def test_what_was_a_golden_once_may_be_replaced(tmp_path: Path, text: str, replaceable: bool) -> None:
    file = tmp_path / "net.jsonl"
    store.write(file, Golden("net", "0" * 16, (), "", {}, (0,), 1))
    whole = file.read_text()
    file.write_text(text.replace("whole", whole).replace("half", whole[: len(whole) // 2]))
    assert store.is_golden(file) is replaceable


@pytest.mark.fault(area="Output", tried="`{option}` names a directory", happens="exit status 2, it stays")
@pytest.mark.parametrize("option", ["--json", "--html", "--junit"])
def test_a_report_does_not_replace_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out" / "deep").mkdir(parents=True)
    with pytest.raises(SystemExit) as left:
        main(["compare", "--golden", ".", "--candidate", ".", "--run", "python -c pass", option, "out"])
    assert left.value.code == 2
    assert "is a directory; give the path of a file" in capsys.readouterr().err
    assert (tmp_path / "out" / "deep").is_dir()
