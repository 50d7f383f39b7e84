"""The numbers and hashes of `docs/trace-format.md`: each where it belongs and with the value that it has in life."""

from __future__ import annotations

import copy
import gc
import random
import weakref
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from probe_runs import Trace, read_run  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

from pytest_traincheck.probe import observe  # noqa: E402

BATCH, LENGTH, WORDS = 3, 10, 17


class Tiny(nn.Module):
    """A language model small enough to know by heart."""

    def __init__(self, mask: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 8)
        self.positions = nn.Embedding(LENGTH, 8)
        self.out = nn.Linear(8, WORDS)
        self.mask = mask

    def forward(self, tokens: Any) -> Any:
        length = tokens.shape[1]
        hidden = self.words(tokens) + self.positions(torch.arange(length))
        if self.mask:
            future = torch.ones(length, length, dtype=torch.bool).triu(1)
            scores = (hidden @ hidden.transpose(1, 2)).masked_fill(future, -1e9)
            hidden = scores.softmax(-1) @ hidden
        return self.out(hidden)

    def generate(self, tokens: Any, max_new_tokens: int = 4) -> Any:
        for _ in range(max_new_tokens):
            word = self(tokens[:, -LENGTH:])[:, -1:].argmax(-1)
            tokens = torch.cat([tokens, word], dim=1)
        return tokens


def words() -> Any:
    """Sequences in which nothing repeats itself."""
    return torch.stack([torch.randperm(WORDS)[:LENGTH] for _ in range(BATCH)])


def only(run_dir: Path) -> Trace:
    (trace,) = read_run(run_dir)
    assert trace.meta["probe_errors"] == []
    return trace


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def watched(tmp_path: Path) -> Callable[[Callable[[], Any]], Trace]:
    """Runs something under the probe, and reads the trace."""

    def watch(something: Callable[[], Any]) -> Trace:
        with observe(tmp_path / "run"):
            something()
        return only(tmp_path / "run")

    return watch


Watch = Callable[[Callable[[], Any]], Trace]


def steps(net: nn.Module, loss_of: Callable[[], Any], count: int = 1, lr: float = 0.1) -> Any:
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for _ in range(count):
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()
    return optimizer


# Losses


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_how_far_targets_run_ahead(watched: Watch, shift: int) -> None:
    net = Tiny()

    def loss() -> Any:
        tokens = words()
        logits, targets = net(tokens), tokens
        if shift:
            logits, targets = logits[:, :-shift], tokens[:, shift:]
        return F.cross_entropy(logits.reshape(-1, WORDS), targets.reshape(-1))

    trace = watched(lambda: steps(net, loss))
    assert trace.values("loss.shift") == [float(shift)]
    (call,) = trace.called("torch.nn.functional.cross_entropy")
    assert trace.measured("loss.shift")[0].parent == call.seq


def test_labels_that_are_no_tokens_have_no_shift(watched: Watch) -> None:
    net = Tiny()
    trace = watched(lambda: steps(net, lambda: F.cross_entropy(net(words()).mean(1), torch.tensor([1, 2, 3]))))
    assert trace.values("loss.shift") == []


def test_a_sequence_that_repeats_itself_has_no_shift(watched: Watch) -> None:
    net, repeated = Tiny(), torch.full((BATCH, LENGTH), 5)
    trace = watched(lambda: steps(net, lambda: F.cross_entropy(net(repeated).flatten(0, 1), repeated.flatten())))
    assert trace.values("loss.shift") == []
    assert trace.values("loss.targets") == [BATCH * LENGTH]


def test_tokens_in_a_dictionary_and_padded_targets(watched: Watch) -> None:
    class Wrapped(Tiny):
        def forward(self, batch: Any) -> Any:
            return super().forward(batch["input_ids"])

    net = Wrapped()

    def loss() -> Any:
        tokens = words()
        targets = tokens.roll(-1, 1)
        targets[:, -1] = -100
        logits = net({"input_ids": tokens, "labels": targets})
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    trace = watched(lambda: steps(net, loss))
    assert trace.values("loss.shift") == [1.0]
    assert trace.values("loss.targets") == [BATCH * LENGTH]
    assert trace.values("loss.kept") == [BATCH * (LENGTH - 1)]


