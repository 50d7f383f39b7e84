"""Between: nothing but steps of optimizers writes into trained parameters, and a resume restores all of them."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from judgements import describe, sentences, violations

torch = pytest.importorskip("torch")

from real_training import recorded  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402
from pytest_traincheck.online.follow import Follower  # noqa: E402
from pytest_traincheck.probe import observe  # noqa: E402

RULE = "Between two optimizer steps nothing is written into the trained parameters of `Net`."
AT = 4

Made = tuple[Any, Any]
Between = Callable[[int, Made], "Made | None"]


class Net(nn.Module):
    """Two layers with a norm between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 5)
        self.norm = nn.LayerNorm(5)
        self.last = nn.Linear(5, 3)

    def forward(self, inputs: Any) -> Any:
        return self.last(self.norm(self.first(inputs)))


EVERYTHING = tuple(f"Net.{name}" for name, _ in Net().named_parameters())


def make() -> Made:
    net = Net()
    return net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def training(between: Between | None = None, seed: int = 0, steps: int = 10) -> None:
    """`between` is asked before each step but the first; what it returns goes on with the training."""
    torch.manual_seed(seed)
    net, optimizer = make()
    for step in range(steps):
        if between is not None and step:
            net, optimizer = between(step, (net, optimizer)) or (net, optimizer)
        optimizer.zero_grad()
        net(torch.randn(8, 6)).square().mean().backward()
        optimizer.step()


def golden(folder: Path, between: Between | None = None) -> Golden:
    runs = [recorded(partial(training, between, seed), folder / f"golden{seed}") for seed in (0, 1)]
    return learn(runs, pipeline="real", seeds=(0, 1))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    """Of a training that does nothing between its steps."""
    return golden(tmp_path_factory.mktemp("plain"))


def judged(known: Golden, folder: Path, between: Between) -> CheckOutcome:
    return check_run(known, recorded(partial(training, between, 5), folder / "candidate"), same_spec=True)


def in_fourth(act: Callable[[Made], Made | None]) -> Between:
    """Before step 4 alone."""
    return lambda step, made: act(made) if step == AT else None


def saved(made: Made) -> Any:
    """What a checkpoint of it has, read back from a file."""
    file = io.BytesIO()
    torch.save({"model": made[0].state_dict(), "optimizer": made[1].state_dict()}, file)
    file.seek(0)
    return torch.load(file)


def resumed(made: Made, *, without: str = "") -> Made:
    found = saved(made)
    net, optimizer = make()
    state = {name: value for name, value in found["model"].items() if not without or not name.startswith(without)}
    net.load_state_dict(state, strict=not without)
    optimizer.load_state_dict(found["optimizer"])
    return net, optimizer


def resumed_by_hand(made: Made, *, without: str = "") -> Made:
    found = saved(made)
    net, optimizer = make()
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if not without or not name.startswith(without):
                parameter.copy_(found["model"][name])
    optimizer.load_state_dict(found["optimizer"])
    return net, optimizer


def begun_anew(_: Made) -> Made:
    return make()


def copied(made: Made) -> Made:
    net = copy.deepcopy(made[0])
    return net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


@torch.no_grad()
def scaled(made: Made) -> None:
    made[0].last.weight.mul_(0.9)


@torch.no_grad()
def scaled_through_data(made: Made) -> None:
    made[0].last.weight.data.clamp_(-0.01, 0.01)


@torch.no_grad()
def averaged(made: Made) -> None:
    for parameter in made[0].parameters():
        parameter.lerp_(torch.zeros_like(parameter), 0.1)


@torch.no_grad()
def exchanged(made: Made, *, back: bool = True) -> None:
    """Evaluates with other weights."""
    net = made[0]
    kept = copy.deepcopy(net.state_dict())
    for parameter in net.parameters():
        parameter.mul_(0.5)
    net.eval()
    net(torch.zeros(8, 6))
    net.train()
    if back:
        for name, parameter in net.named_parameters():
            parameter.copy_(kept[name])


def loaded_from_another(made: Made) -> None:
    made[0].load_state_dict(Net().state_dict())


def there_and_back(made: Made) -> None:
    made[0].double().float()


def with_a_new_optimizer(made: Made) -> Made:
    return made[0], torch.optim.SGD(made[0].parameters(), lr=0.1, momentum=0.9)


class Goes:
    """Back to weights of an earlier step."""

    def __init__(self, by_hand: bool) -> None:
        self.by_hand = by_hand
        self.kept: Any = None

    def __call__(self, step: int, made: Made) -> None:
        if step == 2:
            self.kept = copy.deepcopy(made[0].state_dict())
        elif step == AT and not self.by_hand:
            made[0].load_state_dict(self.kept)
        elif step == AT:
            with torch.no_grad():
                for name, parameter in made[0].named_parameters():
                    parameter.copy_(self.kept[name])


