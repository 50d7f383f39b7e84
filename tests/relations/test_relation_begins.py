"""Begins: small programs in which parts of a model begin as copies, as what a model was shown, or otherwise."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judgements import describe, sentences, titles

torch = pytest.importorskip("torch")

from real_training import recorded  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402
from pytest_traincheck.relations.beginnings import prefixes  # noqa: E402


def learned(program: Callable[..., None], folder: Path) -> Golden:
    runs = [recorded(lambda seed=seed: program(seed), folder / f"golden{seed}") for seed in (0, 1, 2)]
    return learn(runs, pipeline="beginning", seeds=(0, 1, 2))


def judged(golden: Golden, program: Callable[..., None], folder: Path, seed: int = 0, **change: Any) -> CheckOutcome:
    run = recorded(lambda: program(seed, **change), folder / f"candidate{seed}{'-'.join(change)}")
    return check_run(golden, run, same_spec=True)


def critic() -> Any:
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))


class Agent(nn.Module):
    """Two critics, and a target for the first."""

    def __init__(self, target: Callable[[Any], Any], second: Callable[[Any], Any]) -> None:
        super().__init__()
        self.critic = critic()
        self.other = second(self.critic)
        self.target = target(self.critic)
        self.target.requires_grad_(False)

    def forward(self, state: Any) -> Any:
        return (self.critic(state) - self.target(state + 1)).square().mean() + self.other(state).square().mean()


def fresh(_: Any) -> Any:
    return critic()


def loaded(source: Any) -> Any:
    target = critic()
    target.load_state_dict(source.state_dict())
    return target


def deep_q(seed: int, target: Any = copy.deepcopy, second: Any = fresh) -> None:
    torch.manual_seed(seed)
    agent = Agent(target, second)
    optimizer = torch.optim.Adam([*agent.critic.parameters(), *agent.other.parameters()], lr=0.01)
    for _ in range(4):
        loss = agent(torch.randn(6, 5))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, quick in zip(agent.target.parameters(), agent.critic.parameters(), strict=True):
                slow.lerp_(quick, 0.1)


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return learned(deep_q, tmp_path_factory.mktemp("agent"))


def test_what_is_learned(golden: Golden) -> None:
    assert sentences(golden, "Begins") == [
        "No two trained parameters begin with the same values.",
        "The elements of `critic.*.bias`, `critic.*.weight`, `other.*.bias` and 3 more of `Agent` are not all equal "
        "at the beginning.",
        "`Agent.target` begins with the values of `Agent.critic`.",
    ]


def test_a_target_that_is_drawn_by_itself(golden: Golden, tmp_path: Path) -> None:
    outcome = judged(golden, deep_q, tmp_path, target=fresh)
    (title,) = titles(outcome, "Begins")
    assert title.startswith(
        "In the golden run `Agent.target` began with the values of `Agent.critic`; in the candidate"
    )
    assert outcome.incidents[0].cause.title == title, describe(outcome.incidents)


def test_two_critics_that_are_one_twice(golden: Golden, tmp_path: Path) -> None:
    outcome = judged(golden, deep_q, tmp_path, second=copy.deepcopy)
    assert "begins with the values of `Agent.critic.0.weight`" in titles(outcome, "Begins")[0]


@pytest.mark.parametrize(("seed", "target"), [(0, loaded), (6, copy.deepcopy), (7, loaded)])
def test_another_way_to_copy(golden: Golden, seed: int, target: Any, tmp_path: Path) -> None:
    outcome = judged(golden, deep_q, tmp_path, seed, target=target)
    assert not titles(outcome, "Begins")


# What a model was shown


def inverted(seed: int, start: Callable[[Any], Any] = torch.clone) -> None:
    """A code is looked for, from the mean of codes on, that a fixed network turns into a pattern."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(24, 16), nn.Tanh()).requires_grad_(False)
    first = torch.randn(1, 24)
    with torch.no_grad():
        wanted = network(first) + 0.1
    code = start(first).requires_grad_(True)
    optimizer = torch.optim.SGD([code], lr=0.5)
    for _ in range(4):
        optimizer.zero_grad()
        (network(code) - wanted).square().sum().backward()
        optimizer.step()


