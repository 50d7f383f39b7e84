"""Whatever is wrong with a trace, every command that reads it gives one error that names the file, and ends."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trace_builder import SKETCH_ROW
from training_story import Loop, Recorder, Training

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.cli import main
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.trace import TraceError, load_run
from pytest_traincheck.trace import format as fmt

Damage = Callable[[Path], object]


def rows(change: Callable[[Any], object]) -> Damage:
    def damage(process: Path) -> None:
        table = np.frombuffer((process / "events.bin").read_bytes(), dtype=fmt.EVENT)
        table = table[table["kind"] != fmt.END].copy()
        changed = change(table)
        (process / "events.bin").write_bytes((table if changed is None else changed).tobytes())

    return damage


def put(column: str, value: int, row: int = 0, kind: int = 0) -> Damage:
    def change(table: Any) -> None:
        at = np.flatnonzero(table["kind"] == kind)[row] if kind else row
        table[column][at] = value

    return rows(change)


def meta(**fields: Any) -> Damage:
    def damage(process: Path) -> None:
        content = json.loads((process / "meta.json").read_text())
        (process / "meta.json").write_text(json.dumps({**content, **fields}))

    return damage


def content(name: str, data: bytes) -> Damage:
    return lambda process: (process / name).write_bytes(data)


def edited(name: str, change: Callable[[bytes], bytes]) -> Damage:
    return lambda process: (process / name).write_bytes(change((process / name).read_bytes()))


def symbol(kind: str, **fields: Any) -> Damage:
    """The first symbol of a kind with other fields; a field that is `...` is taken away."""

    def damage(process: Path) -> None:
        lines = [json.loads(line) for line in (process / "symbols.jsonl").read_text().splitlines()]
        first = next(line for line in lines if line["k"] == kind)
        first.update(fields)
        for name in [name for name, value in first.items() if value is ...]:
            del first[name]
        (process / "symbols.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    return damage


def instead(name: str, make: Callable[[Path], object]) -> Damage:
    def damage(process: Path) -> None:
        (process / name).unlink()
        make(process / name)

    return damage


def _row(kind: int) -> Any:
    return np.array([(kind, *[0] * (len(fmt.EVENT) - 1))], fmt.EVENT)


def deep(depth: int) -> Any:
    return {"list": [deep(depth - 1)]} if depth else 0


EVENTS, SYMBOLS, META, SKETCHES = "events.bin", "symbols.jsonl", "meta.json", "sketches.bin"

DAMAGED: dict[str, tuple[Damage, str, str]] = {
    "events.bin ends in the middle of a row": (edited(EVENTS, lambda data: data.rstrip(b"\0")[:-70]), EVENTS, "middle"),
    "events.bin lost its last rows": (rows(lambda table: table[:-3]), EVENTS, "and the process wrote"),
    "events.bin is empty": (content(EVENTS, b""), EVENTS, "and the process wrote"),
    "events.bin is zeros": (content(EVENTS, bytes(6400)), EVENTS, "and the process wrote"),
    "events.bin is missing": (lambda process: (process / EVENTS).unlink(), EVENTS, "missing"),
    "events.bin is a directory": (instead(EVENTS, Path.mkdir), EVENTS, "not a file"),
    "events.bin is a link to itself": (instead(EVENTS, lambda path: path.symlink_to(path)), EVENTS, "not a file"),
    "events.bin is a link to a device": (instead(EVENTS, lambda path: path.symlink_to("/dev/zero")), EVENTS, "not a"),
    "events.bin is a pipe": (instead(EVENTS, os.mkfifo), EVENTS, "not a file"),
    "events.bin is text": (content(EVENTS, b"hello world, this is no row\n" * 50), EVENTS, ""),
    "events.bin was overwritten in its middle": (edited(EVENTS, lambda data: data[:640] + b"\xff" * 640 + data[1280:]),
                                                 EVENTS, "no known kind"),
    "a row of zeros in the middle": (rows(lambda table: table.__setitem__(5, np.zeros((), fmt.EVENT))), EVENTS, "row"),
    "a row of no kind": (put("kind", 9, 4), EVENTS, "row 5: it is of no known kind"),
    "a call that is its own parent": (rows(lambda table: table["parent"].__setitem__(7, table["seq"][7])), EVENTS,
                                      "begins later"),
    "two calls that are each other's parents": (
        rows(lambda table: table["parent"].__setitem__([7, 8], table["seq"][[8, 7]])), EVENTS, "begins later"),
    "a parent from the future": (put("parent", 2**32 - 1, 3), EVENTS, "begins later"),
    "a call that ends before it begins": (put("end", 0, 0, fmt.CALL), EVENTS, "ends before it begins"),
    "a row without a number": (rows(lambda table: (table["seq"].__setitem__(0, 0), None)[1]), EVENTS, "no number"),
    "a number that stands twice": (rows(lambda table: table["seq"].__setitem__(0, table["seq"][1])), EVENTS, ""),
    "all rows are one row": (rows(lambda table: np.repeat(table[:1], len(table))), EVENTS, "stands twice"),
    "a state that does not exist": (put("new", 200, 0, fmt.CHANGE), EVENTS, "a state that does not exist"),
    "a call of an API that is not there": (put("subject", 10**6, 0, fmt.CALL), EVENTS, "`api` that is not there"),
    "a change of a variable that is not there": (put("subject", 10**6, 0, fmt.CHANGE), EVENTS, "`var` that is not"),
    "arguments that are not there": (put("args", 10**6, 0, fmt.CALL), EVENTS, "`args` that is not there"),
    "a context that is not there": (put("ctx", 10**6), EVENTS, "`ctx` that is not there"),
    "a source line that is not there": (put("src", 10**6), EVENTS, "`src` that is not there"),
    "a module that is not there": (put("mod", 10**6), EVENTS, "`mod` that is not there"),
    "an optimizer that is not there": (put("opt", 60_000), EVENTS, "`opt` that is not there"),
    "a result that is not there": (put("ret", 10**6), EVENTS, "`ret` that is not there"),
    "symbols.jsonl is missing": (lambda process: (process / SYMBOLS).unlink(), SYMBOLS, "missing"),
    "symbols.jsonl is empty": (content(SYMBOLS, b""), EVENTS, "that is not there"),
    "symbols.jsonl is a directory": (instead(SYMBOLS, Path.mkdir), SYMBOLS, "not a file"),
    "symbols.jsonl is binary": (content(SYMBOLS, bytes(range(256)) * 4 + b"\n"), SYMBOLS, "line 1"),
    "symbols.jsonl ends in the middle of a line": (edited(SYMBOLS, lambda data: data[:-9]), SYMBOLS, "has no end"),
    "symbols.jsonl lost its last lines": (edited(SYMBOLS, lambda data: b"".join(data.splitlines(keepends=True)[:-6])),
                                          "", "that is not there"),
    "symbols.jsonl lost a line": (edited(SYMBOLS, lambda data: b"".join(data.splitlines(keepends=True)[1:])), SYMBOLS,
                                  "and there"),
    "symbols.jsonl has a line twice": (edited(SYMBOLS, lambda data: data + data.splitlines(keepends=True)[0]), SYMBOLS,
                                       "is not number"),
    "a broken line among symbols": (edited(SYMBOLS, lambda data: b'{"k": "api", \n' + data), SYMBOLS, "is no JSON"),
    "an empty line among symbols": (edited(SYMBOLS, lambda data: b"\n" + data), SYMBOLS, "is no JSON"),
    "a line of zeros among symbols": (edited(SYMBOLS, lambda data: bytes(64) + b"\n" + data), SYMBOLS, "is no JSON"),
    "a list among symbols": (edited(SYMBOLS, lambda data: b"[]\n" + data), SYMBOLS, "line 1 is no symbol"),
    "a number among symbols": (edited(SYMBOLS, lambda data: b"7\n" + data), SYMBOLS, "line 1 is no symbol"),
    "a symbol without a kind": (edited(SYMBOLS, lambda data: b'{"i": 1}\n' + data), SYMBOLS, "line 1 is no symbol"),
    "a symbol whose kind is a list": (edited(SYMBOLS, lambda data: b'{"k": []}\n' + data), SYMBOLS, "is no symbol"),
    "a symbol nested 100,000 deep": (edited(SYMBOLS, lambda data: b"[" * 100_000 + b"\n" + data), SYMBOLS, "no JSON"),
    "a symbol that is NaN": (edited(SYMBOLS, lambda data: b'{"k": NaN}\n' + data), SYMBOLS, "NaN is no number"),
    "a symbol in Latin-1": (edited(SYMBOLS, lambda data: b'{"k": "\xe9"}\n' + data), SYMBOLS, "no JSON"),
    "a symbol without a number": (symbol("api", i=...), SYMBOLS, "is not number"),
    "a symbol whose number is text": (symbol("api", i="1"), SYMBOLS, "is not number"),
    "a symbol whose number is true": (symbol("api", i=True), SYMBOLS, "is not number"),
    "a symbol whose number is negative": (symbol("api", i=-1), SYMBOLS, "is not number"),
    "a symbol whose number is huge": (symbol("api", i=10**15), SYMBOLS, "there are higher ones"),
    "an API without a name": (symbol("api", name=...), SYMBOLS, "it lacks `name`"),
    "an API whose name is null": (symbol("api", name=None), SYMBOLS, "`name` is of the wrong kind"),
    "a source line that is text": (symbol("src", line="5"), SYMBOLS, "`line` is of the wrong kind"),
    "a context whose mode is text": (symbol("ctx", grad="yes"), SYMBOLS, "`grad` is of the wrong kind"),
    "arguments that are a list": (symbol("args", values=[]), SYMBOLS, "`values` is of the wrong kind"),
    "an argument that is no summary": (symbol("args", values={"x": {"shape": 3}}), SYMBOLS, "`values` is of"),
    "an argument nested deep": (symbol("args", values={"x": deep(20)}), SYMBOLS, "`values` is of the wrong kind"),
    "a tensor without a shape": (symbol("ret", value={"tensor": {"dtype": "float32"}}), SYMBOLS, "`value` is"),
    "a model whose order is text": (symbol("root", ordinal="first"), SYMBOLS, "`ordinal` is of the wrong kind"),
    "a module of a model that is not there": (symbol("mod", root=99), SYMBOLS, "refers to number 99 of `root`"),
    "a module of a model that is text": (symbol("mod", root="Net"), SYMBOLS, "`root` is no reference"),
    "a group of parameters that are not there": (symbol("group", params=[1, 999]), SYMBOLS, "number 999 of `var`"),
    "a group of parameters that are text": (symbol("group", params=["weight"]), SYMBOLS, "`params` is of the wrong"),
    "a group without a time": (symbol("group", seq=...), SYMBOLS, "it lacks `seq`"),
    "hyper-parameters that are a number": (symbol("group", hyper=3), SYMBOLS, "`hyper` is of the wrong kind"),
    "a variable whose shape is text": (symbol("var", shape="3x3"), SYMBOLS, "`shape` is of the wrong kind"),
    "a variable that is the copy of one that is not there": (symbol("var", same=999), SYMBOLS, "number 999 of `var`"),
    "meta.json is missing": (lambda process: (process / META).unlink(), META, "missing"),
    "meta.json is empty": (content(META, b""), META, "cannot be read"),
    "meta.json is cut short": (edited(META, lambda data: data[:-4]), META, "cannot be read"),
    "meta.json is binary": (content(META, b"\xff\xfe\x00\x01"), META, "cannot be read"),
    "meta.json is nested 100,000 deep": (content(META, b"[" * 100_000), META, "cannot be read"),
    "meta.json is a list": (content(META, b"[]"), META, "no format number"),
    "meta.json is a directory": (instead(META, Path.mkdir), META, "not a file"),
    "meta.json has no format": (meta(format=None), META, "no format number"),
    "meta.json has the format true": (meta(format=True), META, "no format number"),
    "meta.json has a newer format": (meta(format=99), META, "has format 99"),
    "a rank that is text": (meta(rank="0"), META, "`rank` is of the wrong kind"),
    "a rank that is negative": (meta(rank=-1), META, "`rank` is of the wrong kind"),
    "a command that is text": (meta(argv="train.py"), META, "`argv` is of the wrong kind"),
    "a command of numbers": (meta(argv=[1, 2]), META, "`argv` is of the wrong kind"),
    "versions that are a list": (meta(versions=["2.13"]), META, "`versions` is of the wrong kind"),
    "a start that is text": (meta(started="now"), META, "`started` is of the wrong kind"),
    "an end that is text": (meta(finished="yes"), META, "`finished` is of the wrong kind"),
    "a mesh that is a list": (meta(mesh=[1]), META, "`mesh` is of the wrong kind"),
    "failures of the probe that are text": (meta(probe_errors="none"), META, "`probe_errors` is of the wrong kind"),
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Golden]:
    """A run directory, and the golden that was learned from it and two others."""
    recorder = Recorder(tmp_path_factory.mktemp("runs"))
    golden = recorder.golden(Loop(steps=3))
    training = Training(tmp_path_factory.mktemp("sound"))
    Loop(steps=3).tell(training)
    training.generator("torch", 7)
    return training.write().parent, golden


@pytest.fixture
def run(sound: tuple[Path, Golden], tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound[0], tmp_path / "run"))


def process_of(run: Path) -> Path:
    (found,) = run.glob("proc-*")
    return found


def test_the_sound_run_passes(sound: tuple[Path, Golden], run: Path, tmp_path: Path) -> None:
    """Guards the table below: without it, a reader that refuses everything would pass."""
    assert not check_run(sound[1], load_run(run), same_spec=True).incidents
    assert main(["trace", str(run), "--events", "9", "--parquet", str(tmp_path / "out.parquet")]) == 0
    assert main(["infer", str(run), "--output", str(tmp_path / "learned.jsonl")]) == 0


@pytest.mark.fault(area="Traces", tried="{name}", happens="one error that names the file and the place, exit status 2")
@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_one_clear_error(name: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage, file, says = DAMAGED[name]
    damage(process_of(run))
    with pytest.raises(TraceError):
        load_run(run)
    for command in (
        ["trace", str(run)],
        ["trace", str(run), "--events", "9"],
        ["trace", str(run), "--parquet", str(tmp_path / "out.parquet")],
        ["infer", str(run), "--output", str(tmp_path / "learned.jsonl")],
    ):
        assert main(command) == 2, command
        shown = capsys.readouterr().err.splitlines()
        assert len(shown) == 1, shown
        assert str(process_of(run) / file) in shown[0]
        assert says in shown[0]
        assert "; " in shown[0]
    assert not (tmp_path / "out.parquet").exists()
    assert not (tmp_path / "learned.jsonl").exists()


BROKEN_SKETCHES: dict[str, tuple[bytes, str]] = {
    "sketches.bin ends in the middle of a row": (b"\1" * 100, "middle of a row"),
    "a sketch of nothing": (SKETCH_ROW.pack(1, 0, 0, 0, 0, 0, 7, *[0.0] * 6), "row 1: it refers to a symbol"),
    "a sketch of a slot that is not there": (SKETCH_ROW.pack(1, 0, 99, 0, 0, 0, 7, *[0.0] * 6), "row 1: it refers"),
    "a sketch of a variable that is not there": (
        SKETCH_ROW.pack(1, 0, 1, 10**6, 0, 0, 7, *[0.0] * 6),
        "row 1: it refers",
    ),
}


@pytest.mark.fault(area="Traces", tried="{name}", happens="one error that names the file and the place, exit status 2")
@pytest.mark.parametrize("name", BROKEN_SKETCHES)
def test_damaged_sketches_are_one_clear_error(
    name: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, says = BROKEN_SKETCHES[name]
    (process_of(run) / SKETCHES).write_bytes(data)
    assert main(["infer", str(run), "--output", str(tmp_path / "learned.jsonl")]) == 2
    (shown,) = capsys.readouterr().err.splitlines()
    assert str(process_of(run) / SKETCHES) in shown
    assert says in shown


KILLED: dict[str, Damage] = {
    "the last row is half written": (edited(EVENTS, lambda data: data.rstrip(b"\0")[:-70] + bytes(38))),
    "the last row has nothing but its kind": rows(lambda table: np.append(table[:-1], _row(1))),
    "the last line of symbols.jsonl is half written": edited(SYMBOLS, lambda data: data[:-9]),
    "symbols of the last rows are missing": edited(SYMBOLS, lambda data: b"".join(data.splitlines(keepends=True)[:-6])),
    "files were grown ahead": lambda process: [
        (process / name).write_bytes((process / name).read_bytes() + bytes(4096)) for name in (EVENTS, SYMBOLS)
    ],
    "no row was written": content(EVENTS, bytes(4096)),
}  # fmt: skip


@pytest.mark.fault(
    area="Traces", tried="killed: {name}", happens="shown to the last whole row; refused for a check: it did not finish"
)
@pytest.mark.parametrize("name", KILLED)
def test_what_a_killed_process_leaves_is_shown_and_not_learned_from(
    name: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    meta(finished=False, events=0)(process_of(run))
    KILLED[name](process_of(run))
    assert main(["trace", str(run), "--events", "9"]) == 0
    assert "did not finish" in capsys.readouterr().out
    assert main(["infer", str(run), "--output", str(tmp_path / "learned.jsonl")]) == 2
    assert "did not finish" in capsys.readouterr().err


DIRECTORIES: dict[str, tuple[Callable[[Path], object], str]] = {
    "the run directory is missing": (shutil.rmtree, "there is no trace in"),
    "the run directory is empty": (lambda run: shutil.rmtree(process_of(run)), "there is no trace in"),
    "the run directory is a file": (lambda run: (shutil.rmtree(run), run.write_text("")), "there is no trace in"),
    "the directory of a process is a file": (
        lambda run: (shutil.rmtree(process_of(run)), (run / "proc-1-1").write_text("")), "no process was observed"),
    "the directory of a process is empty": (
        lambda run: (shutil.rmtree(process_of(run)), (run / "proc-1-1").mkdir()), "no process was observed"),
}  # fmt: skip


@pytest.mark.fault(area="Traces", tried="{name}", happens="one error that says what to give, exit status 2")
@pytest.mark.parametrize("name", DIRECTORIES)
def test_directories_that_are_no_runs(name: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, says = DIRECTORIES[name]
    make(run)
    for command in (["trace", str(run)], ["trace", str(run), "--parquet", str(tmp_path / "out.parquet")]):
        assert main(command) == 2
        (shown,) = capsys.readouterr().err.splitlines()
        assert says in shown
        assert str(run) in shown
    assert main(["infer", str(run), "--output", str(tmp_path / "learned.jsonl")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.fault(
    area="Traces", tried="bytes at random, 300 times", happens="a result, or the one error; no traceback, no hang"
)
def test_whatever_is_changed_gives_a_result_or_the_error(
    sound: tuple[Path, Golden], run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(7)
    process = process_of(run)
    statuses = set()
    for _ in range(300):
        path = process / chance.choice([EVENTS, EVENTS, SYMBOLS, META])
        before = path.read_bytes()
        data = bytearray(before)
        for _ in range(chance.choice([1, 1, 5])):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
        statuses.add(main(["trace", str(run), "--events", "50"]))
        statuses.add(main(["infer", str(run), "--output", str(tmp_path / "learned.jsonl")]))
        try:
            check_run(sound[1], load_run(run), same_spec=True)
        except TraceError:
            statuses.add(2)
        assert "Traceback" not in capsys.readouterr().err
        path.write_bytes(before)
    assert statuses == {0, 2}
