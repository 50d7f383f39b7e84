"""Labels: a column of strings as codes behaves like the list of strings."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pytest_traincheck.trace.labels import Labels

WORDS = st.sampled_from(["", "on", "off", "train", "eval", "`x`"])
TABLES = st.lists(WORDS, min_size=1, max_size=8)


@st.composite
def columns(draw: st.DrawFn) -> tuple[Labels, list[str]]:
    """A column and what it stands for; the table may hold a string twice or hold unused ones."""
    table = draw(TABLES)
    codes = draw(st.lists(st.integers(0, len(table) - 1), max_size=20))
    return Labels.of(codes, table), [table[code] for code in codes]


def plain(labels: Labels) -> list[str]:
    return [labels[position] for position in range(len(labels))]


@given(columns())
def test_of_keeps_every_entry_and_each_value_once(column: tuple[Labels, list[str]]) -> None:
    labels, expected = column
    assert plain(labels) == expected
    assert len(set(labels.values)) == len(labels.values)
    assert set(labels.values) == set(expected), "unused values would look like values that were seen"


@given(st.lists(columns(), max_size=4))
def test_concatenate_is_concatenation(parts: list[tuple[Labels, list[str]]]) -> None:
    labels = Labels.concatenate(part for part, _ in parts)
    assert plain(labels) == [value for _, expected in parts for value in expected]
    assert len(set(labels.values)) == len(labels.values)


@given(columns(), st.sets(WORDS))
def test_isin_is_membership(column: tuple[Labels, list[str]], wanted: set[str]) -> None:
    labels, expected = column
    assert labels.isin(wanted).tolist() == [value in wanted for value in expected]


@given(columns(), st.data())
def test_take_is_selection(column: tuple[Labels, list[str]], data: st.DataObject) -> None:
    labels, expected = column
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(labels), max_size=len(labels))), dtype=bool)
    assert plain(labels.take(mask)) == [value for value, keep in zip(expected, mask, strict=True) if keep]
    assert plain(labels.take(np.flatnonzero(mask))) == plain(labels.take(mask))


@given(st.lists(st.booleans(), max_size=10))
def test_flags_and_constants(mask: list[bool]) -> None:
    flags = Labels.flags(np.array(mask, dtype=bool), "on", "off")
    assert plain(flags) == ["on" if flag else "off" for flag in mask]
    assert plain(Labels.constant("train", len(mask))) == ["train"] * len(mask)
