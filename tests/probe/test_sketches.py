"""Sketches estimate distances, do not see how a tensor lies in memory, end in time, and disturb nothing."""

from __future__ import annotations

import gc
import math
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from measuring import Tiny, every_step  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.probe import observe, sketches  # noqa: E402
from pytest_traincheck.probe.sketch import faint, sketch  # noqa: E402
from pytest_traincheck.trace.format import SKETCH  # noqa: E402

pytestmark = pytest.mark.usefixtures("seeded")


def distance(first: Any, second: Any) -> float:
    """Estimated from two sketches."""
    ours, theirs = sketch(first), sketch(second)
    assert ours is not None
    assert theirs is not None
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(ours[4], theirs[4], strict=True)) / 4)


@pytest.mark.parametrize("size", [3, 500, 4096, 4097, 50_000])
@pytest.mark.parametrize("part", [1e-3, 0.1, 1.0])
def test_projections_estimate_a_distance(size: int, part: float) -> None:
    x = torch.randn(size)
    noise = torch.randn(size) * part
    true = float(torch.linalg.vector_norm(noise))
    assert 0.1 * true < distance(x, x + noise) < 3 * true


@pytest.mark.parametrize("place", [0, 4095, 4096, 9_999])
def test_one_element_shows(place: int) -> None:
    x = torch.zeros(10_000)
    y = x.clone()
    y[place] = 1.0
    assert distance(x, y) == pytest.approx(1.0)


def test_two_elements_changed_places() -> None:
    """What norm and mean cannot see."""
    x = torch.arange(5000.0)
    y = x.flip(0)
    ours, theirs = sketch(x), sketch(y)
    assert ours is not None
    assert theirs is not None
    assert ours[2:4] == pytest.approx(theirs[2:4])
    assert distance(x, y) > 0.1 * ours[2]


def test_memory_does_not_matter() -> None:
    x = torch.randn(2, 8, 5, 5)
    assert sketch(x) == sketch(x.contiguous(memory_format=torch.channels_last))
    assert sketch(x[:, ::2]) == sketch(x[:, ::2].contiguous())


def test_signs_are_the_same_for_ever() -> None:
    """Recordings are compared with later versions of torch, Python and this package."""
    found = sketch(torch.arange(1.0, 8193.0))
    assert found is not None
    assert found[4] == (163840.0, 524288.0, 65536.0, -62256.0)


def test_whole_numbers_are_exact() -> None:
    x = torch.arange(100)
    y = x.clone()
    y[3], y[4] = 4, 3
    ours, theirs = sketch(x), sketch(y)
    assert ours is not None
    assert theirs is not None
    assert ours[1] != theirs[1]


@pytest.mark.parametrize("hidden", [-1e4, -1e9, float("-inf"), torch.finfo(torch.float32).min, float("nan")])
def test_what_masks_does_not_hide_the_rest(hidden: float) -> None:
    scores = torch.randn(6, 6)
    mask = torch.ones(6, 6, dtype=torch.bool).triu(1)
    x = scores.masked_fill(mask, hidden)
    plain, changed = sketch(scores.masked_fill(mask, 0.0)), sketch((1.01 * scores).masked_fill(mask, hidden))
    found = sketch(x)
    assert found is not None
    assert plain is not None
    assert changed is not None
    assert found[2:] == plain[2:]
    assert changed[2] == pytest.approx(1.01 * found[2])
    other = sketch(scores.masked_fill(mask.T, hidden))
    assert other is not None
    assert other[1] != found[1] != 0


def test_large_numbers_alone_are_not_extreme() -> None:
    found = sketch(torch.full((4,), 2e4))
    assert found is not None
    assert found[1] == 0
    assert found[2] == pytest.approx(4e4)


def test_faint_elements() -> None:
    assert faint(torch.tensor([1.0, -1.0, 0.0, 1e-7])) == 1


def rows(folder: Path) -> Any:
    (file,) = folder.glob("proc-*/sketches.bin")
    return np.fromfile(file, SKETCH)


def test_two_steps_and_no_more(tmp_path: Path) -> None:
    with observe(tmp_path / "short"):
        list(every_step(2))
    with observe(tmp_path / "long"):
        list(every_step(6))
    assert len(rows(tmp_path / "short")) == len(rows(tmp_path / "long")) > 50


@pytest.mark.parametrize(("wanted", "more"), [("4", True), ("0", False)])
def test_as_many_steps_as_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, more: bool
) -> None:
    with observe(tmp_path / "two"):
        list(every_step(5))
    monkeypatch.setenv(sketches.VARIABLE, wanted)
    with observe(tmp_path / "other"):
        list(every_step(5))
    if more:
        assert len(rows(tmp_path / "other")) > 1.5 * len(rows(tmp_path / "two"))
    else:
        assert not list((tmp_path / "other").glob("proc-*/sketches.bin"))


def test_they_end_in_a_process_that_takes_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketches, "LIMIT", 40)
    with observe(tmp_path):
        net = Tiny()
        for _ in range(20):
            net(torch.ones(1, 4, dtype=torch.int64))
    assert len(rows(tmp_path)) == 40


def test_training_is_the_same(tmp_path: Path) -> None:
    def train() -> list[float]:
        torch.manual_seed(3)
        net = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.3), nn.BatchNorm1d(8), nn.Linear(8, 2))
        optimizer = torch.optim.Adam(net.parameters())
        for _ in range(4):
            optimizer.zero_grad()
            (net(torch.randn(6, 5)).square().mean() + torch.rand(1).sum()).backward()
            optimizer.step()
        return [value for parameter in net.parameters() for value in parameter.detach().flatten().tolist()]

    alone = train()
    with observe(tmp_path):
        watched = train()
    assert alone == watched


def test_no_tensor_is_kept_alive(tmp_path: Path) -> None:
    net = nn.Linear(3, 3)
    with observe(tmp_path):
        x = torch.randn(2, 3)
        ref = weakref.ref(x)
        out = weakref.ref(net(x))
        del x
        gc.collect()
        assert ref() is None
        assert out() is None
