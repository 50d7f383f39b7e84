"""What a data set holds is looked at, at a price that does not grow with lists and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

from pytest_traincheck.probe.holdings import BYTES, Holdings  # noqa: E402


class Held(torch.utils.data.Dataset):
    """A data set of whatever it is given."""

    def __init__(self, data: Any) -> None:
        self.data = data


def shares(holdings: Holdings, held: Held) -> list[float]:
    return [share for _, share in holdings.look(held, None)]


def test_long_lists_cost_little_and_their_writes_show() -> None:
    holdings, held = Holdings(), Held([{"tokens": list(range(100_000))} for _ in range(10)])
    assert not shares(holdings, held)
    assert BYTES - holdings._left < 10 * 4096  # all of a list would be 700 KB
    assert shares(holdings, held) == [0.0]
    tokens = held.data[3]["tokens"]
    tokens[:] = [token + 1 for token in tokens]
    assert shares(holdings, held) == [0.1]
    held.data[5]["tokens"].append(7)
    assert shares(holdings, held) == [0.1]


def test_a_file_that_is_mapped_into_memory_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "tokens.bin"
    np.arange(64, dtype="u2").tofile(path)
    for data in (np.memmap(path, dtype="u2", mode="r+"), np.memmap(path, dtype="u2", mode="r+")[4:].view(np.ndarray)):
        holdings, held = Holdings(), Held(data)
        assert not shares(holdings, held)
        data[0] += 1
        assert not shares(holdings, held)
        assert holdings._left == BYTES


def test_an_array_in_memory_is_read_whoever_it_belongs_to() -> None:
    data = np.arange(64.0)
    holdings, held = Holdings(), Held(data[4:].reshape(6, 10))
    assert not shares(holdings, held)
    data[10] += 1
    assert shares(holdings, held) == [1.0]
