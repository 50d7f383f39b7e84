"""Programs in other pieces whose parameters begin alike, or whose models are many: real training, in this process."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from judgements import describe, violations

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn
from pytest_traincheck.probe import observe
from pytest_traincheck.trace import Run, load_run

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional


def record(directory: Path, program: Any) -> Run:
    with observe(directory, seed=program.seed):
        program()
    return load_run(directory)


def goldens(directory: Path, program: Any) -> Golden:
    runs = [record(directory / f"golden {seed}", replace(program, seed=seed)) for seed in range(3)]
    again = [record(directory / "again", program)]
    return learn(runs, pipeline="matched", seeds=(0, 1, 2), repeated=again)


# Layers that the first batch sets up


class Norm(nn.Module):
    """Begins with zeros; the first batch says what it shifts and scales by."""

    def __init__(self, names: tuple[str, str]) -> None:
        super().__init__()
        self.names = names
        for name in names:
            setattr(self, name, nn.Parameter(torch.zeros(6)))
        self.register_buffer("ready", torch.tensor(False))

    def forward(self, x: Any) -> Any:
        shift, scale = (getattr(self, name) for name in sorted(self.names, reverse=True))
        if not self.ready:
            with torch.no_grad():
                shift.copy_(-x.mean(0))
                scale.copy_(-torch.log(x.std(0) + 1e-6))
                self.ready.fill_(True)
        return (x + shift) * scale.exp()


def half() -> tuple[Any, Any]:
    inner, outer = nn.Linear(3, 8), nn.Linear(8, 6)
    nn.init.zeros_(outer.weight)
    nn.init.zeros_(outer.bias)
    return inner, outer


class Coupling(nn.Module):
    """Moves one half of the columns by what the other says."""

    def __init__(self) -> None:
        super().__init__()
        self.inp, self.out = half()

    def forward(self, x: Any) -> Any:
        a, b = x.chunk(2, 1)
        scale, shift = self.out(torch.tanh(self.inp(a))).chunk(2, 1)
        return torch.cat([a, b * torch.tanh(scale).exp() + shift], 1)


class Flow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([])
        for _ in range(2):
            self.layers.extend([Norm(("shift", "log_scale")), Coupling()])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


class Net(nn.Module):
    """What the coupling layer asks; it holds the same parameters, and returns other numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.ask, self.answer = half()

    def forward(self, a: Any) -> Any:
        scale, shift = self.answer(torch.tanh(self.ask(a))).chunk(2, 1)
        return torch.tanh(scale), shift