@pytest.mark.parametrize(
    ("made", "shape"),
    [
        ("other", lambda x: x),
        ("other", lambda x: x * 2),
        ("softmax", lambda x: x.softmax(-1)),
        ("log_softmax", lambda x: F.log_softmax(x, -1)),
        ("sigmoid", lambda x: x.sigmoid()),
        ("logsigmoid", F.logsigmoid),
        ("tanh", lambda x: x.tanh()),
        ("relu", lambda x: x.relu()),
        ("softmax", lambda x: x.softmax(-1).view(2, 2, 3).transpose(0, 1).reshape(4, 3).clone()[:4]),
    ],
)
def test_what_made_the_input_of_a_loss(watched: Watch, made: str, shape: Callable[[Any], Any]) -> None:
    net = nn.Linear(5, 3)
    targets = torch.tensor([0, 1, 2, 0])
    trace = watched(lambda: F.cross_entropy(shape(net(torch.randn(4, 5))), targets).backward())
    assert [item.measure for item in trace.measures if item.measure.startswith("loss.input=")] == [f"loss.input={made}"]


def test_a_loss_that_trains_nothing_is_not_measured(watched: Watch) -> None:
    net = nn.Linear(5, 3)

    def evaluate() -> None:
        with torch.no_grad():
            F.cross_entropy(net(torch.randn(4, 5)), torch.tensor([0, 1, 2, 0]))

    assert not [item for item in watched(evaluate).measures if item.measure.startswith("loss.")]


def test_the_sum_of_a_loss_that_is_not_reduced(watched: Watch) -> None:
    net, seen = nn.Linear(5, 3), []

    def loss() -> Any:
        targets = torch.tensor([0, -100, 2, 0])
        every = F.cross_entropy(net(torch.randn(4, 5)), targets, reduction="none")
        seen.append(float(every.detach().sum()))
        return every.sum() / 3

    trace = watched(lambda: steps(net, loss))
    assert trace.values("loss.sum") == pytest.approx(seen)
    assert (trace.values("loss.targets"), trace.values("loss.kept")) == ([4.0], [3.0])
    assert trace.values("backward.root") == pytest.approx([seen[0] / 3])


@pytest.mark.parametrize(
    ("counts", "total"),
    [
        ((1, 1), lambda a, _b: a.mean()),
        ((2, 2), lambda a, b: a.mean() + 0.1 * b.mean()),
        ((1, 1), lambda a, b: a.mean() + 0.1 * b.mean().detach()),
        ((1, 2), lambda a, b: (a + b).mean()),
        ((3, 3), lambda a, b: (a.mean() - b.mean() + a.sum() * b.sum()) / 4),
        ((1, 2), lambda a, b: torch.stack([a.mean(), b.mean()]).sum()),
        ((2, 2), lambda a, b: a.mean().to(torch.float64) + b.mean().unsqueeze(0).squeeze()),
    ],
)
def test_terms_of_a_loss(watched: Watch, counts: tuple[int, int], total: Callable[[Any, Any], Any]) -> None:
    net = nn.Linear(5, 3)

    def loss() -> Any:
        output = net(torch.randn(4, 5)).tanh()
        return total(output.square(), output.exp())

    trace = watched(lambda: steps(net, loss))
    assert (trace.values("loss.terms"), trace.values("loss.terms.fine")) == ([counts[0]], [counts[1]])


def named(trace: Trace, prefix: str) -> list[str]:
    """What measures that carry their finding in their name have found."""
    return [item.measure.removeprefix(prefix) for item in trace.measures if item.measure.startswith(prefix)]


@pytest.mark.parametrize(
    ("sizes", "total"),
    [
        (["20"], lambda a: a.mean()),
        (["4, 20"], lambda a: a.sum(1).mean() - 0.1 * a.square().mean()),
        (["20"], lambda a: a.mean() + a.sum() / 20),
        (["20"], lambda a: a.mean() + a.square().mean().detach()),
        (["16"], lambda a: (a[:, :1] - a[:, 0]).square().mean()),
        ([], lambda a: a.sum() / 20),
        ([], lambda a: a.mean().square()),
    ],
)
def test_over_how_many_elements_means_go(watched: Watch, sizes: list[str], total: Callable[[Any], Any]) -> None:
    net = nn.Linear(3, 5)
    trace = watched(lambda: steps(net, lambda: total(net(torch.randn(4, 3)))))
    assert named(trace, "loss.means=") == sizes


