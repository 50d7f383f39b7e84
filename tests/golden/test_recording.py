"""A recording comes back as it was written, and what no recording is is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_traincheck.golden.course import Course
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.numbers import NumbersFile, decode_numbers, encode_numbers
from pytest_traincheck.golden.recording import CALLS, SKETCHES, Recording

TEXTS = ("", "module", "Net.fc", "in.x", "float32", "4x3")


def recording(calls: int = 2, sketches: int = 3, **changes: Any) -> Recording:
    """Nested calls, each with a few sketches."""
    called = np.zeros(calls, dtype=CALLS)
    called["parent"] = np.arange(calls) - 1
    called["name"] = 2
    taken = np.zeros(sketches, dtype=SKETCHES)
    taken["call"] = np.arange(sketches) % (calls + 1) - 1
    taken["slot"] = 3
    taken["projections"] = np.arange(4 * sketches).reshape(sketches, 4) / 7
    return Recording(**{"strings": TEXTS, "calls": called, "sketches": taken, "seed": "0", **changes})


_PLACES = st.lists(st.text(max_size=9), max_size=3).map(tuple)


@given(st.integers(0, 5), st.integers(0, 9), st.text(max_size=5), _PLACES, st.none() | _PLACES)
def test_it_comes_back(
    calls: int, sketches: int, seed: str, unstable: tuple[str, ...], unrepeated: tuple[str, ...] | None
) -> None:
    written = recording(calls, sketches if calls else 0, seed=seed, unstable=unstable, unrepeated=unrepeated)
    content = NumbersFile("linux-x86_64-cpu", "spec", {}, written)
    assert decode_numbers(encode_numbers(content), Path("g.npz")) == content


def test_one_of_before_says_nothing_about_repeats() -> None:
    """Goldens on file were written when nobody ran a seed twice."""
    text, calls, sketches = recording().to_arrays()
    assert "unrepeated" not in json.loads(text)
    found = Recording.from_arrays(text, calls, sketches)
    assert found is not None
    assert found.unrepeated is None


def test_a_file_without_one() -> None:
    content = NumbersFile("linux-x86_64-cpu", "spec", {})
    assert decode_numbers(encode_numbers(content), Path("g.npz")).recording is None


def test_the_same_content_gives_the_same_bytes() -> None:
    assert recording().to_arrays() == recording().to_arrays()
    assert recording() == recording()
    assert recording() != recording(seed="1")


def _with(column: str, value: int, table: str = "calls") -> tuple[bytes, bytes, bytes]:
    text, calls, sketches = recording().to_arrays()
    rows = np.frombuffer(calls if table == "calls" else sketches, CALLS if table == "calls" else SKETCHES).copy()
    rows[column] = value
    return (text, rows.tobytes(), sketches) if table == "calls" else (text, calls, rows.tobytes())


def _with_text(text: Any) -> tuple[bytes, bytes, bytes]:
    _, calls, sketches = recording().to_arrays()
    return text if isinstance(text, bytes) else json.dumps(text).encode(), calls, sketches


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        (_with("name", 99), "points to a text that is not there"),
        (_with("slot", 99, "sketches"), "points to a text that is not there"),
        (_with("parent", 7), "lies within one that comes later"),
        (_with("parent", -2), "lies within one that comes later"),
        (_with("call", 99, "sketches"), "belongs to a call that is not there"),
        (_with_text(b"{"), "Expecting"),
        (_with_text(b"[" * 100_000), "recursion"),
        (_with_text([1]), "other keys"),
        (_with_text({"seed": "0", "strings": []}), "other keys"),
        (_with_text({"seed": 0, "strings": list(TEXTS), "unstable": []}), "seed of a recording is not a text"),
        (_with_text({"seed": "0", "strings": [1], "unstable": []}), "not a list of texts"),
        (_with_text({"seed": "0", "strings": list(TEXTS), "unstable": "x"}), "not a list of texts"),
        ((*recording().to_arrays()[:2], b"half a row"), "ends in the middle of a row"),
    ],
)
def test_what_no_recording_is(parts: tuple[bytes, bytes, bytes], says: str) -> None:
    class Raw(Recording):
        def to_arrays(self) -> tuple[bytes, bytes, bytes]:
            return parts

    made = recording()
    data = encode_numbers(NumbersFile("p", "s", {}, Raw(made.strings, made.calls, made.sketches)))
    with pytest.raises(GoldenError, match=says):
        decode_numbers(data, Path("g.npz"))


COURSE = Course(
    steps=3, trained=("0a", "0b"), idle=1, rates=((((0, 0.1), (2, 0.05)), 2),), copies=("0c",), buffers=(),
    effective=("torch.optim.SGD.step",),
)  # fmt: skip


def test_what_a_run_went_through_comes_back() -> None:
    written = recording(courses=(COURSE, replace(COURSE, values="0e")))
    content = NumbersFile("linux-x86_64-cpu", "spec", {}, written)
    found = decode_numbers(encode_numbers(content), Path("g.npz")).recording
    assert found is not None
    assert found.courses == (COURSE, replace(COURSE, values="0e"))


@pytest.mark.parametrize(
    ("key", "value"),
    [("steps", -1), ("steps", True), ("idle", "1"), ("trained", [1]), ("copies", "0c"), ("rates", [[[[0]], 2]]),
     ("rates", [[[[0, "fast"]], 2]]), ("rates", {}), ("values", 1), ("colour", "red")],
)  # fmt: skip
def test_what_is_no_course_is_refused(key: str, value: Any) -> None:
    text, calls, sketches = recording(courses=(COURSE,)).to_arrays()
    content = json.loads(text)
    content["courses"][0][key] = value
    with pytest.raises(ValueError, match="course"):
        Recording.from_arrays(json.dumps(content).encode(), calls, sketches)


def test_two_ways_to_compute_a_rate_are_one_and_two_rates_are_two() -> None:
    def paced(rate: float) -> Course:
        return replace(COURSE, rates=((((0, 0.1), (2, rate)), 2),))

    assert COURSE.trains_like(paced(0.1 * 0.5 * (1 + 2e-16)))
    assert not COURSE.trains_like(paced(0.0501))
    assert not COURSE.trains_like(replace(COURSE, steps=4))
    assert not COURSE.trains_like(replace(COURSE, trained=("0a", "0d")))
