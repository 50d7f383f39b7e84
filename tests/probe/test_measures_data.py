"""What is measured of inputs, masks, indices, random streams and batches."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from measuring import Tiny, Watch, steps, words  # noqa: E402
from probe_runs import read_run  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

from pytest_traincheck.probe import observe  # noqa: E402
from pytest_traincheck.probe.core import native  # noqa: E402
from pytest_traincheck.probe.families.data import Fetches  # noqa: E402
from pytest_traincheck.probe.measures import STEPS  # noqa: E402
from pytest_traincheck.probe.recorder import Recorder  # noqa: E402
from pytest_traincheck.probe.symbols import Api  # noqa: E402

pytestmark = pytest.mark.usefixtures("seeded")


# What goes in


def test_inputs_of_the_model(watched: Watch) -> None:
    net = nn.Linear(4, 3)
    first, second = torch.randn(2, 4), torch.randn(2, 4)

    def train() -> None:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x in (first, second, first):
            net(x).sum().backward()
            optimizer.step()
        net.eval()
        net(second)
        net.train()
        with torch.no_grad():
            net(second)

    digests = [item.digest for item in watched(train).measured("model.input")]
    assert len(digests) == 3
    assert digests[0] == digests[2] != digests[1]


def kept(watched: Watch, *inputs: Any, net: Any = None) -> list[float]:
    """The shares of the input that are the same as a step before, where a step is taken with each."""
    net = net or nn.Linear(8, 1)
    rest = iter(inputs)
    trace = watched(lambda: steps(net, lambda: net(next(rest)).sum(), count=len(inputs), lr=1e-3))
    return [item.value for item in trace.measures if item.measure == "kept.input"]


def test_how_much_of_the_input_is_new(watched: Watch) -> None:
    first, second = torch.randn(40, 8), torch.randn(40, 8)
    half = torch.cat([second[:20], torch.randn(20, 8)])
    shares = kept(watched, first, second, half, half)
    assert shares == pytest.approx([0.0, 0.5, 1.0], abs=0.05)


def test_a_column_that_is_always_the_same_does_not_stand_for_all(watched: Watch) -> None:
    """Rows of 64 that begin with one mark, in batches of which a sample of evenly spaced elements could be these."""
    rows = [torch.cat([torch.arange(256.0)[:, None], torch.randn(256, 63)], dim=1) for _ in range(3)]
    assert kept(watched, *rows, net=nn.Linear(64, 1)) == pytest.approx([0.0, 0.0], abs=0.05)


def test_what_pads_is_not_counted(watched: Watch) -> None:
    padded = [torch.cat([torch.randn(20, 8), torch.zeros(40, 8)]) for _ in range(3)]
    assert kept(watched, *padded) == pytest.approx([0.0, 0.0], abs=0.05)


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(lambda _: torch.randint(0, 4, (40, 8)).float(), id="classes, of which there are few"),
        pytest.param(lambda _: torch.ones(1, 8), id="a single number"),
        pytest.param(lambda step: torch.randn(40 - step, 8), id="another shape in each step"),
    ],
)
def test_what_repeats_by_chance_says_nothing(watched: Watch, draw: Any) -> None:
    assert not kept(watched, *[draw(step) for step in range(3)])


def test_the_first_forward_pass_of_a_step_counts(watched: Watch) -> None:
    """Within a step the same batch may go through the model more than once."""
    batches = iter([torch.randn(40, 8) for _ in range(3)])
    net = nn.Linear(8, 1)

    def loss() -> Any:
        x = next(batches)
        return net(x).sum() + net(x).square().sum()

    trace = watched(lambda: steps(net, loss, count=3, lr=1e-3))
    assert trace.values("kept.input") == [0.0, 0.0]


def test_losses_are_no_models(watched: Watch) -> None:
    target = torch.randn(40, 1)
    net, criterion = nn.Linear(8, 1), nn.MSELoss()
    trace = watched(lambda: steps(net, lambda: criterion(net(torch.randn(40, 8)), target), count=3))
    assert {item.measure for item in trace.measures if item.measure.startswith("kept.")} == {"kept.input"}


def test_position_ids_and_a_mask(watched: Watch) -> None:
    net = Tiny(mask=True)
    trace = watched(lambda: steps(net, lambda: net(words()).sum(), count=2))
    contents: dict[tuple[str | None, str], set[int]] = {}
    for item in trace.measures:
        if item.measure.startswith("content."):
            contents.setdefault((item.path, item.measure), set()).add(item.digest)
    assert {key: len(found) for key, found in contents.items()} == {
        ("words", "content.input"): 2,
        ("positions", "content.input"): 1,
        ("", "content.mask"): 1,
    }
    patterns = [(item.path, item.measure, item.value) for item in trace.measures if item.measure.startswith("pattern.")]
    assert (
        patterns
        == [
            ("words", "pattern.input", -1.0),
            ("positions", "pattern.input", 0.0),
            ("", "pattern.mask", 1.0),
        ]
        * 2
    )


@pytest.mark.parametrize(
    ("indices", "pattern"),
    [
        (torch.arange(6), 0),
        (torch.arange(2, 8), 2),
        (torch.arange(6).expand(3, 6), 0),
        (torch.tensor([[2, 3, 4, 5], [2, 3, 1, 1]]), 2),
        (torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]), -1),
        (torch.tensor([3, 1, 4, 1, 5]), -1),
        (torch.tensor([7, 7, 7, 7]), -1),
        (torch.tensor([1, 2]), None),
    ],
)
def test_patterns_of_indices(watched: Watch, indices: Any, pattern: int | None) -> None:
    table = nn.Embedding(9, 2)
    expected = [] if pattern is None else [float(pattern)]
    assert watched(lambda: table(indices).sum().backward()).values("pattern.input") == expected


@pytest.mark.parametrize(
    ("mask", "hides"),
    [
        (torch.ones(4, 4, dtype=torch.bool).tril(), 1.0),
        (torch.ones(4, 4, dtype=torch.bool), 0.0),
        (torch.full((4, 4), float("-inf")).triu(1), 1.0),
        (torch.zeros(4, 4), 0.0),
        (torch.full((4, 4), float("-inf")).tril(-1), 0.0),
        (torch.ones(1, 1, 3, 4, dtype=torch.bool), None),
        (None, None),
    ],
)
def test_patterns_of_attention_masks(watched: Watch, mask: Any, hides: float | None) -> None:
    query = torch.randn(1, 1, 3 if mask is not None and mask.shape[-2] == 3 else 4, 5)
    key = torch.randn(1, 1, 4, 5)
    trace = watched(lambda: F.scaled_dot_product_attention(query, key, key, attn_mask=mask))
    assert trace.values("pattern.attn_mask") == ([] if hides is None else [hides])
    assert len(trace.measured("content.attn_mask")) == (mask is not None)


@pytest.mark.parametrize("fill", ["masked_fill", "masked_fill_", "function"])
def test_every_spelling_of_a_fill_by_mask(watched: Watch, fill: str) -> None:
    scores, future = torch.randn(4, 4), torch.ones(4, 4, dtype=torch.bool).triu(1)
    expected = scores.clone()
    expected[future] = -7.0

    def use() -> None:
        filled = torch.masked_fill(scores, future, -7.0) if fill == "function" else getattr(scores, fill)(future, -7.0)
        assert torch.equal(filled, expected)

    trace = watched(use)
    (call,) = trace.called("torch.Tensor.masked_fill")
    assert call.args["value"] == -7.0
    assert trace.values("pattern.mask") == [1.0]


# Random streams


def test_states_of_the_global_generators(watched: Watch) -> None:
    net = nn.Linear(4, 3)

    def train() -> None:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(4):
            net(torch.ones(2, 4)).sum().backward()
            if step == 1:
                torch.rand(1)
            if step == 2:
                np.random.rand()
            if step == 3:
                random.random()
            optimizer.step()

    trace = watched(train)
    digests = {name: [item.digest for item in trace.measured(f"rng.{name}")] for name in ("torch", "numpy", "python")}
    same = {name: [before == after for before, after in pairwise(found)] for name, found in digests.items()}
    assert same == {"torch": [False, True, True], "numpy": [True, False, True], "python": [True, True, False]}


class Augmented(Dataset[Any]):
    """Numbers, with a generator of its own for noise."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(3)

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        return torch.full((4,), float(index))


