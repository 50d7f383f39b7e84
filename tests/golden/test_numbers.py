"""The numbers of a golden: a file for each platform, untrusted when read, and never mixed with other rules."""

from __future__ import annotations

import contextlib
import io
import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_traincheck import atomic
from pytest_traincheck.golden import numbers, store
from pytest_traincheck.golden.diff import diff
from pytest_traincheck.golden.encode import encode
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.golden.numbers import (
    Numbers,
    NumbersFile,
    decode_numbers,
    encode_numbers,
    numbers_path,
    read_numbers,
)
from pytest_traincheck.relations.band_claims import QuantityOf
from pytest_traincheck.rules.model import Invariant, Kind, Scope

CPU, GPU = "linux-x86_64-cpu", "linux-x86_64-cuda-NVIDIA H100 80GB"
BAND = Invariant("Band", "CNN", QuantityOf("loss"), (), Scope.PINNED, Kind.NUMERIC, "The loss is within its band.")
HERE = Path("g.linux.npz")


def bands(*values: float) -> Numbers:
    low = np.array(values)
    return Numbers(tuple(f"w{number}" for number in range(len(values))), low, low * 2)


@pytest.fixture
def measured(golden: Golden) -> Golden:
    return replace(
        golden, invariants=(*golden.invariants, BAND), platform=CPU, numbers={BAND.id: bands(0.1, 0.25, 3e-300)}
    )


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()} - {store.LOCK_NAME}


def test_numbers_come_back_for_their_platform_alone(measured: Golden, tmp_path: Path) -> None:
    path = tmp_path / "tiny_gpt.jsonl"
    store.write(path, measured)
    assert names(tmp_path) == {"tiny_gpt.jsonl", "tiny_gpt.linux-x86_64-cpu.npz"}
    rules = store.read(path)
    assert (rules.platform, dict(rules.numbers)) == ("", {})
    assert store.with_numbers(rules, path, CPU).numbers == measured.numbers
    assert store.with_numbers(rules, path, GPU) == rules
    assert store.with_numbers(rules, path, "") == rules


def test_the_rules_are_the_same_on_every_platform(measured: Golden) -> None:
    elsewhere = replace(measured, platform=GPU, numbers={BAND.id: bands(7.0)})
    assert encode(elsewhere) == encode(measured)
    assert diff(measured, elsewhere).is_empty
    assert not diff(measured, elsewhere).facts


def test_platforms_do_not_touch_each_other(measured: Golden, tmp_path: Path) -> None:
    path = tmp_path / "tiny_gpt.jsonl"
    store.write(path, measured)
    before = numbers_path(path, CPU).read_bytes()
    gpu = replace(measured, platform=GPU, numbers={BAND.id: bands(7.0)})
    store.write(path, gpu)
    assert numbers_path(path, CPU).read_bytes() == before
    assert store.with_numbers(store.read(path), path, GPU).numbers == gpu.numbers
    assert len(names(tmp_path)) == 3


@pytest.mark.parametrize(
    ("platform", "name"),
    [
        ("linux-x86_64-cuda-h100", "g.linux-x86_64-cuda-h100.npz"),
        (GPU, "g.linux-x86_64-cuda-NVIDIA-H100-80GB.npz"),
        ("../../etc/passwd", "g.etc-passwd.npz"),
        ("a.b", "g.a-b.npz"),
        ("...", "g.unknown.npz"),
        ("x" * 500, f"g.{'x' * 100}.npz"),
    ],
)
def test_a_platform_is_a_safe_file_name(tmp_path: Path, platform: str, name: str) -> None:
    assert numbers_path(tmp_path / "g.jsonl", platform) == tmp_path / name