class Stage(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.affine = Norm(("offset", "log_factor"))
        self.net = Net()

    def forward(self, x: Any) -> Any:
        a, b = self.affine(x).chunk(2, 1)
        scale, shift = self.net(a)
        return torch.cat([a, b * scale.exp() + shift], 1)


class Density(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.Sequential(Stage(), Stage())

    def forward(self, x: Any) -> Any:
        return self.stages(x)


@dataclass(frozen=True)
class Sittings:
    """Trains in two sittings, of which the second goes on with what the first has left."""

    seed: int = 0
    model: Callable[[], Any] = Flow
    keeps: bool = True
    """Whether the first model is still there in the second sitting."""
    rate: float = 0.02
    held: int | None = None
    """Parameters that the optimizer is given; a bug where it is not all."""

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        x = torch.randn(16, 12, 6) * 3 + 1
        kept: list[Any] = []
        state: dict[str, Any] | None = None
        for sitting in range(2):
            model = self.model()
            optimizer = torch.optim.Adam([*model.parameters()][: self.held], lr=self.rate)
            if state is not None:
                model.load_state_dict(state)
            for step in range(6):
                optimizer.zero_grad()
                model(x[sitting * 6 + step]).square().mean().backward()
                optimizer.step()
            state = copy.deepcopy(model.state_dict())
            if self.keeps:
                kept.append((model, optimizer))
            del model, optimizer


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return goldens(tmp_path_factory.mktemp("flow"), Sittings())


@pytest.mark.parametrize("keeps", [True, False])
def test_layers_that_the_first_batch_sets_up_are_found_again(flow: Golden, tmp_path: Path, keeps: bool) -> None:
    """All begin with the same zeros; in the second sitting the first model is looked at again, or is gone."""
    outcome = check_run(flow, record(tmp_path, Sittings(model=Density, keeps=keeps)), same_spec=True)
    assert not outcome.incidents, describe(outcome.incidents)
    assert ("Density.stages.1.affine", "Flow.layers.2") in outcome.renamed
    assert "Density#1.stages.0" not in dict(outcome.renamed)


def test_the_network_within_a_layer_is_not_that_layer(flow: Golden, tmp_path: Path) -> None:
    outcome = check_run(flow, record(tmp_path, Sittings(model=Density)), same_spec=True)
    assert "Density.stages.0.net" not in dict(outcome.renamed)
    assert ("Density.stages.0.net.ask", "Flow.layers.1.inp") in outcome.renamed


def test_a_parameter_left_out_is_told_where_layers_were_matched_by_values(flow: Golden, tmp_path: Path) -> None:
    outcome = check_run(flow, record(tmp_path, Sittings(model=Density, keeps=False, held=-1)), same_spec=True)
    assert any("in no optimizer" in each.title for each in violations(outcome)), describe(outcome.incidents)


# More models of one class than ten


def layers() -> list[Any]:
    return [nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)]


class Body(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.norm, *_ = layers()

    def forward(self, x: Any) -> Any:
        return F.relu(self.norm(self.enter(x)))


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        first, norm, _, last = layers()
        self.body = Body()
        self.body.enter, self.body.norm, self.head = first, norm, last

    def forward(self, x: Any) -> Any:
        return self.head(self.body(x))


@dataclass(frozen=True)
class Federated:
    """Three clients in four rounds train copies of one model, which then becomes their average."""

    seed: int = 0
    model: Callable[[], Any] = lambda: nn.Sequential(*layers())
    average: str = "loaded"
    """`loaded`, `copied` by hand, copied in all rounds `but the last` (a bug), or `never` (a bug)."""
    falls: int = 3
    """Clients after which the rate falls: 3 is a round."""

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        x, y = torch.randn(24, 10, 4), torch.randint(3, (24, 10))
        server, rate = self.model(), 0.2
        for number in range(4):
            clients = []
            for client in range(3):
                clients.append(copy.deepcopy(server).train())
                optimizer = torch.optim.SGD(clients[-1].parameters(), lr=rate, momentum=0.5)
                for step in range(2):
                    at = number * 6 + client * 2 + step
                    loss = F.cross_entropy(clients[-1](x[at]), y[at])
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                if (number * 3 + client + 1) % self.falls == 0:
                    rate *= 0.8
            self._average(server, clients, number)
            server.eval()
            with torch.no_grad():
                server(x[number])

    def _average(self, server: Any, clients: list[Any], number: int) -> None:
        states = [client.state_dict() for client in clients]
        mean = {
            name: (sum(state[name] for state in states) / 3).to(value.dtype)
            for name, value in server.state_dict().items()
        }
        if self.average == "loaded":
            server.load_state_dict(mean)
        elif self.average == "copied" or (self.average == "but the last" and number < 3):
            with torch.no_grad():
                for name, value in server.state_dict().items():
                    value.copy_(mean[name])


@pytest.fixture(scope="module")
def federated(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return goldens(tmp_path_factory.mktemp("federated"), Federated())


@pytest.mark.parametrize(
    "program",
    [Federated(average="copied"), Federated(model=Classifier), Federated(model=Classifier, average="copied")],
    ids=["copied by hand", "cut otherwise", "both"],
)
def test_each_copy_of_a_model_is_compared_with_the_one_that_was_made_as_its_turn(
    federated: Golden, tmp_path: Path, program: Federated
) -> None:
    """Twelve copies are made, and the tenth is not compared with the second, which had another learning rate."""
    outcome = check_run(federated, record(tmp_path, program), same_spec=True)
    assert not outcome.incidents, describe(outcome.incidents)


def test_a_rate_that_falls_by_client_is_told_of_copies_that_were_cut_otherwise(
    federated: Golden, tmp_path: Path
) -> None:
    outcome = check_run(federated, record(tmp_path, Federated(model=Classifier, falls=1)), same_spec=True)
    assert any("SGD(lr)" in each.title for each in violations(outcome)), describe(outcome.incidents)


@pytest.mark.parametrize("average", ["but the last", "never"])
def test_what_is_not_loaded_before_an_evaluation_is_told(federated: Golden, tmp_path: Path, average: str) -> None:
    """After the last step no training shows any more what the server was given; its evaluation does."""
    outcome = check_run(federated, record(tmp_path, Federated(average=average)), same_spec=True)
    said = [each.title for each in violations(outcome)]
    assert any("torch.nn.Module.load_state_dict" in title for title in said), describe(outcome.incidents)


# Constants


class Table(nn.Module):
    """Scores pairs by tables of its own and a margin, a parameter that nobody trains."""

    def __init__(self) -> None:
        super().__init__()
        self.margin = nn.Parameter(torch.tensor([2.0]), requires_grad=False)
        self.left, self.right = (nn.Parameter(torch.randn(count, 4)) for count in (7, 5))

    def forward(self, pairs: Any) -> Any:
        return self.margin - (self.left[pairs[:, 0]] - self.right[pairs[:, 1]]).abs().sum(1)


class Scorer(nn.Module):
    """The same in layers, under other names; the margin is a buffer, and a method takes the place of `forward`."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("limit", torch.tensor([2.0]))
        numbers = [torch.randn(count, 4) for count in (7, 5)]
        self.heads, self.tails = (nn.Embedding.from_pretrained(each, freeze=False) for each in numbers)

    def score(self, pairs: Any) -> Any:
        return self.limit - (self.heads(pairs[:, 0]) - self.tails(pairs[:, 1])).abs().sum(1)


@dataclass(frozen=True)
class Scoring:
    """Trains scores, and looks at all of them every other step."""

    seed: int = 0
    in_layers: bool = False
    looks: bool = True

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        model = Scorer() if self.in_layers else Table()
        score = model.score if self.in_layers else model
        optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=0.1)
        every = torch.cartesian_prod(torch.arange(7), torch.arange(5))
        for step in range(6):
            optimizer.zero_grad()
            F.softplus(-score(every[torch.randperm(len(every))[:12]])).mean().backward()
            optimizer.step()
            if step % 2 and self.looks:
                with torch.no_grad():
                    print(f"mean {score(every).mean().item():.3f}")


def test_a_constant_may_be_a_buffer(tmp_path: Path) -> None:
    """What holds all that moves in golden's model is that model, though its margin is a parameter no more."""
    golden = goldens(tmp_path, Scoring())
    outcome = check_run(golden, record(tmp_path / "layers", Scoring(in_layers=True)), same_spec=True)
    assert not outcome.incidents, describe(outcome.incidents)
    assert ("Scorer", "Table") in outcome.renamed
    blind = check_run(golden, record(tmp_path / "blind", Scoring(in_layers=True, looks=False)), same_spec=True)
    assert any("in evaluation was called at least once" in item.title for item in violations(blind))
