"""What is measured of losses, as `docs/trace-format.md` tells it: where it belongs, with the value it has in life."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from measuring import BATCH, LENGTH, WORDS, Tiny, Watch, named, steps, words  # noqa: E402
from torch import nn  # noqa: E402

pytestmark = pytest.mark.usefixtures("seeded")


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


# Weights of the terms


def weigh(watched: Watch, total: Callable[[Any, Any], Any]) -> list[float]:
    net = nn.Linear(5, 3)

    def loss() -> Any:
        output = net(torch.randn(4, 5)).tanh()
        return total(output.square().mean(), output.exp().mean())

    return watched(lambda: steps(net, loss)).values("loss.weight")


HALF = torch.tensor(0.5)


@pytest.mark.parametrize(
    ("found", "total"),
    [
        ([0.5], lambda a, _b: a / 2),
        ([1.0, 0.1], lambda a, b: a + 0.1 * b),
        ([1.0, -0.1], lambda a, b: a - b * 0.1),
        ([0.25, 0.25], lambda a, b: (a + b) / torch.tensor(4.0)),
        ([0.5, -2.0, 0.5], lambda a, b: HALF * (a - 4 * b) + a * HALF),
        ([1.0, 3.0], lambda a, b: torch.add(a, b, alpha=3)),
        ([1.0, -3.0], lambda a, b: torch.sub(a, b, alpha=3)),
        ([-1.0], lambda a, _b: -a),
        ([2.0, 1.0], lambda a, b: sum([2 * a, b.detach(), b])),
        ([0.5], lambda a, b: torch.stack([a, b]).sum() * 0.5),
        ([7.0], lambda a, b: 7 * (a * b)),
        ([1.0, 0.3], lambda a, b: a.to(torch.float64) + (0.3 * b).squeeze().clone()),
        ([], lambda a, b: a + b),
        ([], lambda a, _b: a),
        ([], lambda a, _b: 1 / a),
        ([], lambda a, _b: HALF / a),
    ],
)
def test_what_terms_are_multiplied_by(watched: Watch, found: list[float], total: Callable[[Any, Any], Any]) -> None:
    assert weigh(watched, total) == pytest.approx(found)


def test_weights_are_looked_at_in_later_steps_too(watched: Watch) -> None:
    net, weights = nn.Linear(5, 3), [0.1 * step + 0.05 for step in range(12)]
    ramp = iter(weights)

    def loss() -> Any:
        output = net(torch.randn(4, 5))
        return output.mean() + next(ramp) * output.square().mean()

    trace = watched(lambda: steps(net, loss, len(weights)))
    assert trace.values("loss.weight")[::2] == [1.0] * 12
    assert trace.values("loss.weight")[1::2] == pytest.approx(weights)


def test_terms_are_counted_in_later_steps_too(watched: Watch) -> None:
    net, counts = nn.Linear(5, 3), [3] * 10 + [2] * 3 + [3] * 2
    terms = iter(counts)

    def loss() -> Any:
        output = net(torch.randn(4, 5))
        last = output.exp().mean()
        return (output + output.square()).mean() + (last if next(terms) == 3 else last.detach())

    trace = watched(lambda: steps(net, loss, len(counts)))
    assert trace.values("loss.terms.fine") == counts[:8]
    assert trace.values("later.terms") == counts[8:]


def test_a_loss_of_one_term_is_not_taken_apart_in_later_steps(watched: Watch) -> None:
    net = nn.Linear(5, 3)
    trace = watched(lambda: steps(net, lambda: net(torch.randn(4, 5)).exp().mean(), 12))
    assert trace.values("loss.terms") == [1.0] * 8
    assert trace.values("later.terms") == []


def test_a_weight_that_is_no_number_is_not_asked_for(watched: Watch) -> None:
    rows = torch.rand(4, 1)
    net = nn.Linear(5, 1)
    trace = watched(lambda: steps(net, lambda: 0.5 * (net(torch.randn(4, 5)) * rows)[0, 0]))
    assert trace.values("loss.weight") == []


@pytest.mark.parametrize("of", ["all", "one"])
def test_hooks_for_saved_tensors_are_called_by_backward_alone(watched: Watch, of: str) -> None:
    net, calls = nn.Linear(5, 3), []

    def unpack(packed: Any) -> Any:
        calls.append(packed.shape)
        return packed

    def loss() -> Any:
        if of == "one":
            total = 0.5 * net(torch.randn(4, 5)).square().mean()
            total.grad_fn._raw_saved_other.register_hooks(lambda tensor: tensor, unpack)
            return total
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
            return 0.5 * net(torch.randn(4, 5)).square().mean()

    steps(net, loss, 2)
    usual, calls = calls, []
    assert usual
    trace = watched(lambda: steps(net, loss, 2))
    assert calls == usual
    assert trace.values("loss.weight") == []


def test_a_graph_that_is_gone_says_nothing_and_does_no_harm(watched: Watch) -> None:
    weight = torch.tensor(0.5)
    net = nn.Linear(5, 3)

    def train() -> None:
        loss = weight * net(torch.randn(4, 5)).square().mean()
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
        loss = weight * net(torch.randn(4, 5)).square().mean()
        weight.mul_(2)
        with pytest.raises(RuntimeError, match="inplace operation"):
            loss.backward()

    assert watched(train).values("loss.weight") == [0.5]


class Mul(torch.autograd.Function):
    """A function of the program's own, whose node is called as one of torch's is."""

    @staticmethod
    def forward(_ctx: Any, a: Any) -> Any:
        return a * 2

    @staticmethod
    def backward(_ctx: Any, grad: Any) -> Any:
        return grad * 2


def test_a_function_of_the_program_with_the_name_of_torch_s(watched: Watch) -> None:
    assert weigh(watched, lambda a, _b: 0.5 * Mul.apply(a)) == []