def test_streams_of_workers(tmp_path: Path) -> None:
    net = nn.Linear(4, 1)
    with observe(tmp_path):
        loader = DataLoader(Augmented(), batch_size=3, num_workers=2)
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
        for _ in range(2):
            for batch in loader:
                net(batch).sum().backward()
                optimizer.step()
    main, *workers = sorted(read_run(tmp_path), key=lambda trace: len(trace.rows), reverse=True)
    assert len(workers) == 4
    assert not any(trace.meta["probe_errors"] for trace in (main, *workers))
    assert {trace.meta["ppid"] for trace in workers} == {main.meta["pid"]}
    numbers = [(trace.measured("worker")[0].digest, trace.values("worker")) for trace in workers]
    assert sorted(value for _, value in numbers) == [[0.0], [0.0], [1.0], [1.0]]
    assert len({digest for digest, _ in numbers}) == 2, "workers of one iterator share a seed"

    def states(name: str) -> set[int]:
        return {trace.measured(name)[0].digest for trace in workers}

    assert len(states("rng.torch")) == len(states("rng.python")) == len(states("rng.numpy")) == 4
    assert len(states("rng.dataset")) == 1, "every worker gets a copy of the dataset with its generator"


@pytest.mark.parametrize("stay", [True, False])
def test_the_first_batch_of_workers_says_whose_it_is_in_any_step(tmp_path: Path, stay: bool) -> None:
    net = nn.Linear(4, 1)
    epochs = 4
    with observe(tmp_path):
        loader = DataLoader(Augmented(), batch_size=3, num_workers=1, persistent_workers=stay)
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
        for _ in range(epochs):
            for batch in loader:
                net(batch).sum().backward()
                optimizer.step()
        list(DataLoader(Augmented(), batch_size=3))
    main, *workers = sorted(read_run(tmp_path), key=lambda trace: len(trace.rows), reverse=True)
    begun = [item.digest for item in main.measured("batch.workers")]
    assert len(begun) == (1 if stay else epochs)
    assert set(begun) == {trace.measured("worker")[0].digest for trace in workers}
    # Those of later epochs begin when nothing is measured in every step any more.
    assert [len(trace.measured("fetch")) for trace in workers] == ([16] if stay else [4] * epochs)


