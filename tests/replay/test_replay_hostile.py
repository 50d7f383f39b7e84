"""Numbers and recordings that were moved, emptied or overwritten: refused, or compared; never a traceback."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from replays import Record, train

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.golden.numbers import Numbers
from pytest_traincheck.golden.recording import Recording

Table = Mapping[str, Numbers]


def swapped(table: Table) -> Table:
    return dict(zip(table, reversed(list(table.values())), strict=True))


def same(numbers: Numbers) -> Callable[[Table], Table]:
    return lambda table: dict.fromkeys(table, numbers)


def renamed(table: Table) -> Table:
    return {
        rule: Numbers(tuple(f"{name}!" if name else name for name in numbers.names), numbers.low, numbers.high)
        for rule, numbers in table.items()
    }


def bounded(low: float, high: float) -> Callable[[Table], Table]:
    return lambda table: {
        rule: Numbers(numbers.names, np.full(len(numbers.names), low), np.full(len(numbers.names), high))
        for rule, numbers in table.items()
    }


TABLES: dict[str, tuple[Callable[[Table], Table], bool]] = {
    "numbers of other rules": (swapped, True),
    "no number in any rule": (same(Numbers((), np.empty(0), np.empty(0))), True),
    "the pooled number in every rule": (same(Numbers(("",), np.zeros(1), np.ones(1))), True),
    "names that nothing has": (renamed, True),
    "bounds of 1e308, negative ones among them": (bounded(-1e308, 1e308), True),
    "bounds of 1e308": (bounded(1e308, 1e308), True),
    "bounds next to nothing": (bounded(5e-324, 5e-324), True),
    "rules that are not there": (lambda table: {f"{name}x": numbers for name, numbers in table.items()}, False),
}


@pytest.mark.fault(area="Numbers", tried="{name}", happens="one error that names the rule, or no measure; no traceback")
@pytest.mark.parametrize("name", TABLES)
def test_numbers_that_belong_elsewhere(name: str, golden: Golden, record: Record) -> None:
    assert golden.numbers
    change, refused = TABLES[name]
    hostile = replace(golden, numbers=change(golden.numbers))
    run = record(train())
    if not refused:
        check_run(hostile, run, same_spec=True)
        return
    with pytest.raises(GoldenError, match="that do not belong to their rule"):
        check_run(hostile, run, same_spec=True)


@pytest.mark.fault(area="Numbers", tried="a recording, bytes at random, 60 times", happens="refused, or compared")
def test_recordings_at_random(golden: Golden, record: Record) -> None:
    assert golden.recording is not None
    parts = golden.recording.to_arrays()
    run = record(train())
    chance = random.Random(3)
    compared = 0
    for _ in range(60):
        hostile = [bytearray(part) for part in parts]
        part = chance.choice(hostile)
        for _ in range(chance.choice([1, 5])):
            part[chance.randrange(len(part))] = chance.randrange(256)
        try:
            recording = Recording.from_arrays(*map(bytes, hostile))
        except (ValueError, RecursionError):
            continue
        check_run(replace(golden, recording=recording), run, same_spec=True)
        compared += 1
    assert compared