def test_two_platforms_with_one_file_name_are_two_platforms(measured: Golden, tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl"
    store.write(path, replace(measured, platform="a b"))
    assert store.with_numbers(store.read(path), path, "a b").numbers
    assert not store.with_numbers(store.read(path), path, "a-b").numbers


def test_numbers_of_another_command_are_none(measured: Golden, tmp_path: Path) -> None:
    """As after a refresh on another platform, with a changed command: the older numbers are of another run."""
    path = tmp_path / "g.jsonl"
    store.write(path, measured)
    store.write(path, replace(measured, spec="changed", platform=GPU))
    assert not store.with_numbers(store.read(path), path, CPU).numbers
    assert store.with_numbers(store.read(path), path, GPU).numbers


def test_the_same_content_gives_the_same_bytes(measured: Golden, tmp_path: Path) -> None:
    content = NumbersFile(CPU, "spec", {"b": bands(1.0), "a": bands(2.0, 3.0)})
    turned = NumbersFile(CPU, "spec", {"a": bands(2.0, 3.0), "b": bands(1.0)})
    assert encode_numbers(content) == encode_numbers(turned)
    with zipfile.ZipFile(io.BytesIO(encode_numbers(content))) as archive:
        assert {(entry.date_time, entry.create_system) for entry in archive.infolist()} == {((1980, 1, 1, 0, 0, 0), 3)}
    path = tmp_path / "g.jsonl"
    store.write(path, measured)
    before = numbers_path(path, CPU).stat()
    store.write(path, measured)
    after = numbers_path(path, CPU).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_numbers_alone(measured: Golden, tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl"
    store.write_files(tmp_path, store.numbers_of(path, measured))
    assert names(tmp_path) == {"g.linux-x86_64-cpu.npz"}
    assert store.numbers_of(path, replace(measured, numbers={})) == {}


def test_numpy_can_read_it(measured: Golden, tmp_path: Path) -> None:
    store.write(tmp_path / "g.jsonl", measured)
    with np.load(tmp_path / "g.linux-x86_64-cpu.npz", allow_pickle=False) as content:
        assert set(content) == {"index", "low", "high", "texts", "calls", "sketches"}
        assert content["low"].tolist() == [0.1, 0.25, 3e-300]


@pytest.mark.parametrize("failing", [1, 2])
def test_a_failed_write_leaves_both_files_as_they_were(
    measured: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    path = tmp_path / "g.jsonl"
    store.write(path, measured)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    calls = 0

    def full(_descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(GoldenError, match="No space left on device"):
        store.write(path, replace(measured, reason="new", numbers={BAND.id: bands(9.0)}))
    assert calls == failing
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_both_files_are_limited(measured: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(tmp_path / "g.jsonl", measured)
    monkeypatch.setattr(numbers, "NUMBERS_LIMIT", 200)
    with pytest.raises(GoldenError, match="it is larger than 200 bytes"):
        read_numbers(numbers_path(tmp_path / "g.jsonl", CPU))
    monkeypatch.setattr(store, "SIZE_LIMIT", 100)
    with pytest.raises(GoldenError, match="the limit is 100"):
        store.write(tmp_path / "other.jsonl", measured)


# Hostile files


RECORDED = ("texts", "calls", "sketches")
Parts = tuple[bytes, bytes, bytes]
NOTHING: Parts = (b"", b"", b"")


def packed(
    index: object = None, low: Any = None, high: Any = None, *, raw_low: bytes = b"", recorded: Parts = NOTHING
) -> bytes:
    """A file made by hand; what is not given is that of one rule with one name."""
    if index is None:
        index = {"format": 2, "platform": CPU, "spec": "s", "rules": [{"id": "x", "names": ["w"]}]}
    text = index if isinstance(index, bytes) else json.dumps(index).encode()
    arrays = {
        "index": np.frombuffer(text, dtype="|u1"),
        "low": np.array([1.0]) if low is None else low,
        "high": np.array([2.0]) if high is None else high,
        **{name: np.frombuffer(part, dtype="|u1") for name, part in zip(RECORDED, recorded, strict=True)},
    }
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            data = io.BytesIO()
            np.lib.format.write_array(data, array, allow_pickle=True)
            archive.writestr(f"{name}.npy", raw_low if name == "low" and raw_low else data.getvalue())
    return stream.getvalue()


def index_with(**changes: Any) -> dict[str, Any]:
    return {"format": 2, "platform": CPU, "spec": "s", "rules": [{"id": "x", "names": ["w"]}], **changes}


def refused(data: bytes) -> str:
    with pytest.raises(GoldenError) as caught:
        decode_numbers(data, HERE)
    assert str(HERE) in str(caught.value)
    assert "traincheck refresh" in str(caught.value)
    return str(caught.value)


def test_a_file_made_by_hand_is_read() -> None:
    content = decode_numbers(packed(), HERE)
    assert content == NumbersFile(CPU, "s", {"x": Numbers(("w",), np.array([1.0]), np.array([2.0]))})


@pytest.mark.fault(
    area="Numbers", tried="content that no refresh wrote: {says}", happens="one error that names file and remedy"
)
@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not an archive"),
        (b"PK\x03\x04" + b"\x00" * 50, "not an archive"),
        (packed()[:-30], "not an archive"),
        (packed(low=np.array(["a"], dtype=object)), "is of type b'|O' and not <f8"),
        (packed(low=np.array([1.0], dtype=np.float32)), "is of type b'<f4'"),
        (packed(low=np.array([[1.0]])), "does not hold a one-dimensional array"),
        (packed(low=np.array([np.nan])), "a bound is not finite"),
        (packed(high=np.array([np.inf])), "a bound is not finite"),
        (packed(low=np.array([3.0])), "a lower bound is above its upper one"),
        (packed(low=np.array([1.0, 1.0])), "it has 2 lower and 1 upper bounds for 1 names"),
        (packed(index=b"{"), "its index is not valid JSON"),
        (packed(index=b"[" * 100_000), "its index is not valid JSON"),
        (packed(index=b"\xff"), "its index is not valid JSON"),
        (packed(index=[1]), "its index is not an object"),
        (packed(index=index_with(format="1")), "no known format"),
        (packed(index=index_with(format=True)), "no known format"),
        (packed(index=index_with(format=float("nan"))), "no known format"),
        (packed(index=index_with(format=3)), "has format 3"),
        (packed(index=index_with(extra=1)), "other keys"),
        (packed(index=index_with(rules={})), "other keys"),
        (packed(index=index_with(platform=1)), "does not name a platform"),
        (packed(index=index_with(rules=[{"id": "x"}])), "names of each rule once"),
        (packed(index=index_with(rules=[{"id": "x", "names": ["w"]}] * 2)), "names of each rule once"),
        (packed(index=index_with(rules=[{"id": "x", "names": [1]}])), "names of each rule once"),
        (packed(index=index_with(rules=[{"id": "x", "names": "w"}])), "names of each rule once"),
        (
            packed(index_with(rules=[{"id": "x", "names": ["w", "w"]}]), np.ones(2), np.ones(2)),
            "a name stands twice",
        ),
    ],
)
def test_what_no_refresh_wrote_is_refused(data: bytes, says: str) -> None:
    assert says in refused(data)


@pytest.mark.fault(
    area="Numbers", tried="other entries, encrypted or packed otherwise", happens="one error that names file and remedy"
)
def test_other_entries_and_other_packing_are_refused() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("../../evil.npy", b"")
    assert "its entries are not index.npy, low.npy, high.npy" in refused(stream.getvalue())
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_BZIP2) as archive:
        for name in ("index", "low", "high", *RECORDED):
            archive.writestr(f"{name}.npy", b"x")
    assert "packed in another way" in refused(stream.getvalue())


@pytest.mark.fault(area="Numbers", tried="a zip bomb", happens="one error that names file and remedy; not unpacked")
def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "NUMBERS_LIMIT", 100_000)
    data = packed(low=np.zeros(1_000_000))
    assert len(data) < 100_000
    assert "its content is larger than 100000 bytes" in refused(data)


@pytest.mark.fault(
    area="Numbers", tried="a header that announces too much", happens="one error that names file and remedy"
)
def test_a_header_that_announces_too_much_is_refused() -> None:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.array([1.0]))
    lying = stream.getvalue().replace(b"(1,), }           ", b"(99999999999,), } ")
    assert lying != stream.getvalue()
    assert "does not have the length it announces" in refused(packed(raw_low=lying))