@pytest.mark.skipif(native is None, reason="asked by the compiled core")
def test_behind_the_measured_steps_no_python_runs_for_a_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    api = Fetches.api

    def counted(self: Fetches, recorder: Recorder, args: tuple[Any, ...]) -> Api | None:
        asked.append(recorder.measures.wanted)
        return api(self, recorder, args)

    monkeypatch.setattr(Fetches, "api", counted)
    net = nn.Linear(4, 1)
    with observe(tmp_path):
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
        for _ in range(4):
            for batch in DataLoader(Augmented(), batch_size=3):
                net(batch).sum().backward()
                optimizer.step()
    assert asked == [True] * STEPS


def test_batches_and_their_rows(watched: Watch) -> None:
    def collate(rows: list[Any]) -> Any:
        return {"x": torch.cat(rows * 2), "y": torch.zeros(len(rows))}

    def load() -> None:
        list(DataLoader(Augmented(), batch_size=5))
        list(DataLoader(Augmented(), batch_size=4, drop_last=True, collate_fn=collate))
        list(DataLoader(Augmented(), batch_size=None))

    trace = watched(load)
    assert trace.values("batch.size") == [5.0] * 3 + [4.0] * 3
    assert trace.values("batch.lead") == [5.0, 5.0, 2.0] + [-1.0] * 3


def test_tensors_of_a_batch_that_are_the_same(watched: Watch) -> None:
    def views(rows: list[Any]) -> Any:
        x = torch.stack(rows)
        return {"views": (x, x + 1, [x.clone()]), "labels": torch.zeros(5), "ids": torch.ones(5).long(), "name": "a"}

    def alike(rows: list[Any]) -> Any:
        """Integers, single numbers and tensors of another shape may well be the same."""
        x = torch.stack(rows)
        ones = torch.ones(len(rows), 1)
        return x, ones.long(), ones.long(), torch.tensor(1.0), torch.tensor(1.0), ones

    def load() -> None:
        for collate in (views, alike, lambda rows: [torch.stack(rows)] * 3, None):
            list(DataLoader(Augmented(), batch_size=12, collate_fn=collate))

    assert watched(load).values("batch.repeated") == [1.0, 0.0, 2.0, 0.0]


# What is chosen


def test_functions_that_choose(watched: Watch) -> None:
    scores = torch.randn(4, 6)

    def choose() -> None:
        scores.topk(k=2)
        torch.topk(scores, 3, dim=0)
        scores.max(1)
        torch.argmax(scores, dim=-1)
        scores.sort(descending=True)
        torch.cumsum(scores, 0)

    calls = [call for call in watched(choose).calls if call.type == "choice"]
    assert [(call.name, call.args["dim"]) for call in calls] == [
        ("torch.topk", -1),
        ("torch.topk", 0),
        ("torch.max", 1),
        ("torch.argmax", -1),
        ("torch.sort", -1),
        ("torch.cumsum", 0),
    ]


def test_what_sort_of_numbers_is_given(watched: Watch) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(2, 1)

        def forward(self, x: Any, there: Any) -> Any:
            return self.out(x) * there.any(1, keepdim=True)

    net = Net()
    x = torch.tensor([[0.0, 4.0], [0.5, 4.0], [-2.0, 4.0], [-2.5, 4.0]])
    there = torch.tensor([[True, False], [True, True], [True, False], [True, False]])

    def run() -> None:
        for _ in range(20):
            F.mse_loss(net(x, there), torch.ones(4, 1)).backward()
        net.eval()
        with torch.no_grad():
            net(x, there)

    trace = watched(run)
    number = {
        item.measure.removeprefix("input."): item.value for item in trace.measures if item.measure.startswith("input.")
    }
    assert trace.values("input.rows.x") == [4.0] * 13, "twelve calls in training, and that of evaluation"
    assert (number["negative.x"], number["above one.x"], number["below minus one.x"]) == (0.5, 1.0, 0.5)
    assert (number["fractional.x"], number["zero.x"]) == (0.5, 0.125)
    assert number["off centre.x"] == pytest.approx((1 + 16) / ((0.25 + 4 + 6.25) / 4 + 16))
    assert (number["smallest.there"], number["largest.there"], number["zero.there"]) == (0.0, 1.0, 0.375)
    assert (number["zero first.there"], number["zero last.there"]) == (0.0, 0.75)
    assert trace.values("input.rows.target") == [4.0] * 12
    assert len({item.digest for item in trace.measures if item.measure == "input.rows.x"}) == 1
