"""Averages: a copy keeps the share of itself that it kept in golden, however its update is written."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judgements import sentences, titles

torch = pytest.importorskip("torch")

from real_training import recorded  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402
from pytest_traincheck.relations.meaning import Place  # noqa: E402

Update = Callable[[Any, Any, int], None]


def network() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(4, 9), torch.nn.Tanh(), torch.nn.Linear(9, 2))


def follow(kept: float) -> Update:
    def update(target: Any, net: Any, _step: int) -> None:
        for mine, theirs in zip(target.parameters(), net.parameters(), strict=True):
            mine.mul_(kept).add_(theirs, alpha=1 - kept)

    return update


def follow_by_state(kept: float) -> Update:
    """The same update, written over the names of a state dict."""

    def update(target: Any, net: Any, _step: int) -> None:
        state = net.state_dict()
        mixed = {name: torch.lerp(state[name], mine, kept) for name, mine in target.state_dict().items()}
        target.load_state_dict(mixed)

    return update


def q_learning(update: Update, seed: int = 0, *, steps: int = 5, stops: int = -1) -> Callable[[], None]:
    """A network that learns from what a slower copy of it says; its learning rate is 0 from step `stops` on."""

    def run() -> None:
        torch.manual_seed(seed)
        net = network()
        target = copy.deepcopy(net).eval()
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        for step in range(steps):
            if step == stops:
                optimizer.param_groups[0]["lr"] = 0.0
            now, then, reward = torch.randn(16, 4), torch.randn(16, 4), torch.randn(16)
            with torch.no_grad():
                wanted = reward + 0.9 * target(then).max(1).values
            optimizer.zero_grad()
            torch.nn.functional.smooth_l1_loss(net(now)[:, 0], wanted).backward()
            optimizer.step()
            with torch.no_grad():
                update(target, net, step)

    return run


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    folder = tmp_path_factory.mktemp("golden")
    runs = [recorded(q_learning(follow(0.95), seed), folder / str(seed)) for seed in (0, 1)]
    return learn(runs, pipeline="q", seeds=(0, 1))


def judged(golden: Golden, update: Update, folder: Path, seed: int = 0, **more: int) -> CheckOutcome:
    return check_run(golden, recorded(q_learning(update, seed, **more), folder / "candidate"), same_spec=True)


def test_the_decay_of_a_copy_is_known(golden: Golden) -> None:
    assert sentences(golden, "Averages") == [
        "Update 0 of `Sequential#1` keeps 0.95 of it and takes 0.05 of `Sequential`.",
        "`Sequential#1` is never equal to `Sequential`, of which it is an average.",
    ]


@pytest.mark.parametrize("update", [follow(0.95), follow_by_state(0.95)], ids=["by parameter", "by state"])
def test_another_seed_and_another_way_to_write_it_are_silent(golden: Golden, update: Update, tmp_path: Path) -> None:
    outcome = judged(golden, update, tmp_path, seed=5)
    assert not titles(outcome, "Averages")
    assert any(item.invariant.relation == "Averages" and item.verdict.value == "held" for item in outcome.verdicts)


@pytest.mark.parametrize(
    ("kept", "says"),
    [
        (0.995, "keeps 0.995 of it and takes 0.005 of `Sequential`: its decay is 0.995 instead of 0.95."),
        (0.05, "keeps 0.05 of it and takes 0.95 of `Sequential`: its decay is 0.05 instead of 0.95."),
        (0.0, "keeps 0 of it and takes 1 of `Sequential`: its decay is 0 instead of 0.95."),
    ],
    ids=["too slow", "swapped", "copied"],
)
@pytest.mark.parametrize("seed", [0, 5])
def test_another_decay_is_named_under_any_seed(
    golden: Golden, kept: float, says: str, seed: int, tmp_path: Path
) -> None:
    outcome = judged(golden, follow(kept), tmp_path, seed)
    top = outcome.incidents[0].cause
    assert (top.invariant.relation, top.meaning.place) == ("Averages", Place.AVERAGING)
    assert top.title.replace("0.004999", "0.005").replace("0.005001", "0.005").endswith(says), top.title
    assert len(outcome.incidents) == 1


def noisy(target: Any, _net: Any, _step: int) -> None:
    for mine in target.parameters():
        mine.add_(torch.randn_like(mine))


def test_what_is_no_average_of_both_has_no_decay(golden: Golden, tmp_path: Path) -> None:
    assert not titles(judged(golden, noisy, tmp_path), "Averages")


def from_step(first: int, then: Update) -> Update:
    """An average at first, and something else later."""

    def update(target: Any, net: Any, step: int) -> None:
        (then if step >= first else follow(0.95))(target, net, step)

    return update


def become_one(target: Any, net: Any, _step: int) -> None:
    for mine, theirs in zip(target.parameters(), net.parameters(), strict=True):
        mine.data = theirs.data


def reset_once(target: Any, net: Any, step: int) -> None:
    follow(0.0 if step == 4 else 0.95)(target, net, step)


@pytest.mark.parametrize("then", [follow(0.0), follow_by_state(0.0), become_one], ids=["copied", "loaded", "one"])
@pytest.mark.parametrize("seed", [0, 5])
def test_an_average_that_becomes_its_model_later_is_told(
    golden: Golden, then: Update, seed: int, tmp_path: Path
) -> None:
    outcome = judged(golden, from_step(3, then), tmp_path, seed, steps=9)
    (title,) = titles(outcome, "Averages")
    assert "it has the values of `Sequential` in every step" in title
    found = next(item for item in outcome.violations if item.invariant.relation == "Averages")
    assert found.step == 4, "the first that begins with a copy; one may be a reset"


def test_an_average_that_is_reset_or_that_comes_to_a_model_that_stands_still_is_silent(
    golden: Golden, tmp_path: Path
) -> None:
    assert not titles(judged(golden, reset_once, tmp_path / "reset", steps=9), "Averages")
    still = judged(golden, from_step(4, follow(0.0)), tmp_path / "still", steps=9, stops=4)
    assert not titles(still, "Averages")


def test_an_average_of_a_part_of_a_model_is_one(tmp_path: Path) -> None:
    def distil(update: Update, seed: int) -> Callable[[], None]:
        def run() -> None:
            torch.manual_seed(seed)
            model = torch.nn.ModuleDict({"student": network(), "head": torch.nn.Linear(2, 1)})
            average = copy.deepcopy(model["student"]).eval()
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
            for step in range(6):
                optimizer.zero_grad()
                model["head"](model["student"](torch.randn(16, 4))).square().mean().backward()
                optimizer.step()
                with torch.no_grad():
                    update(average, model["student"], step)

        return run

    runs = [recorded(distil(follow(0.9), seed), tmp_path / str(seed)) for seed in (0, 1)]
    golden = learn(runs, pipeline="d", seeds=(0, 1))
    assert sentences(golden, "Averages") == [
        "Update 0 of `Sequential` keeps 0.9 of it and takes 0.1 of `ModuleDict.student`.",
        "`Sequential` is never equal to `ModuleDict.student`, of which it is an average.",
    ]
    right, wrong = (
        check_run(golden, recorded(distil(update, 5), tmp_path / name), same_spec=True)
        for name, update in (("right", follow(0.9)), ("wrong", from_step(2, follow(0.0))))
    )
    assert not titles(right, "Averages")
    assert titles(wrong, "Averages")


class Pair(torch.nn.Module):
    """A student and its slower teacher in one module, beside a head of the student's and a number that stays."""

    def __init__(self) -> None:
        super().__init__()
        self.student = network()
        self.nets = torch.nn.ModuleDict({"teacher": copy.deepcopy(self.student), "head": torch.nn.Linear(2, 2)})
        self.scale = torch.nn.Parameter(torch.full((4, 9), 2.0), requires_grad=False)

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            wanted = self.nets["teacher"](x)
        return (self.nets["head"](self.student(x)) - wanted).square().mean()


