"""Events by column: the same rows as in the file, however many there are."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_traincheck.trace import TraceError
from pytest_traincheck.trace.columns import Columns, in_a_row, picked
from pytest_traincheck.trace.format import EVENT
from pytest_traincheck.trace.rows import read_events

NAMES = tuple(name for name in EVENT.names or () if name != "spare")


def some_rows(size: int, seed: int = 0) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Rows with something in every column, and none that is all zero."""
    random = np.random.default_rng(seed)
    rows = np.zeros(size, dtype=EVENT)
    for name in NAMES:
        rows[name] = random.integers(1, 200, size)
    return rows


@given(st.integers(0, 30), st.data())
def test_rows_that_are_picked_are_copies_of_those_that_are_asked_for(size: int, data: st.DataObject) -> None:
    rows = some_rows(size)
    chosen = np.array(data.draw(st.lists(st.integers(0, size - 1), max_size=10) if size else st.just([])), dtype=int)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=bool)
    part = slice(*sorted((data.draw(st.integers(0, size)), data.draw(st.integers(0, size)))))
    for which in (chosen, mask, part):
        found = picked(rows, which)
        assert found.dtype == EVENT
        assert found.tobytes() == rows[which].tobytes()
        assert not np.shares_memory(found, rows)
    both = in_a_row([rows[part], rows])
    assert both.dtype == EVENT
    assert both.tobytes() == rows[part].tobytes() + rows.tobytes()


@given(st.integers(0, 30), st.data())
def test_columns_answer_as_an_array_of_rows_does(size: int, data: st.DataObject) -> None:
    rows = some_rows(size)
    columns = Columns.of(rows)
    places = data.draw(st.lists(st.integers(0, size - 1), max_size=10) if size else st.just([]))
    chosen = np.array(places, dtype=np.int64)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=bool)
    assert len(columns) == size
    assert all((columns[name] == rows[name]).all() for name in NAMES)
    assert columns[:].tobytes() == rows.tobytes()
    assert columns[chosen].tobytes() == rows[chosen].tobytes()
    assert columns[mask].tobytes() == rows[mask].tobytes()
    assert [columns[place].tobytes() for place in places] == [rows[place].tobytes() for place in places]
    columns.arrange(chosen)
    assert columns[:].tobytes() == rows[chosen].tobytes()


def test_a_column_lies_together_in_memory() -> None:
    columns = Columns.read(BytesIO(some_rows(5).tobytes()), 5)
    assert all(columns[name].flags.c_contiguous for name in NAMES)


def test_other_columns_do_not_change_the_events_they_are_made_from() -> None:
    rows = some_rows(5)
    columns = Columns.of(rows)
    other = columns.but(mod=np.zeros(5, dtype=np.uint32))
    assert not other["mod"].any()
    assert other["seq"] is columns["seq"]
    assert columns[:].tobytes() == rows.tobytes()


@pytest.mark.parametrize("size", [0, 1, 16_384, 16_385, 40_000])
@pytest.mark.parametrize("zeros", [0, 1, 64, 1 << 20, (1 << 20) + 1])
def test_a_file_ends_where_its_zeros_begin_however_long_it_is(size: int, zeros: int) -> None:
    rows = some_rows(size)
    found = read_events(BytesIO(rows.tobytes() + bytes(zeros)), Path("events.bin"), whole=False)
    assert found[:].tobytes() == rows.tobytes()


def test_rows_of_zeros_before_the_last_row_are_rows() -> None:
    rows = some_rows(20_000)
    rows[:19_999] = np.zeros((), dtype=EVENT)
    found = read_events(BytesIO(rows.tobytes()), Path("events.bin"), whole=True)
    assert len(found) == 20_000
    assert not found["seq"][:19_999].any()


def test_half_a_row_at_the_end_of_a_whole_file_is_refused() -> None:
    data = some_rows(3).tobytes()[:-10]
    with pytest.raises(TraceError, match="in the middle of a row"):
        read_events(BytesIO(data), Path("events.bin"), whole=True)
    assert len(read_events(BytesIO(data), Path("events.bin"), whole=False)) == 2


def test_a_file_that_is_cut_while_it_is_read_has_fewer_rows() -> None:
    rows = some_rows(10)
    assert Columns.read(BytesIO(rows.tobytes()), 15)[:].tobytes() == rows.tobytes()
