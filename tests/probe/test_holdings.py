"""What a data set holds is looked at, at a price that does not grow with lists and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

from pytest_traincheck.probe import holdings as module  # noqa: E402
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


def test_short_passes_are_looked_at_where_they_begin_once_there_were_enough() -> None:
    holdings, held = Holdings(), Held(torch.ones(4))

    def moments(batches: int) -> list[int]:
        due = []
        for made in range(batches):
            if holdings.is_due(held, None, made):
                holdings.look(held, None)
                due.append(made)
        return due

    assert moments(5) == [0, 1, 2, 4]
    assert moments(5) == [0, 1, 2, 4]
    assert moments(300) == [0, 64, 128, 256]
    held = Held(torch.ones(4))
    assert moments(3) == [0, 1, 2]  # each data set has its own


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


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "python"])
def test_tensors_of_examples_are_told_apart_by_what_they_hold(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not compiled:
        monkeypatch.setattr(module, "native", None)
    examples = [{"ids": torch.arange(8) + number, "mask": torch.ones(8)} for number in range(4)]
    holdings, held = Holdings(), Held(examples)
    assert not shares(holdings, held)
    first = holdings._left
    assert shares(holdings, held) == [0.0]
    assert BYTES - first == first - holdings._left == 4 * 8 * (8 + 4)  # what is as it was is reckoned as well
    examples[0]["ids"].numpy()[3] = 77  # moves no version
    assert shares(holdings, held) == [0.25]
    assert shares(holdings, held) == [0.0]
    examples[1]["ids"] = examples[1]["ids"].view(2, 4)  # another shape: nothing to compare
    assert shares(holdings, held) == [0.0]
    examples[2]["mask"][0] = 0  # one value throughout, as a cache that fills
    assert shares(holdings, held) == [0.0]
    examples[2]["mask"].fill_(1)
    assert shares(holdings, held) == [0.0]
    examples[3]["ids"] = examples[3]["ids"].view(torch.float64)  # the same bytes, other numbers
    assert shares(holdings, held) == [0.0]
    examples[3]["ids"] += 1
    assert shares(holdings, held) == [pytest.approx(1 / 4)]