def test_a_training_that_writes_nothing_has_the_rule(plain: Golden) -> None:
    assert sentences(plain, "Between") == [RULE]


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        (scaled, ("Net.last.weight",)),
        (scaled_through_data, ("Net.last.weight",)),
        (partial(exchanged, back=False), EVERYTHING),
        (averaged, EVERYTHING),
    ],
    ids=["a stray mul_", "a clamp by hand", "an evaluation that keeps its weights", "an average"],
)  # fmt: skip
def test_what_is_written_between_two_steps_is_told(
    plain: Golden, tmp_path: Path, wrong: Callable[[Made], None], names: tuple[str, ...]
) -> None:
    outcome = judged(plain, tmp_path, in_fourth(wrong))
    (found,) = violations(outcome, "Between")
    assert (found.step, set(found.variables)) == (AT, set(names)), describe(outcome.incidents)
    assert f"something else is written into `{found.variables[0]}`" in found.title
    assert len(outcome.incidents) == 1, describe(outcome.incidents)


@pytest.mark.parametrize("resume", [resumed, resumed_by_hand])
def test_what_a_resume_does_not_restore_is_told(plain: Golden, tmp_path: Path, resume: Callable[..., Made]) -> None:
    outcome = judged(plain, tmp_path, in_fourth(partial(resume, without="last")))
    (found,) = violations(outcome, "Between")
    assert (found.step, set(found.variables)) == (AT, {"Net.last.weight", "Net.last.bias"})
    assert found.title == (
        "In the golden run the trained parameters of `Net` were carried from each step to the next; in the candidate "
        "training goes on at step 4 without what `Net.last.weight`, `Net.last.bias` had: a resume restored only the "
        "others."
    )


def test_a_model_that_begins_anew_in_the_middle_is_told(plain: Golden, tmp_path: Path) -> None:
    (found,) = violations(judged(plain, tmp_path, in_fourth(begun_anew)), "Between")
    assert found.title.endswith("a resume restored none of them.")


@pytest.mark.parametrize(
    "right",
    [
        in_fourth(resumed),
        in_fourth(resumed_by_hand),
        in_fourth(copied),
        in_fourth(exchanged),
        in_fourth(loaded_from_another),
        in_fourth(there_and_back),
        in_fourth(with_a_new_optimizer),
        Goes(by_hand=False),
        Goes(by_hand=True),
    ],
    ids=[
        "a resume", "a resume by hand", "a copy that goes on", "weights exchanged for an evaluation", "other weights",
        "another precision and back", "a new optimizer", "back to the best weights", "back to them by hand",
    ],
)  # fmt: skip
def test_what_is_no_write_is_not_told(plain: Golden, tmp_path: Path, right: Between) -> None:
    assert not violations(judged(plain, tmp_path, right), "Between")


@pytest.mark.parametrize("act", [scaled, averaged], ids=["one parameter", "all of them"])
def test_where_golden_writes_there_is_no_rule(tmp_path: Path, act: Callable[[Made], None]) -> None:
    assert not sentences(golden(tmp_path, in_fourth(act)), "Between")


def test_an_evaluation_with_other_weights_has_to_put_them_back(tmp_path: Path) -> None:
    """Golden exchanges them too, and what comes back was not written to."""
    known = golden(tmp_path, in_fourth(exchanged))
    assert sentences(known, "Between") == [RULE]
    assert violations(judged(known, tmp_path, in_fourth(partial(exchanged, back=False))), "Between")


class Words(nn.Module):
    """An embedding that keeps its rows short, all of which are short at first."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(6, 4, max_norm=1.0)
        self.last = nn.Linear(4, 2)
        with torch.no_grad():
            self.embedding.weight.mul_(0.01)

    def forward(self, words: Any) -> Any:
        return self.last(self.embedding(words))


def test_rows_that_an_embedding_keeps_short_are_not_written_to(tmp_path: Path) -> None:
    def words(steps: int) -> None:
        torch.manual_seed(0)
        net = Words()
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        for _ in range(steps):
            optimizer.zero_grad()
            (-net(torch.arange(6)).sum()).backward()
            optimizer.step()

    known = learn([recorded(partial(words, 1 + 1), tmp_path / f"golden{place}") for place in (0, 1)], pipeline="real")
    assert sentences(known, "Between") == [RULE.replace("Net", "Words")]
    outcome = check_run(known, recorded(partial(words, 12), tmp_path / "candidate"), same_spec=True)
    assert not violations(outcome, "Between")


@pytest.mark.parametrize(
    ("between", "told"),
    [(None, []), (lambda step, made: scaled(made) if step == 20 else None, [20])],
    ids=["nothing", "a stray mul_"],
)
def test_what_came_in_steps_that_were_not_observed_is_no_write(
    plain: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: Between | None, told: list[int]
) -> None:
    monkeypatch.setenv("TRAINCHECK_SAMPLING", '{"every": 10, "head": 4}')
    with observe(tmp_path / "candidate"):
        training(between, 5, steps=45)
    follower = Follower(tmp_path / "candidate", plain, same_spec=True, other_length=True)
    follower.advance(ended=True)
    assert follower.sampled
    found = [each for each in follower.finish().incidents if each.cause.invariant.relation == "Between"]
    assert [each.cause.step for each in found] == told
