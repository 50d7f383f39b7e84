"""`{tmp}` in a command: a fresh directory of each run, whatever its path and the quotes around it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_traincheck.launch.command import parse_command, shell_characters
from pytest_traincheck.launch.run import RunRequest, RunStatus, execute

Make = Callable[..., RunRequest]

PLACES = {
    "nothing unusual": Path("/tmp/plain"),
    "a space": Path("/tmp/my files"),
    "quotes": Path('/tmp/it\'s "mine"'),
    "characters of a shell": Path("/tmp/$HOME `id` \\ & ; *"),
    "braces": Path("/tmp/{seed} {tmp}"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python train.py --out {tmp}", ["train.py", "--out", "TMP"]),
        ("python train.py --out={tmp}/checkpoints", ["train.py", "--out=TMP/checkpoints"]),
        ("python train.py '{tmp}' \"{tmp}/a b\"", ["train.py", "TMP", "TMP/a b"]),
        ("python train.py {other} '{x: {tmp}}' {tmp}{tmp}", ["train.py", "{other}", "{x: TMP}", "TMPTMP"]),
    ],
)
def test_it_stays_one_word(command: str, words: list[str], place: str) -> None:
    tmp = PLACES[place]
    parsed = parse_command(command, "--more {tmp}", tmp)
    assert parsed.argv == ("python", *(word.replace("TMP", str(tmp)) for word in words), "--more", str(tmp))
    assert not parsed.shell


@pytest.mark.fault(
    area="Names and paths",
    tried="`{{tmp}}` in a shell line, its path with {place}",
    happens="it stays one word, in every kind of quotes",
)
@pytest.mark.parametrize("place", PLACES)
def test_it_stays_one_word_in_a_shell_line(place: str) -> None:
    tmp = PLACES[place]
    line = "printf '%s\\n' {tmp} '{tmp}' \"{tmp}\" x{tmp}/y \\{tmp} '{\"a\": {}}' && true"
    parsed = parse_command(line, "", tmp)
    assert parsed.shell
    said = subprocess.run(parsed.argv, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [str(tmp)] * 3 + [f"x{tmp}/y", "{tmp}", '{"a": {}}']


def test_without_it_nothing_is_read_differently() -> None:
    assert parse_command("python -c 'print({1: 2})' {a}", "", Path("/tmp/x")).argv == (
        "python", "-c", "print({1: 2})", "{a}",
    )  # fmt: skip
    assert not shell_characters("{tmp}")


def test_every_run_has_its_own_and_it_is_gone_afterwards(
    tmp_path: Path, project: Path, request_for: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my files").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "my files"))
    (project / "train.py").write_text(
        "import json, os, pathlib, sys\n"
        "seen = [*sys.argv[1:], os.environ['OUT'], os.environ['FRONT']]\n"
        "print(json.dumps([os.listdir(seen[0]), *seen]))\n"
        "deep = pathlib.Path(seen[0], 'deep'); deep.mkdir(); (deep / 'file').write_text('x')\n"
        "deep.chmod(0o500); os.symlink('/etc', seen[0] + '/link')\n"
    )
    seen = []
    for _ in range(2):
        request = request_for(
            "FRONT={tmp} python train.py {tmp}",
            seed=3,
            seed_arg="--log={tmp}/{seed}",
            extra_args="{tmp}",
            env={"OUT": "{tmp}/out"},
        )
        outcome = execute(request)
        assert outcome.status is RunStatus.OK, outcome
        listed, *paths = json.loads((request.run_dir / "stdout.txt").read_text())
        tmp = paths[0]
        assert listed == []
        assert paths == [tmp, f"--log={tmp}/3", tmp, f"{tmp}/out", tmp]
        assert Path(tmp).is_relative_to((tmp_path / "my files").resolve())
        seen.append(tmp)
        record = json.loads((request.run_dir / "run.json").read_text())
        assert record["argv"][1:] == ["train.py", "{tmp}", "--log={tmp}/3", "{tmp}"]
        assert record["command"] == "FRONT={tmp} python train.py {tmp}"
        assert list((tmp_path / "my files").iterdir()) == []
    assert seen[0] != seen[1]
    assert Path("/etc/passwd").exists()


def test_what_is_shown_of_a_failed_run_names_it_as_it_was_written(project: Path, request_for: Make) -> None:
    (project / "train.py").write_text("import sys\nsys.exit('cannot write to ' + sys.argv[1] + '/x')")
    outcome = execute(request_for("python train.py {tmp}"))
    assert "`python train.py {tmp}`" in outcome.message
    assert "cannot write to {tmp}/x" in outcome.output


def test_no_room_for_it_is_one_clear_error(tmp_path: Path, request_for: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    outcome = execute(request_for("python -c pass {tmp}"))
    assert outcome.status is RunStatus.NOT_STARTED
    assert f"No temporary directory can be made in {tmp_path / 'absent'}: No such file" in outcome.message
    assert "TMPDIR" in outcome.remedy