@pytest.mark.parametrize(
    ("sets", "total"),
    [
        ("2 (15 elements); 4 (27 elements)", lambda h, y: y.mean() + h.mean()),
        ("2 (15 elements); 4 (27 elements)", lambda h, y: (y.sum(1) + h.sum(1)).mean()),
        ("2 (12 elements); 2 (15 elements)", lambda h, y: y.mean() + h.mean()),
        ("4 (27 elements)", lambda h, y: y.mean() + y.square().mean() + h.detach().mean()),
    ],
    ids=["two terms", "one mean of both", "detached between", "detached term"],
)
def test_where_terms_send_gradients(
    watched: Watch, request: pytest.FixtureRequest, sets: str, total: Callable[[Any, Any], Any]
) -> None:
    """An encoder of 15 numbers and a head of 12."""
    encoder, head = nn.Linear(4, 3), nn.Linear(3, 3)
    cut = "between" in request.node.callspec.id

    def loss() -> Any:
        hidden = encoder(torch.randn(6, 4))
        return total(hidden, head(hidden.detach() if cut else hidden))

    trace = watched(lambda: steps(nn.ModuleList([encoder, head]), loss, count=4))
    assert named(trace, "loss.reach=") == [sets] * 2, "in the first two steps"
    (first, *_) = [item for item in trace.measures if item.measure.startswith("loss.reach=")]
    assert first.parent == trace.called("torch.autograd.backward")[0].seq


def test_what_a_scaler_was_given(watched: Watch) -> None:
    net, seen = nn.Linear(5, 3), []
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def loss() -> Any:
        value = net(torch.randn(4, 5)).square().mean()
        seen.append(float(value.detach()))
        return scaler.scale(value)

    trace = watched(lambda: steps(net, loss))
    assert trace.values("scaler.unscaled") == pytest.approx(seen)
    assert trace.values("backward.root") == pytest.approx([1024 * seen[0]])


# Parameters


def test_parameters_as_they_begin(watched: Watch) -> None:
    begun: list[Any] = []

    def train() -> None:
        net = nn.Linear(4, 3)
        nn.init.constant_(net.bias, 0.5)
        begun.append(net.weight.detach().clone())
        steps(net, lambda: net(torch.ones(2, 4)).sum())

    trace, (weight,) = watched(train), begun
    rms = {item.name: item.value for item in trace.measured("parameter.rms")}
    mean = {item.name: item.value for item in trace.measured("parameter.mean")}
    assert rms == pytest.approx({"weight": float(weight.square().mean().sqrt()), "bias": 0.5})
    assert mean == pytest.approx({"weight": float(weight.mean()), "bias": 0.5})


def test_how_far_parameters_move(watched: Watch) -> None:
    net = nn.Linear(4, 3, bias=False)
    before = net.weight.detach().clone()
    trace = watched(lambda: steps(net, lambda: net(torch.ones(2, 4)).sum(), lr=0.01))
    moved = float((net.weight.detach() - before).norm() / before.norm())
    (update,) = trace.measured("parameter.update")
    assert update.value == pytest.approx(moved, rel=1e-5)
    (step,) = trace.called("torch.optim.SGD.step")
    assert (update.name, update.parent) == ("weight", step.seq)


def test_large_parameters_are_sampled(watched: Watch) -> None:
    net = nn.Linear(300, 300, bias=False)
    with torch.no_grad():
        net.weight.fill_(2.0)
    trace = watched(lambda: steps(net, lambda: net(torch.ones(1, 300)).sum(), lr=0.1))
    assert trace.values("parameter.update") == pytest.approx([0.05])


