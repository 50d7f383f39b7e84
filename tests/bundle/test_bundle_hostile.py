"""A bundle may come from anywhere: what is damaged, newer or hostile is one clear error, and nothing else happens."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recipes import Keep
from training_story import Loop, Recorder

from pytest_traincheck.bundle import MANIFEST, BundleError, open_bundle
from pytest_traincheck.bundle import write as writing
from pytest_traincheck.bundle.write import digest_of
from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.cli import main
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.workflow.replay import replay_bundle

Damage = Callable[[Path], object]


@pytest.fixture
def bundle(recorder: Recorder, keep: Keep) -> Path:
    _, directory = keep(recorder.golden(Loop()), Loop(zero_grad="never"))
    return directory


def test_a_bundle_in_which_every_rule_is_out_of_reach_is_no_pass(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = [json.loads(line)["id"] for line in (bundle / "golden.jsonl").read_text().splitlines()[1:]]

    def hide(content: dict[str, Any]) -> None:
        content["beyond"] = rules
        content["incidents"] = []

    edit(bundle / MANIFEST, hide)
    assert main(["replay", str(bundle)]) == 3
    out = " ".join(capsys.readouterr().out.split())
    assert f"none of {len(rules)} rules of the golden could be checked" in out
    assert "speaks of the rest of the run, which was left out" in out
    assert "passed" not in out


def process(bundle: Path) -> Path:
    (found,) = (bundle / "candidate").iterdir()
    return found


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def signed(bundle: Path) -> None:
    """Make the digests right again, as somebody who means harm would."""

    def renew(content: dict[str, Any]) -> None:
        for name in content["files"]:
            data = (bundle / name).read_bytes()
            content["files"][name] = {"size": len(data), "digest": digest_of(data)}

    edit(bundle / MANIFEST, renew)


def events(bundle: Path, change: Callable[[Any], object]) -> None:
    path = process(bundle) / "events.bin"
    rows = np.frombuffer(path.read_bytes(), dtype=fmt.EVENT).copy()
    change(rows)
    path.write_bytes(rows.tobytes())
    signed(bundle)


def symbols(bundle: Path, line: str) -> None:
    path = process(bundle) / "symbols.jsonl"
    path.write_text(path.read_text() + line + "\n")
    signed(bundle)


def first(rows: Any, column: str, value: int) -> None:
    rows[column][0] = value


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def outside(bundle: Path, name: str) -> None:
    edit(bundle / MANIFEST, lambda content: content["files"].update({name: {"size": 1, "digest": "00"}}))


def linked(path: Path) -> None:
    away = path.parent.parent / "away"
    shutil.copy(path, away)
    path.unlink()
    path.symlink_to(away)


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGE: dict[str, tuple[Damage, str]] = {
    "a file is cut short": (lambda b: cut(process(b) / "events.bin"), "is not as it was written"),
    "a byte was changed": (lambda b: (b / "golden.jsonl").write_bytes(b"x" + (b / "golden.jsonl").read_bytes()[1:]),
                           "is not as it was written"),
    "a file is missing": (lambda b: (process(b) / "meta.json").unlink(), "is not a file in it"),
    "a file is a link": (lambda b: linked(b / "golden.jsonl"), "is not a file in it"),
    "a file is a pipe": (lambda b: piped(b / "result.json"), "is not a file in it"),
    "the manifest is no JSON": (lambda b: (b / MANIFEST).write_text("{"), "not valid JSON"),
    "the manifest is nested deep": (lambda b: (b / MANIFEST).write_text("[" * 100_000), "not valid JSON"),
    "the manifest is a list": (lambda b: (b / MANIFEST).write_text("[]"), "no format number"),
    "the manifest is huge": (lambda b: (b / MANIFEST).write_bytes(b" " * (2**20 + 1)), "larger than"),
    "a newer format": (lambda b: edit(b / MANIFEST, lambda c: c.update(format=2)), "has format 2"),
    "a key is missing": (lambda b: edit(b / MANIFEST, lambda c: c.pop("beyond")), "`beyond` is missing"),
    "a key is of another kind": (lambda b: edit(b / MANIFEST, lambda c: c["spec"].update(run=3)), "`spec.run` is of"),
    "no day": (lambda b: edit(b / MANIFEST, lambda c: c.update(today="soon")), "`today` is no day"),
    "a path leads out": (lambda b: outside(b, "../../out"), "is no file of a bundle"),
    "a path is absolute": (lambda b: outside(b, "/etc/passwd"), "is no file of a bundle"),
    "a path leads out of the trace": (lambda b: outside(b, "candidate/proc-1-1/../../../x"), "is no file of a bundle"),
    "it announces too much": (lambda b: edit(b / MANIFEST, lambda c: c["files"]["result.json"].update(size=2**40)),
                              "it announces"),
    "a row is its own parent": (lambda b: events(b, lambda r: first(r, "parent", int(r["seq"][0]))), "begins later"),
    "a row has an unknown symbol": (lambda b: events(b, lambda r: first(r, "ctx", 9999)), "that is not there"),
    "a row is of no kind": (lambda b: events(b, lambda r: first(r, "kind", 9)), "no known kind"),
    "two rows at one time": (lambda b: events(b, lambda r: first(r, "seq", int(r["seq"][1]))), "order of time"),
    "a symbol's number is huge": (lambda b: symbols(b, '{"k": "api", "i": 1000000000000, "name": "", "type": ""}'),
                                  "there are higher ones"),
    "a symbol is no object": (lambda b: symbols(b, "7"), "no symbol of this format"),
    "a symbol of no kind": (lambda b: symbols(b, '{"k": ["api"], "i": 1}'), "no symbol of this format"),
    "a symbol refers to nothing": (lambda b: symbols(b, '{"k": "mod", "i": 99, "root": 77, "path": ""}'), "number"),
    "the trace is of a newer format": (lambda b: (edit(process(b) / "meta.json", lambda c: c.update(format=9)),
                                                  signed(b)), "has format 9"),
    "the trace did not finish": (lambda b: (edit(process(b) / "meta.json", lambda c: c.update(finished=False)),
                                            signed(b)), "did not finish"),
    "the golden is pickled": (lambda b: ((b / "golden.jsonl").write_bytes(pickle.dumps({"a": 1})), signed(b)),
                              "golden.jsonl"),
    "the report is no report": (lambda b: ((b / "result.json").write_text('{"incidents": [7]}'), signed(b)),
                                "no report of a check"),
}  # fmt: skip


@pytest.mark.fault(area="Bundles", tried="{name}", happens="one error that names the bundle, exit status 2")
@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_one_clear_error(name: str, bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage, message = DAMAGE[name]
    damage(bundle)
    assert main(["replay", str(bundle)]) == 2
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == 1, shown
    assert message in shown[0]
    assert str(bundle) in shown[0]


def test_the_error_is_in_the_reports_too(bundle: Path, tmp_path: Path) -> None:
    cut(process(bundle) / "events.bin")
    assert main(["replay", str(bundle), "--json", str(tmp_path / "out.json")]) == 2
    assert "damaged" in json.loads((tmp_path / "out.json").read_text())["errors"][0]["message"]


def test_whatever_is_changed_gives_a_result_or_the_error(bundle: Path) -> None:
    """Bytes of the trace at random, with the digests made right: no other exception, no endless loop."""
    chance = random.Random(4)
    files = [process(bundle) / name for name in ("events.bin", "symbols.jsonl", "meta.json")]
    outcomes = set()
    for _ in range(80):
        path = chance.choice(files)
        before = path.read_bytes()
        data = bytearray(before)
        for _ in range(chance.choice([1, 1, 5])):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
        signed(bundle)
        try:
            outcomes.add(type(replay_bundle(bundle)))
        except BundleError as error:
            outcomes.add(type(error))
        path.write_bytes(before)
    assert outcomes == {CheckResult, BundleError}


def test_a_file_that_is_not_listed_is_not_looked_at(bundle: Path) -> None:
    before = [incident.id for incident in replay_bundle(bundle).incidents]
    shutil.copytree(process(bundle), bundle / "candidate" / "proc-7-7")
    (bundle / "sitecustomize.py").write_text("raise SystemExit(9)")
    assert [incident.id for incident in replay_bundle(bundle).incidents] == before


def archive(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            out.writestr(name, data)
    return path


def contents(bundle: Path, prefix: str = "") -> dict[str, bytes]:
    return {
        prefix + path.relative_to(bundle).as_posix(): path.read_bytes() for path in bundle.rglob("*") if path.is_file()
    }


def test_the_archive_that_a_ci_service_hands_out(bundle: Path, tmp_path: Path) -> None:
    files = {"traincheck.xml": b"<testsuites/>", **contents(bundle, "artifacts/story/bundle/")}
    path = archive(tmp_path / "artifacts.zip", files)
    wanted = [incident.id for incident in replay_bundle(bundle).incidents]
    assert [incident.id for incident in replay_bundle(path).incidents] == wanted


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (lambda b: {**contents(b, "one/"), **contents(b, "two/")}, "holds 2 bundles: one/bundle.json, two/bundle.json"),
        (lambda _: {"a.txt": b""}, "it has no bundle.json"),
        (lambda b: {**contents(b), "golden.jsonl": b"\0" * 2**20}, "golden.jsonl is larger than"),
        (lambda b: {name: data for name, data in contents(b).items() if name != "result.json"}, "is not a file in it"),
    ],
)
def test_archives_that_cannot_be_used(
    files: Callable[[Path], dict[str, bytes]], message: str, bundle: Path, tmp_path: Path
) -> None:
    with pytest.raises(BundleError, match=message):
        replay_bundle(archive(tmp_path / "bundle.zip", files(bundle)))


def test_an_archive_that_is_damaged(bundle: Path, tmp_path: Path) -> None:
    path = archive(tmp_path / "bundle.zip", contents(bundle))
    data = bytearray(path.read_bytes())
    data[200] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(BundleError, match=r"cannot be unpacked|is not as it was written|neither a directory"):
        replay_bundle(path)
    path.write_bytes(b"PK\x03\x04 nothing of the sort")
    with pytest.raises(BundleError, match="neither a directory nor a zip archive"):
        replay_bundle(path)


def test_no_bundle_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(tmp_path)]) == 2
    assert "There is no bundle in" in capsys.readouterr().err
    assert main(["replay", str(tmp_path / "absent")]) == 2
    assert "There is no bundle at" in capsys.readouterr().err


def test_a_bundle_that_would_be_too_large_is_not_kept(
    recorder: Recorder, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "SIZE_LIMIT", 1000)
    result, bundle = keep(recorder.golden(Loop()), Loop(zero_grad="never"))
    assert result.incidents
    assert "the limit is 1000; it was not written" in result.notes[-1]
    assert not bundle.exists()
    assert [path.name for path in bundle.parent.iterdir()] == ["candidate"]


def test_the_private_copy_goes(bundle: Path) -> None:
    with open_bundle(bundle) as opened:
        trace = opened.trace
        assert trace.is_dir()
        assert bundle not in trace.parents
    assert not trace.exists()
