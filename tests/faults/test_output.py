"""What comes from outside is printable wherever it is printed, and nothing of it steers a terminal or a CI service."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from training_story import Loop, Training

from pytest_traincheck.cli import main
from pytest_traincheck.golden.encode import encode
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.printable import PrintableStream, printable, printable_line
from pytest_traincheck.rules.claims import Foreign
from pytest_traincheck.rules.model import Invariant, Kind, Scope

HOSTILE = "a\x1b[2J\x1b]0;title\x07b\x00c\u202ed\ud83d\x7f"
SHOWN = "a␛[2J␛]0;title␇b␀c�d�␡"
COMMAND = "import sys; from pytest_traincheck.cli import main; sys.exit(main())"


def safe(text: str) -> bool:
    return all(line.replace("\t", " ").isprintable() for line in text.split("\n"))


@pytest.mark.fault(
    area="Output", tried="escape sequences, NUL, reversed direction, half pairs", happens="shown as pictures"
)
def test_pictures_take_the_place_of_what_does_not_print() -> None:
    assert printable(HOSTILE) == SHOWN
    assert printable("é ñ 漢字 😀 → …\n\tx") == "é ñ 漢字 😀 → …\n\tx"
    assert printable_line("a\nb\tc") == "a␊b␉c"


@pytest.mark.fault(
    area="Output", tried="a terminal that knows ASCII only", happens="written with escapes; no traceback"
)
def test_a_stream_of_another_encoding() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    PrintableStream(stream).write("é\x1b → \ud83d")
    stream.flush()
    assert raw.getvalue() == b"\\xe9\\u241b \\u2192 \\ufffd"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("::error::x", ": :error::x"),
        ("  ::set-output name=a::b", "  : :set-output name=a::b"),
        ("\t::add-mask::x", "\t: :add-mask::x"),
        ("one\n::stop-commands::x", "one\n: :stop-commands::x"),
        ("##[error]x", "## [error]x"),
        ("a ##[group]x", "a ## [group]x"),
        ("test.py::test_it", "test.py::test_it"),
        ("a = b[::2]", "a = b[::2]"),
    ],
)
@pytest.mark.fault(area="Output", tried="a line `{line}` in a log", happens="printed as `{shown}`: no workflow command")
def test_no_line_is_a_workflow_command(line: str, shown: str) -> None:
    assert printable(line) == shown


@pytest.fixture
def run(tmp_path: Path) -> Path:
    training = Training(tmp_path / "run")
    Loop(steps=3).tell(training)
    return training.write().parent


@pytest.mark.fault(
    area="Output", tried="`traincheck trace` of names with escape sequences", happens="printable, line by line"
)
def test_a_trace(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (process,) = run.glob("proc-*")
    for name in ("symbols.jsonl", "meta.json"):
        text = (process / name).read_text()
        for word in ("train.py", "torch.nn.functional.linear", "2.13.0"):
            text = text.replace(word, word + r"\u001b[2J\n::error::x\ud83d")
        (process / name).write_text(text)
    assert main(["trace", str(run), "--events", "99"]) == 0
    shown = capsys.readouterr().out
    assert "␛[2J␊::error::x�" in shown
    assert safe(shown)
    assert not any(line.lstrip().startswith("::") for line in shown.splitlines())


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    name = "torch.nn.Linear\x1b[2J\n::error::x"
    claim = {"api": name, "per": "run", "times": "some"}
    rule = Invariant("Count", name, Foreign(claim), (), Scope.TRANSFERABLE, Kind.BEHAVIOUR, f"{name} is called", 3, 1)
    path = tmp_path / "g.jsonl"
    path.write_bytes(encode(Golden("g", "s", (rule,), environment={"torch\x1b": "\x1b[31m"}, reason="::error::x")))
    return path


@pytest.mark.fault(area="Output", tried="`traincheck {command}` of a golden with escape sequences", happens="printable")
@pytest.mark.parametrize("command", ["show", "diff"])
def test_a_golden(command: str, golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.jsonl"
    other.write_bytes(encode(replace(Golden("g", "s", ()), reason="\x1b[2J")))
    assert main([command, str(golden), *([str(other)] if command == "diff" else [])]) in (0, 1)
    shown = capsys.readouterr().out
    assert safe(shown)
    assert not any(line.lstrip().startswith("::") for line in shown.splitlines())


ODD = {
    "bytes that are no UTF-8": b"caf\xe9\xff",
    "a line feed": b"a\nb",
    "an escape sequence": b"a\x1b[2Jb",
    "a workflow command": b"::error::x",
    "a leading dash": b"-x",
    "blanks and quotes": b"a 'b' \"c\" $(d)",
    "reversed direction": "a\u202eb".encode(),
    "200 bytes": b"x" * 200,
}


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / os.fsdecode(ODD[request.param])
    path.mkdir()
    return path


def traincheck(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *map(str, arguments)], cwd=cwd, capture_output=True, check=False
    )


@pytest.mark.fault(
    area="Names and paths", tried="a trace and a golden below a directory with {name}", happens="used; printable"
)
@pytest.mark.parametrize(("place", "name"), [(name, name) for name in ODD], indirect=["place"], ids=list(ODD))
def test_traces_and_goldens_in_odd_directories(place: Path, name: str, run: Path) -> None:
    assert name
    shutil.move(run, place / "run")
    for done in (
        traincheck("infer", place / "run", "--output", place / "g.jsonl", cwd=place),
        traincheck("trace", place / "run", cwd=place),
        traincheck("show", place / "g.jsonl", cwd=place),
        traincheck("diff", place / "g.jsonl", place / "g.jsonl", cwd=place),
    ):
        assert done.returncode == 0, done.stderr
        assert safe(done.stdout.decode())
    broken = traincheck("show", place / "absent.jsonl", cwd=place)
    assert broken.returncode == 2
    assert b"Traceback" not in broken.stderr
    assert safe(broken.stderr.decode())


@pytest.mark.fault(
    area="Names and paths", tried="a project below a directory with {name}", happens="errors and reports name it"
)
@pytest.mark.parametrize(("place", "name"), [(name, name) for name in ODD], indirect=["place"], ids=list(ODD))
def test_projects_in_odd_directories(place: Path, name: str) -> None:
    assert name
    (place / "traincheck.toml").write_text('[pipelines.g]\nrun = "true"\n')
    reports = ("--json", "o.json", "--junit", "o.xml", "--html", "o.html")
    done = traincheck("check", *reports, cwd=place)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"has no golden" in done.stderr
    assert safe(done.stderr.decode())
    for report in ("o.json", "o.xml", "o.html"):
        assert b"has no golden" in (place / report).read_bytes()
        (place / report).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.fault(
    area="Names and paths",
    tried="a training below directories with bytes that are no UTF-8, a line feed and an escape sequence",
    happens="learned and checked",
)
def test_a_training_in_odd_directories(tmp_path: Path) -> None:
    place = tmp_path.joinpath(*map(os.fsdecode, [*ODD.values()][:3]))
    place.mkdir(parents=True)
    shutil.copy(Path(__file__).resolve().parents[2] / "fixtures" / "mnist_cnn" / "pipeline.py", place)
    (place / "traincheck.toml").write_text(
        '[pipelines.g]\nrun = "python pipeline.py --steps 3"\nseed_arg = "--seed {seed}"\nseeds = [0]\n'
    )
    refreshed = traincheck("refresh", cwd=place)
    assert refreshed.returncode == 0, refreshed.stderr
    checked = traincheck("check", "--json", "o.json", "--junit", "o.xml", "--html", "o.html", cwd=place)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert safe(checked.stdout.decode())
    for report in ("o.json", "o.xml", "o.html"):
        (place / report).read_text(encoding="utf-8")


@pytest.mark.fault(
    area="Output", tried="pytest ids of subjects with escape sequences and `::`", happens="printable, one part"
)
def test_ids_of_items() -> None:
    from pytest_traincheck.pytest_plugin.items import item_name

    assert item_name("net.a\x1b[2J::b\nc") == "net.a␛[2J:b␊c"


@pytest.mark.fault(
    area="Output", tried="annotations of ours on GitHub", happens="workflow commands still; nothing else is"
)
def test_our_own_commands_pass(tmp_path: Path) -> None:
    (tmp_path / "traincheck.toml").write_text('[pipelines.g]\nrun = "true"\n')
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "check"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "GITHUB_ACTIONS": "true"},
    )  # fmt: skip
    (command,) = [line for line in done.stdout.splitlines() if line.startswith("::")]
    assert command.startswith("::error title=traincheck g")