def test_averages_move_too(watched: Watch) -> None:
    """What no optimizer holds has updates as well, once somebody changes it."""
    net = nn.Linear(4, 3)

    def train() -> None:
        average = torch.optim.swa_utils.AveragedModel(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            net(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            average.update_parameters(net)

    # Two parameters in three steps, and what the averages did between them.
    assert len(watched(train).measured("parameter.update")) == 2 * 3 + 2 * 2


def test_how_often_a_parameter_is_initialised(watched: Watch) -> None:
    def train() -> None:
        net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
        nn.init.xavier_uniform_(net[0].weight)
        nn.init.zeros_(net[0].bias)
        nn.init.zeros_(net[0].bias)
        steps(net, lambda: net(torch.ones(2, 4)).sum())

    counts = {item.name: item.value for item in watched(train).measured("parameter.initialised")}
    assert counts == {"0.weight": 2.0, "0.bias": 3.0, "1.weight": 1.0, "1.bias": 1.0}


def test_parameters_that_lie_where_others_lie(watched: Watch) -> None:
    def train() -> None:
        online, target = nn.Linear(4, 3), nn.Linear(4, 3)
        target.weight.data = online.weight.data
        target.bias.data.copy_(online.bias.data)
        steps(nn.ModuleDict({"online": online, "target": target}), lambda: online(torch.ones(2, 4)).sum())

    trace = watched(train)
    (shared,) = trace.measured("parameter.shares")
    assert shared.name == "target.weight"
    assert trace.symbols["var", int(shared.value)]["name"] == "online.weight"


def test_tied_names_and_memory_that_is_used_again_are_not_shared(watched: Watch) -> None:
    """One tensor of two names is one parameter; and the next model often gets the memory of one that is gone."""

    def train() -> None:
        for _ in range(4):
            net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
            net[1].weight = net[0].weight
            steps(net, lambda net=net: net(torch.ones(2, 4)).sum())
            del net
            gc.collect()

    trace = watched(train)
    assert len(trace.measured("parameter.rms")) == 4 * 3
    assert trace.values("parameter.shares") == []


def test_a_parameter_that_moves_into_a_model_does_not_share_memory_with_itself(watched: Watch) -> None:
    def train() -> None:
        scale = nn.Parameter(torch.ones(4))
        optimizer = torch.optim.SGD([scale], lr=0.1)
        scale.sum().backward()
        optimizer.step()
        net = nn.ParameterList([scale])
        steps(net, lambda: net[0].square().sum())

    trace = watched(train)
    assert [item.root for item in trace.measured("parameter.rms")] == [None, "ParameterList"]
    assert trace.values("parameter.shares") == []


def test_parameters_that_are_swapped_for_a_functional_call(watched: Watch) -> None:
    """What a function puts in the place of parameters for a while is none of them, first look or later one."""
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    begun = float(net[0].weight.detach().square().mean().sqrt())
    x = torch.randn(5, 4)

    def train() -> None:
        for step in range(3):
            swapped = {name: 7.0 * parameter for name, parameter in net.named_parameters()}
            torch.func.functional_call(net, swapped, (x,)).square().sum().backward()
            if not step:
                optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
            optimizer.step()

    trace = watched(train)
    first = {item.name: item.value for item in trace.measured("parameter.rms")}
    assert first["0.weight"] == pytest.approx(begun)
    for name in first:
        assert len(trace.changed("parameter", name)) == 1 + 3, "the first look and three steps"
        assert {change.parent for change in trace.changed("parameter", name)[1:]} == {
            call.seq for call in trace.called("torch.optim.SGD.step")
        }
        assert len(trace.changed("requires_grad", name)) == 1


def test_activations_in_training(watched: Watch) -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    x = torch.randn(6, 4)
    with torch.no_grad():
        inner = net[0](x)
    expected = {"0": inner, "1": inner.tanh(), "": inner.tanh()}

    def train() -> None:
        steps(net, lambda: net(x).sum(), lr=0.0)
        net.eval()
        net(x)

    rms = {item.path: item.value for item in watched(train).measured("activation.rms")}
    assert rms == pytest.approx({path: float(value.square().mean().sqrt()) for path, value in expected.items()})


# Copies


@pytest.mark.parametrize(
    "duplicate",
    [
        lambda p: p.detach().clone(),
        lambda p: torch.clone(p.detach()),
        lambda p: p.data.clone(),
        lambda p: copy.deepcopy(p.detach()),
    ],
    ids=["detach.clone", "torch.clone", "data.clone", "deepcopy"],
)
def test_copies_in_a_plain_dictionary_are_tracked(watched: Watch, duplicate: Callable[[Any], Any]) -> None:
    net = nn.Linear(4, 3)

    def train() -> None:
        shadow = {name: duplicate(parameter) for name, parameter in net.named_parameters()}
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            net(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            with torch.no_grad():
                for name, parameter in net.named_parameters():
                    shadow[name].lerp_(parameter, 0.1)

    trace = watched(train)
    changes = [item for item in trace.changed("parameter") if item.root == "copy of Linear"]
    for name in ("weight", "bias"):
        assert len([item for item in changes if item.name == name]) == 4
    assert [root["name"] for root in trace.all("root")] == ["Linear", "copy of Linear"]


def test_copies_that_are_thrown_away_or_live_in_a_module_are_not_tracked(watched: Watch) -> None:
    net = Tiny()

    def train() -> None:
        [parameter.detach().clone() for parameter in net.parameters()]
        teacher = copy.deepcopy(net)
        kept = torch.randn(8, 8).clone()
        net.register_buffer("start", net.out.weight.detach().clone())
        steps(net, lambda: net(words()).sum(), count=2)
        assert kept is not None
        assert teacher is not None

    assert [root["name"] for root in watched(train).all("root")] == ["Tiny", "Tiny"]


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


# Optimizers, generation, checkpointing


def test_state_at_the_first_step(watched: Watch) -> None:
    net = nn.Linear(4, 3)

    def train() -> None:
        first = torch.optim.Adam(net.parameters())
        for _ in range(2):
            net(torch.ones(2, 4)).sum().backward()
            first.step()
        second = torch.optim.Adam(net.parameters())
        second.load_state_dict(copy.deepcopy(first.state_dict()))
        net(torch.ones(2, 4)).sum().backward()
        second.step()

    found = watched(train).measured("optimizer.state")
    assert [item.value for item in found] == [0.0, 2.0]
    assert len({item.opt for item in found}) == 2


def test_tokens_that_generate_adds(watched: Watch) -> None:
    def train() -> None:
        net = Tiny()
        net.generate(words()[:, :3], max_new_tokens=6)
        net.generate(words()[:, :3])

    trace = watched(train)
    assert trace.values("generate.new") == [6.0, 4.0]
    calls = [call for call in trace.calls if call.type == "generate"]
    assert [call.args["max_new_tokens"] for call in calls] == [6, 4]
    assert calls[0].name.endswith("Tiny.generate")


def test_a_checkpointed_part(watched: Watch) -> None:
    block = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))

    def train() -> None:
        x = torch.randn(3, 4, requires_grad=True)
        checkpoint(block, x, use_reentrant=False).sum().backward()
        checkpoint(block, x, use_reentrant=False, preserve_rng_state=False).sum().backward()

    calls = watched(train).called("torch.utils.checkpoint.checkpoint")
    assert [call.args for call in calls] == [{"preserve_rng_state": True}, {"preserve_rng_state": False}]


def test_what_ranks_share_after_a_collective(watched: Watch, tmp_path: Path) -> None:
    import torch.distributed as dist

    if not dist.is_available():
        pytest.skip("torch was built without distributed")
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.FileStore(str(tmp_path / "store"), 1))
    try:

        def share() -> None:
            dist.all_reduce(torch.ones(3))
            dist.broadcast(torch.ones(3), 0)
            dist.all_gather([torch.zeros(3)], torch.ones(3))
            dist.reduce(torch.ones(3), 0)
            dist.all_reduce(torch.ones(3), async_op=True).wait()

        trace = watched(share)
    finally:
        dist.destroy_process_group()
    results = trace.measured("collective.result")
    assert len(results) == 3
    assert results[0].digest == results[1].digest
    parents = {call.seq: call.name.rpartition(".")[2] for call in trace.calls}
    assert [parents[item.parent] for item in results] == ["all_reduce", "broadcast", "all_gather"]