def test_a_parameter_begins_with_what_a_model_was_given(tmp_path: Path) -> None:
    golden = learned(inverted, tmp_path)
    assert "`group0.param0` begins with what `Sequential` was given as `input` before." in sentences(golden, "Begins")
    assert not titles(judged(golden, inverted, tmp_path, seed=5, start=lambda first: first.detach().add(0)), "Begins")
    outcome = judged(golden, inverted, tmp_path, start=torch.randn_like)
    assert titles(outcome, "Begins") == [
        "In the golden run `group0.param0` began with what `Sequential` was given as `input` before; in the candidate "
        "it begins with other values."
    ]


# Elements that differ


def gated(seed: int, gates: Callable[[Any], Any] = nn.init.uniform_) -> None:
    """Few elements: no band tells a constant from what was drawn."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(5, 3), nn.PReLU(3))
    with torch.no_grad():
        gates(model[1].weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 5)).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize(("value", "words"), [(0.5, "they are all equal"), (0.0, "they are all zero")])
def test_a_constant_in_the_place_of_what_is_drawn(value: float, words: str, tmp_path: Path) -> None:
    golden = learned(gated, tmp_path)
    assert not titles(judged(golden, gated, tmp_path, seed=8), "Begins")
    outcome = judged(golden, gated, tmp_path, seed=9, gates=lambda weight: weight.fill_(value))
    assert titles(outcome, "Begins") == [
        f"In the golden run the elements of `Sequential.1.weight` differed at the beginning; in the candidate {words}: "
        "a constant was written over what was drawn, or nothing was drawn."
    ]


def test_two_drawn_elements_that_happen_to_be_close_are_no_constant(tmp_path: Path) -> None:
    def close(weight: Any) -> None:
        weight.copy_(torch.tensor([-0.041464023, -0.041466221, -0.041466221]))

    golden = learned(gated, tmp_path)
    assert not titles(judged(golden, gated, tmp_path, seed=9, gates=close), "Begins")


def test_a_constant_that_golden_has_is_no_rule(tmp_path: Path) -> None:
    golden = learned(lambda seed: gated(seed, gates=lambda weight: weight.fill_(0.5)), tmp_path)
    assert not any("1.weight" in text for text in sentences(golden, "Begins"))


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ("Net.key.conv.weight", "Net.query.conv.weight", ("Net.key", "Net.query")),
        ("Net#1.conv.weight", "Net.conv.weight", ("Net#1", "Net")),
        ("Net.a", "Net.b", ("Net.a", "Net.b")),
    ],
)
def test_what_two_names_do_not_share(one: str, other: str, found: tuple[str, str]) -> None:
    assert prefixes(one, other) == found


# What comes from a file by a way of its own


def arrays(model: Any) -> dict[str, Any]:
    return {name: value.detach().numpy().copy() for name, value in model.named_parameters()}


def by_numpy(state: Any, folder: Path) -> Any:
    numpy = pytest.importorskip("numpy")
    numpy.savez(folder / "weights.npz", **state)
    fresh = critic()
    with numpy.load(folder / "weights.npz") as read:
        for name, value in fresh.named_parameters():
            value.data.copy_(torch.from_numpy(read[name]))
    return fresh


def by_new_parameters(state: Any, _: Path) -> Any:
    fresh = critic()
    for name, value in state.items():
        place, _, key = name.partition(".")
        setattr(fresh[int(place)], key, nn.Parameter(torch.from_numpy(value.copy())))
    return fresh


def not_at_all(_state: Any, _: Path) -> Any:
    return critic()


def but_one_layer(state: Any, _: Path) -> Any:
    fresh = critic()
    fresh.load_state_dict(
        {name: torch.from_numpy(value) for name, value in state.items() if name[0] == "2"}, strict=False
    )
    return fresh


def deployed(seed: int, place: Path, read: Callable[[Any, Path], Any] = by_numpy, more: int = 0) -> None:
    """Trained, written, and read into another model that is only evaluated, when the first steps are long over. The
    model may be trained on, in between.
    """
    torch.manual_seed(seed)
    model = critic()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(12 + more):
        if step < 12:
            state = arrays(model)
        optimizer.zero_grad()
        (model(torch.randn(6, 5)) - 1).square().mean().backward()
        optimizer.step()
    served = read(state if more else arrays(model), place).eval()
    with torch.no_grad():
        served(torch.randn(6, 5))


@pytest.mark.parametrize(("read", "names"), [(not_at_all, "0.weight"), (but_one_layer, "0.weight")])
@pytest.mark.parametrize("more", [0, 1], ids=["the last weights", "the best weights"])
def test_a_model_is_not_what_was_trained(read: Any, names: str, more: int, tmp_path: Path) -> None:
    def program(seed: int, read: Any = by_numpy) -> None:
        deployed(seed, tmp_path, read, more)

    golden = learned(program, tmp_path)
    had = "had after training" if more else "begins with the values of"
    assert [rule for rule in sentences(golden, "Begins") if had in rule] == [
        "`Sequential#1` begins with values that `Sequential` had after training."
        if more
        else "`Sequential#1` begins with the values of `Sequential`."
    ]
    for seed in (0, 5):
        assert not titles(judged(golden, program, tmp_path, seed, read=by_new_parameters), "Begins")
    (title,) = titles(judged(golden, program, tmp_path, 4, read=read), "Begins")
    assert title.startswith("In the golden run `Sequential#1` began with")
    assert f"`Sequential#1.{names}`" in title


# How initial values are distributed


class Reader(nn.Module):
    """An embedding with padding, a recurrence and two layers, each begun in its own way."""

    def __init__(self, padded: bool, recurrent: Any, first: Any, second: Any) -> None:
        super().__init__()
        self.words = nn.Embedding(12, 20, padding_idx=0 if padded else None)
        self.recurrent = nn.Linear(20, 20, bias=False)
        self.first, self.second = nn.Linear(20, 20, bias=False), nn.Linear(20, 20, bias=False)
        for draw, layer in ((recurrent, self.recurrent), (first, self.first), (second, self.second)):
            draw(layer.weight)

    def forward(self, words: Any) -> Any:
        return self.second(self.first(self.recurrent(self.words(words).mean(1)))).square().mean()


def normal(weight: Any) -> None:
    """As large as what `xavier_uniform_` draws."""
    nn.init.normal_(weight, std=20**-0.5)


def reading(
    seed: int,
    padded: bool = True,
    recurrent: Any = nn.init.orthogonal_,
    first: Any = nn.init.xavier_uniform_,
    second: Any = normal,
) -> None:
    torch.manual_seed(seed)
    net = Reader(padded, recurrent, first, second)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randint(1, 12, (4, 5))).backward()
        optimizer.step()


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return learned(reading, tmp_path_factory.mktemp("reading"))


def test_distributions_that_are_learned(read: Golden) -> None:
    assert {
        "Row 0 of `words.weight` of `Reader` is zero at the beginning, and no other.",
        "The elements of `first.weight` of `Reader` lie evenly between two bounds at the beginning.",
        "The elements of `second.weight` of `Reader` are drawn with tails at the beginning.",
        "The rows or columns of `recurrent.weight` of `Reader` stand at right angles at the beginning.",
    } <= set(sentences(read, "Begins"))


@pytest.mark.parametrize("seed", [5, 6])
def test_the_same_distributions_under_another_seed(read: Golden, seed: int, tmp_path: Path) -> None:
    assert not titles(judged(read, reading, tmp_path, seed), "Begins")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"padded": False},
            "row 0 of `Reader.words.weight` was zero at the beginning, and no other; in the candidate no single row is "
            "zero: it is drawn like the others, or another one is set.",
        ),
        (
            {"recurrent": normal},
            "the rows or columns of `Reader.recurrent.weight` stood at right angles at the beginning; in the candidate "
            "they do not stand at right angles: they are drawn one by one.",
        ),
        (
            {"first": normal},
            "the elements of `Reader.first.weight` lay evenly between two bounds at the beginning; in the candidate "
            "they are drawn with tails: a normal distribution instead of a uniform one.",
        ),
        (
            {"second": nn.init.xavier_uniform_},
            "the elements of `Reader.second.weight` were drawn with tails at the beginning; in the candidate they lie "
            "evenly between two bounds: a uniform distribution instead of a normal one.",
        ),
    ],
    ids=["no padding", "no right angles", "normal", "uniform"],
)
def test_another_distribution(read: Golden, change: Any, said: str, tmp_path: Path) -> None:
    assert titles(judged(read, reading, tmp_path, 5, **change), "Begins") == [f"In the golden run {said}"]
