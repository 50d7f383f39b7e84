"""Labels: a column of strings as codes behaves like the list of strings."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pytest_traincheck.trace.labels import Labels, among, pairs_of

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


@given(st.integers(1, 40_000), st.integers(1, 40_000))
def test_codes_take_as_few_bytes_as_there_are_values(size: int, other: int) -> None:
    columns = [Labels.of(np.arange(count), [str(number) for number in range(count)]) for count in (size, other)]
    assert [column.codes.itemsize for column in columns] == [
        1 if count <= 128 else 2 if count <= 32_768 else 4 for count in (size, other)
    ]
    together = Labels.concatenate(columns)
    assert [together[place] for place in (0, size - 1, size, size + other - 1)] == [
        "0",
        str(size - 1),
        "0",
        str(other - 1),
    ]


NUMBERS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5)), max_size=60)


@given(NUMBERS, st.booleans())
def test_pairs_come_once_in_order_with_their_first_place(pairs: list[tuple[int, int]], far: bool) -> None:
    """`far`: numbers so large that they are sorted rather than marked."""
    if far:
        pairs = [(first * 100_000, second * 100_000) for first, second in pairs]
    columns = np.array(pairs, dtype=np.uint32).reshape(-1, 2).T
    first, second, places = pairs_of(columns[0], columns[1])
    assert [*zip(first.tolist(), second.tolist(), strict=True)] == sorted(set(pairs))
    assert places.tolist() == [pairs.index(pair) for pair in sorted(set(pairs))]


WIDE = st.lists(st.integers(0, 2**63), max_size=20)


@given(WIDE, WIDE)
def test_among_is_membership(values: list[int], chosen: list[int]) -> None:
    found = among(np.array(values + chosen[:3], dtype=np.uint64), np.array(chosen, dtype=np.uint64))
    assert found.tolist() == [value in chosen for value in values + chosen[:3]]