# Cost and side effects


def every_step(count: int) -> Iterator[Any]:
    net = Tiny(mask=True)
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(count):
        optimizer.zero_grad()
        tokens = words()
        F.cross_entropy(net(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        yield net


def test_measures_end_after_eight_steps(watched: Watch) -> None:
    trace = watched(lambda: [None for _ in every_step(14)])
    ends = [call.end for call in trace.calls if call.type == "optimizer"]
    assert len(ends) == 14
    assert max(item.seq for item in trace.measures) < ends[7]
    assert max(item.seq for item in trace.measured("activation.rms")) < ends[1]
    for name in ("loss.shift", "model.input", "backward.root", "loss.terms", "pattern.mask", "rng.torch"):
        assert len(trace.measured(name)) == 8, name
    assert len(trace.measured("parameter.update")) == 8 * len(list(Tiny().parameters()))


def test_what_is_rare_is_measured_to_the_end(watched: Watch) -> None:
    def train() -> None:
        net = list(every_step(9))[-1]
        steps(net, lambda: net(words()).sum())
        net.generate(words()[:, :3])

    trace = watched(train)
    assert len(trace.measured("optimizer.state")) == 2
    assert trace.values("generate.new") == [4.0]


def test_no_measured_tensor_is_kept_alive(tmp_path: Path) -> None:
    with observe(tmp_path):
        net = Tiny(mask=True)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        tokens = words()
        shadow = net.out.weight.detach().clone()
        output = net(tokens)
        loss = F.cross_entropy(output.flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        dead = [weakref.ref(item) for item in (net, net.words.weight, tokens, shadow, output, loss)]
        del net, optimizer, tokens, shadow, output, loss
        gc.collect()
        assert [ref() for ref in dead] == [None] * len(dead)


def test_copies_and_fills_under_transforms(watched: Watch) -> None:
    mask = torch.tensor([True, False, True])

    def penalised(x: Any) -> Any:
        return (x.clone().masked_fill(mask, 0.0) * torch.clone(x)).sum()

    x = torch.randn(5, 3)
    expected = 2 * x * ~mask

    def transformed() -> None:
        assert torch.allclose(torch.func.vmap(torch.func.grad(penalised))(x), expected)
        assert torch.equal(copy.deepcopy(x), x)
        assert torch.allclose(torch.func.jacrev(penalised)(x[0]), expected[0])
        out, tangent = torch.func.jvp(penalised, (x[0],), (torch.ones(3),))
        assert torch.allclose(tangent, expected[0].sum())
        assert out.shape == ()

    watched(transformed)


class Everything(nn.Module):
    """Uses what the probe wraps for measures."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 8)
        self.out = nn.Linear(8, WORDS)

    def forward(self, tokens: Any) -> Any:
        hidden = self.words(tokens)
        future = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        scores = (hidden @ hidden.transpose(1, 2)).masked_fill(future, -1e9)
        hidden = torch.clone(F.softmax(scores, -1) @ hidden.clone())
        hidden = hidden + F.scaled_dot_product_attention(hidden, hidden, hidden, attn_mask=~future)
        return self.out(hidden)


def test_a_compiled_model_is_the_same_graph(tmp_path: Path) -> None:
    tokens = words()

    def graphs() -> tuple[int, int, Any]:
        torch._dynamo.reset()
        torch.manual_seed(4)
        net, counted = Everything(), []

        def backend(module: Any, _inputs: Any) -> Any:
            counted.append(len(list(module.graph.nodes)))
            return module.forward

        compiled = torch.compile(net, backend=backend)

        @torch.compile(backend=backend)
        def loss_of(logits: Any) -> Any:
            return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())

        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            loss_of(compiled(tokens)).backward()
            optimizer.step()
        return len(counted), sum(counted), net.out.weight.detach().clone()

    plain = graphs()
    with observe(tmp_path):
        observed = graphs()
    assert only(tmp_path).meta["probe_error_count"] == 0
    assert observed[:2] == plain[:2]
    assert torch.equal(observed[2], plain[2])


def test_dtypes_in_compiled_graphs(tmp_path: Path) -> None:
    x = torch.randn(3, 4)

    def graphs() -> tuple[int, int]:
        torch._dynamo.reset()
        counted: list[int] = []

        def backend(module: Any, _inputs: Any) -> Any:
            counted.append(len(list(module.graph.nodes)))
            return module.forward

        net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
        compiled = torch.compile(net, backend=backend)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                output = compiled(x) @ x.t()
            output.float().sum().backward()
            optimizer.step()
        return len(counted), sum(counted)

    plain = graphs()
    with observe(tmp_path):
        observed = graphs()
    trace = only(tmp_path)
    assert observed == plain
    # Once for each graph, and nothing of what runs outside of it.
    assert (
        named(trace, "compiled:")
        == [
            "torch.nn.functional.linear=bfloat16",
            "torch.nn.functional.layer_norm=bfloat16",
        ]
        * plain[0]
    )


def test_autocast_within_a_compiled_function(tmp_path: Path) -> None:
    weight, x = torch.randn(3, 4, requires_grad=True), torch.randn(5, 4)

    @torch.compile(backend="eager")
    def loss_of(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = F.linear(x, weight)
        return torch.matmul(hidden.float(), hidden.float().t()).sum()

    torch._dynamo.reset()
    for run in ("first", "second"):
        with observe(tmp_path / run):
            loss_of(x).backward()
    first, second = (named(only(tmp_path / run), "compiled:") for run in ("first", "second"))
    assert first == ["torch.nn.functional.linear=bfloat16", "torch.matmul=float32"]
    assert second == [], "the graph is there already"
