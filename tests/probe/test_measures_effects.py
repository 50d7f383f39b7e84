"""What is measured of optimizers, generation, checkpointing and ranks; and that measuring changes nothing."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from measuring import LENGTH, WORDS, Tiny, Watch, every_step, named, only, steps, words  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from pytest_traincheck.probe import evaluations, install, measures, observe  # noqa: E402
from pytest_traincheck.probe.given import CALLS, PREFIX  # noqa: E402

FOLLOWED = ("later.", evaluations.RESULT)
"""What is measured for longer: what training is given, and what models return in evaluation."""

pytestmark = pytest.mark.usefixtures("seeded")


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


Optimizer = Callable[[Any], Any]


def carried(watched: Watch, make: Optimizer, between: Callable[[Any], None] = lambda _: None) -> list[list[float]]:
    """What an optimizer is left with by each of three steps, and what it holds before each but the first."""
    net = nn.Linear(4, 3)

    def train() -> None:
        optimizer = make(net.parameters())
        for _ in range(3):

            def closure() -> Any:
                optimizer.zero_grad()
                loss = net(torch.ones(2, 4)).square().sum()
                loss.backward()
                return loss

            optimizer.step(closure)
            between(optimizer)

    trace = watched(train)
    return [trace.values("optimizer.left"), trace.values("optimizer.held")]


@pytest.mark.parametrize(
    ("make", "parameters"),
    [
        (torch.optim.Adam, 2.0),
        (torch.optim.Adagrad, 2.0),
        (partial(torch.optim.SGD, lr=0.1, momentum=0.9), 2.0),
        (partial(torch.optim.LBFGS, max_iter=2), 1.0),
        (partial(torch.optim.SGD, lr=0.1), 0.0),
    ],
    ids=["Adam", "Adagrad", "momentum", "LBFGS", "SGD"],
)
def test_state_between_steps(watched: Watch, make: Optimizer, parameters: float) -> None:
    assert carried(watched, make) == [[parameters] * 3, [parameters] * 2]


def test_state_that_is_lost_between_steps(watched: Watch) -> None:
    def lose(optimizer: Any) -> None:
        optimizer.state.popitem()

    assert carried(watched, torch.optim.Adam, lose) == [[2.0, 2.0, 2.0], [1.0, 1.0]]


def test_an_optimizer_that_is_made_anew_inside_its_own_object(watched: Watch) -> None:
    def again(optimizer: Any) -> None:
        optimizer.__init__([item for group in optimizer.param_groups for item in group["params"]])

    assert carried(watched, torch.optim.Adam, again) == [[2.0, 2.0, 2.0], [0.0, 0.0]]


def test_state_of_another_kind(watched: Watch) -> None:
    """What is not kept by parameter is not counted, and does no harm."""

    class Odd(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            self.state["matrix"] = torch.ones(2, 2)
            return super().step(closure)

    assert carried(watched, partial(Odd, lr=0.1, momentum=0.9)) == [[2.0] * 3, [2.0] * 2]


def test_state_that_is_no_table(watched: Watch) -> None:
    def hide(optimizer: Any) -> None:
        optimizer.state = None

    assert carried(watched, partial(torch.optim.SGD, lr=0.1), hide) == [[0.0] * 3, [0.0] * 2]


def test_state_that_is_looked_at_and_not_kept(watched: Watch) -> None:
    """The table makes an empty entry for every parameter that is asked for."""

    class Looks(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            assert not any(self.state[item] for group in self.param_groups for item in group["params"])
            return super().step(closure)

    assert carried(watched, partial(Looks, lr=0.1)) == [[0.0] * 3, [0.0] * 2]


def test_state_that_is_no_table_when_training_begins(watched: Watch) -> None:
    def train() -> None:
        net = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        optimizer.state = None  # type: ignore[assignment]
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()

    assert watched(train).values("optimizer.state") == [0.0]


def test_contexts_that_generate_goes_on_from(watched: Watch) -> None:
    """One token in all places is none: another one of it makes no difference."""

    def train() -> None:
        net = Tiny()
        net.generate(words()[:, :3], max_new_tokens=3)
        net.generate(torch.ones(2, 3, dtype=torch.int64), max_new_tokens=1)
        net(words())

    contexts = watched(train).measured("generate.context")
    assert len(contexts) == 3
    assert len({item.digest for item in contexts}) == 3


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


def test_measures_end_after_eight_steps(watched: Watch) -> None:
    trace = watched(lambda: [None for _ in every_step(14)])
    ends = [call.end for call in trace.calls if call.type == "optimizer"]
    assert len(ends) == 14
    given = [item for item in trace.measures if item.measure.startswith(PREFIX)]
    others = [item for item in trace.measures if not item.measure.startswith((PREFIX, *FOLLOWED))]
    assert max(item.seq for item in others) < ends[7]
    assert ends[CALLS - 2] < max(item.seq for item in given) < ends[CALLS - 1]
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


def test_models_that_are_made_after_a_compilation_are_known(tmp_path: Path) -> None:
    """The next trainer, or the one that resumes, compiles its model too."""
    with observe(tmp_path):
        for _ in range(2):
            net = nn.Linear(3, 1)
            compiled = torch.compile(net, backend="aot_eager")
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(2):
                compiled(torch.ones(2, 3)).sum().backward()
                optimizer.step()
            del net, compiled, optimizer
    trace = only(tmp_path)
    roots = [symbol["ordinal"] for (kind, _), symbol in trace.symbols.items() if kind == "root"]
    assert roots == [0, 1]
    moved = {change.root for change in trace.changes if change.kind == "parameter" and change.old}
    assert len([change for change in trace.changes if change.kind == "parameter"]) >= 2 * 2 * 2
    assert moved == {"Linear"}


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


def test_a_process_that_never_steps_notes_no_copies_for_ever(tmp_path: Path) -> None:
    """The worker of a DataLoader clones a tensor for every example, and takes no step."""
    example = torch.ones(4)
    with observe(tmp_path):
        kept = [example.clone() for _ in range(3)]
        for _ in range(20_000):
            example.clone()
        noted = install._active.recorder.copies.noted
        assert len(kept) <= len(noted) <= 4096


def test_a_process_that_never_steps_is_not_measured_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "LIMIT", 50)
    monkeypatch.setattr(evaluations, "RESULTS", 40)
    counts = []
    for calls in (60, 120):
        with observe(tmp_path / str(calls)):
            net = Tiny(mask=True).eval()
            with torch.no_grad():
                for _ in range(calls):
                    net(words())
        found = only(tmp_path / str(calls)).measures
        assert sum(item.measure == evaluations.RESULT for item in found) == 40
        assert sum(not item.measure.startswith((PREFIX, *FOLLOWED)) for item in found) <= 60
        counts.append(len(found))
    assert counts[0] == counts[1]


def test_the_short_path_records_the_same_calls(watched: Watch) -> None:
    """Once nothing is measured, losses, embeddings and masks are recorded as they were before."""
    trace = watched(lambda: [None for _ in every_step(12)])
    for name in ("embedding", "cross_entropy"):
        calls = [call for call in trace.calls if call.name == f"torch.nn.functional.{name}"]
        each = 2 if name == "embedding" else 1
        assert len(calls) == 12 * each, name
        assert [call.args for call in calls[-each:]] == [call.args for call in calls[:each]], name