@pytest.mark.fault(
    area="Numbers", tried="an array of pickled objects", happens="one error that names file and remedy; nothing is run"
)
def test_a_pickle_is_not_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
            return (os.mkdir, (str(tmp_path / "owned"),))

    array = np.empty(1, dtype=object)
    array[0] = Evil()
    refused(packed(low=array))
    assert not (tmp_path / "owned").exists()


@pytest.mark.fault(area="Numbers", tried="one byte changed anywhere", happens="read, or one error; no traceback")
@settings(deadline=None, max_examples=200)
@given(st.data())
def test_one_changed_byte_never_escapes(data: st.DataObject) -> None:
    content = bytearray(encode_numbers(NumbersFile(CPU, "s", {"x": bands(1.0, 2.0)})))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(GoldenError):
        decode_numbers(bytes(content), HERE)


@pytest.mark.fault(area="Numbers", tried="noise", happens="one error that names file and remedy")
@settings(deadline=None)
@given(st.binary(max_size=300))
def test_noise(data: bytes) -> None:
    with pytest.raises(GoldenError):
        decode_numbers(data, HERE)


@pytest.mark.fault(
    area="Numbers", tried="a directory, a pipe", happens="one error that names file and remedy; a pipe is not opened"
)
def test_no_file_a_directory_and_a_pipe(tmp_path: Path) -> None:
    assert read_numbers(tmp_path / "missing.npz") is None
    with pytest.raises(GoldenError, match="it is not a file"):
        read_numbers(tmp_path)
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(GoldenError, match="it is not a file"):
        read_numbers(tmp_path / "pipe.npz")


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=12),
        st.dictionaries(st.text(max_size=20), st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=5),
        max_size=4,
    )
)
def test_round_trip(content: dict[str, dict[str, float]]) -> None:
    tables = {
        identity: Numbers(tuple(values), np.array([*values.values()], dtype=np.float64),
                          np.array([*values.values()], dtype=np.float64))
        for identity, values in content.items()
    }  # fmt: skip
    written = NumbersFile(CPU, "s", tables)
    assert decode_numbers(encode_numbers(written), HERE) == written


def test_bounds_are_checked_where_they_are_made() -> None:
    with pytest.raises(ValueError, match="2 names, bounds of shapes"):
        Numbers(("a", "b"), np.zeros(1), np.zeros(2))
    with pytest.raises(ValueError, match="not finite, or a lower bound"):
        Numbers(("a",), np.ones(1), np.zeros(1))
    assert Numbers(("a",), np.ones(1), np.ones(1)) != Numbers(("b",), np.ones(1), np.ones(1))
