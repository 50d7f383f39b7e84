"""What a golden keeps for pictures: it comes back as it was, and nothing else is taken for it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_traincheck.golden.portrait import Call, Curve, Group, Outline, Portrait, Rank

PORTRAIT = Portrait(
    "0",
    (Curve("0", "AdamW[Net]", (1.5, math.inf, math.nan), (0.1, 0.2, 0.3), ((0.01, 0.005, 0.0025),)),),
    Outline((Call("data", "next"), Call("module", "Net")), ((0, 1), (1,)), (0, 1, 0)),
    (Group("AdamW[Net]", 0, 4, 1200, 4, ("Net.a",), (("lr", "0.01"),)), Group("", 0, 1, 3, 0)),
    (Rank(0, (("abcd1234",), ()), (1.5, 1.4), (0.1, 0.2), (2, 2)),),
)

texts = st.text(max_size=8)
numbers = st.lists(st.floats(width=16), max_size=4).map(tuple)
curves = st.builds(Curve, texts, texts, numbers, numbers, st.lists(numbers, max_size=2).map(tuple))


def written(portrait: Portrait) -> Any:
    return json.loads(json.dumps(portrait.to_json(), allow_nan=False))


def test_it_comes_back() -> None:
    content = written(PORTRAIT)
    assert written(Portrait.from_json(content)) == content
    back = Portrait.from_json(content)
    assert (back.outline, back.groups, back.seed) == (PORTRAIT.outline, PORTRAIT.groups, "0")
    assert math.isnan(back.curves[0].losses[2])


@given(st.builds(Portrait, texts, st.lists(curves, max_size=3).map(tuple)))
def test_any_curves_come_back_with_five_digits(portrait: Portrait) -> None:
    back = Portrait.from_json(written(portrait))
    for mine, theirs in zip(portrait.curves, back.curves, strict=True):
        assert mine.seed == theirs.seed
        for value, other in zip(mine.losses, theirs.losses, strict=True):
            assert (math.isnan(value) and math.isnan(other)) or value == pytest.approx(other, rel=1e-4)


def test_steps_that_look_alike_are_kept_once() -> None:
    assert [len(PORTRAIT.outline.step(number)) for number in range(3)] == [2, 1, 2]
    assert PORTRAIT.outline.step(3) == ()
    assert PORTRAIT.outline.step(-1) == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", 1),
        ("curves", {}),
        ("curves", [["0", "AdamW", ["1.0"], ["x"], []]]),
        ("curves", [["0", "AdamW"]]),
        ("calls", [["data"]]),
        ("shapes", [[2]]),
        ("shapes", [[-1]]),
        ("steps", [5]),
        ("steps", [True]),
        ("groups", [["AdamW", 0, 1, 1 << 60, 1, [], []]]),
        ("groups", [["AdamW", 0, 1, 1, 1, [3], []]]),
        ("ranks", [[0, [["x"]], ["1"], ["1"], ["1"]]]),
        ("other", 1),
    ],
)
def test_anything_else_is_refused(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"portrait|float"):
        Portrait.from_json({**written(PORTRAIT), key: value})