def in_one(update: Update, seed: int, *, trains_teacher: bool = False) -> Callable[[], None]:
    def run() -> None:
        torch.manual_seed(seed)
        pair = Pair()
        nets = [pair.student, pair.nets if trains_teacher else pair.nets["head"]]
        optimizer = torch.optim.Adam([each for net in nets for each in net.parameters()], lr=0.01)
        for step in range(6):
            optimizer.zero_grad()
            pair(torch.randn(16, 4)).backward()
            optimizer.step()
            with torch.no_grad():
                update(pair.nets["teacher"], pair.student, step)

    return run


def test_an_average_that_lies_in_the_model_is_one(tmp_path: Path) -> None:
    runs = [recorded(in_one(follow(0.95), seed), tmp_path / str(seed)) for seed in (0, 1)]
    golden = learn(runs, pipeline="p", seeds=(0, 1))
    assert sentences(golden, "Averages") == [
        "Update 0 of `Pair.nets.teacher` keeps 0.95 of it and takes 0.05 of `Pair.student`.",
        "`Pair.nets.teacher` is never equal to `Pair.student`, of which it is an average.",
    ]
    right, slow, wrong = (
        check_run(golden, recorded(in_one(update, 5), tmp_path / name), same_spec=True)
        for name, update in (
            ("right", follow_by_state(0.95)), ("slow", follow(0.99)), ("wrong", from_step(2, become_one)),
        )
    )  # fmt: skip
    assert not titles(right, "Averages")
    assert "its decay is 0.99 instead of 0.95" in titles(slow, "Averages")[0]
    assert "it has the values of `Pair.student` in every step" in titles(wrong, "Averages")[0]


def test_what_an_optimizer_holds_is_no_average(tmp_path: Path) -> None:
    runs = [recorded(in_one(follow(0.9), seed, trains_teacher=True), tmp_path / str(seed)) for seed in (0, 1)]
    assert not sentences(learn(runs, pipeline="p", seeds=(0, 1)), "Averages")
