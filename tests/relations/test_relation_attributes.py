"""Attributes: what is set on modules is the same before each step, where it is there at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judgements import sentences, violations

torch = pytest.importorskip("torch")

from real_training import check, recorded  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402

Change = Callable[[Any, int], None]


class Cut(torch.nn.Module):
    """Cuts what is above a threshold, and counts how often it was asked."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold
        self.window = (1, 2)
        self.way = "hard"
        self.path = "/tmp/cut"
        self.calls = 0
        self._private = threshold

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x.clamp(max=self.threshold)


class Net(torch.nn.Module):
    """Two layers with a cut between them."""

    def __init__(self, width: int = 8, name: str = "cut", heads: int = 2) -> None:
        super().__init__()
        self.first = torch.nn.Linear(6, width)
        self.add_module(name, Cut(2.0))
        self.drop = torch.nn.Dropout(0.1)
        self.last = torch.nn.Linear(width, 1)
        self.name = f"a {name}"
        self.heads = heads

    def forward(self, x: Any) -> Any:
        return self.last(self.drop(getattr(self, self.name.split()[1])(self.first(x))))


def nothing(_net: Any, _step: int) -> None:
    """Attributes stay as they were made."""


def loop(seed: int = 0, change: Change = nothing, steps: int = 8, **net: Any) -> Callable[[], None]:
    """A training in which `change` is done to the model before each step."""

    def train() -> None:
        torch.manual_seed(seed)
        model = Net(**net)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in range(steps):
            change(model, step)
            optimizer.zero_grad()
            model(torch.randn(8, 6)).square().mean().backward()
            optimizer.step()

    return train


@pytest.fixture
def learned(tmp_path: Path) -> Callable[..., Golden]:
    def learn_it(change: Change = nothing) -> Golden:
        return learn([recorded(loop(seed, change), tmp_path / f"golden{seed}") for seed in (0, 1)], pipeline="story")

    return learn_it


@pytest.fixture
def judged(tmp_path: Path) -> Callable[..., CheckOutcome]:
    def judge(golden: Golden, *, seed: int = 5, change: Change = nothing, **story: Any) -> CheckOutcome:
        number = len(list(tmp_path.iterdir()))
        training: Any = loop(seed, change, **story)
        return check(golden, training, tmp_path / f"candidate{number}")

    return judge


def said(outcome: CheckOutcome) -> list[str]:
    return [item.title for item in violations(outcome, "Attributes")]


def grows(net: Any, step: int) -> None:
    net.cut.threshold = 2.0 + step // 4
    net.drop.p = 0.1 * (1 + step // 4)


def test_numbers_texts_and_short_tuples_are_rules(learned: Callable[..., Golden]) -> None:
    """Counts, paths, what is private, and torch's own layers are none."""
    assert sorted(sentences(learned(), "Attributes")) == [
        "The attribute `heads` of `Net` is 2.",
        'The attribute `name` of `Net` is "a cut".',
        "The attribute `threshold` of `Net.cut` is 2.",
        'The attribute `way` of `Net.cut` is "hard".',
        "The attribute `window` of `Net.cut` is (1, 2).",
    ]


def test_another_value_is_named_with_golden_s(learned: Callable[..., Golden], judged: Callable[..., Any]) -> None:
    golden = learned()

    def overwrite(net: Any, step: int) -> None:
        if step == 3:
            net.cut.threshold = 0.5

    assert said(judged(golden, change=overwrite)) == [
        "The attribute `threshold` of `Net.cut` was 2 before step 3 in the golden run and is 0.5 in the candidate."
    ]
    assert said(judged(golden, heads=4)) == [
        "The attribute `heads` of `Net` was 2 before the first step in the golden run and is 4 in the candidate."
    ]


def test_a_value_that_grows_has_to_grow(learned: Callable[..., Golden], judged: Callable[..., Any]) -> None:
    golden = learned(grows)
    assert "The attribute `p` of `Net.drop` is 0.1 to 0.2 at step 4." in sentences(golden, "Attributes")
    assert not said(judged(golden, change=grows))
    assert not said(judged(golden, change=grows, steps=6))
    assert not said(judged(golden, steps=4)), "nothing has grown by then"
    assert said(judged(golden)) == [
        "The attribute `p` of `Net.drop` was 0.2 before step 4 in the golden run and is 0.1 in the candidate.",
        "The attribute `threshold` of `Net.cut` was 3 before step 4 in the golden run and is 2 in the candidate.",
    ]


def test_what_is_not_there_or_of_another_size_is_not_spoken_of(
    learned: Callable[..., Golden], judged: Callable[..., Any]
) -> None:
    def without(net: Any, _step: int) -> None:
        vars(net.cut).pop("window", None)

    golden = learned()
    assert not said(judged(golden))
    assert not said(judged(golden, change=without))
    assert not said(judged(golden, width=16, heads=4))
    (title,) = said(judged(golden, name="clip"))  # What the module that is gone had is no matter.
    assert title.startswith('The attribute `name` of `Net` was "a cut" before the first step')


def test_what_differs_between_seeds_is_no_rule(tmp_path: Path) -> None:
    def by_seed(seed: int) -> Change:
        return lambda net, _step: setattr(net.cut, "threshold", 1.0 + seed)

    runs = [recorded(loop(seed, by_seed(seed)), tmp_path / f"golden{seed}") for seed in (0, 1)]
    golden = learn(runs, pipeline="story")
    assert not [text for text in sentences(golden, "Attributes") if "threshold" in text]


# In evaluation, and behind the last step


def cool(net: Any, evaluating: bool) -> None:
    net.cut.threshold = 1.0 if evaluating else 2.0


def unchanged(_net: Any, _evaluating: bool) -> None:
    """Evaluation changes nothing."""


def served(
    seed: int = 0,
    around: Callable[[Any, bool], None] = unchanged,
    heads: int = 4,
    seen: Callable[[Any], None] = lambda _net: None,
) -> Callable[[], None]:
    """Trained, evaluated after every second step, and read into another model that only evaluates."""

    def train() -> None:
        torch.manual_seed(seed)
        model = Net(heads=4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in range(12):
            optimizer.zero_grad()
            model(torch.randn(8, 6)).square().mean().backward()
            optimizer.step()
            if step % 4 == 3:
                around(model, True)
                with torch.no_grad():
                    model.eval()(torch.randn(8, 6))
                model.train()
                around(model, False)
        other = Net(heads=heads)
        other.load_state_dict(model.state_dict())
        seen(other)
        with torch.no_grad():
            other.eval()(torch.randn(8, 6))

    return train


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    folder = tmp_path_factory.mktemp("serving")
    return learn([recorded(served(seed), folder / f"golden{seed}") for seed in (0, 1)], pipeline="story")


def found(golden: Golden, training: Callable[[], None], folder: Path) -> list[str]:
    return [item.title for item in violations(check(golden, training, folder), "Attributes")]


def test_what_holds_in_evaluation_is_learned(serving: Golden) -> None:
    told = [rule for rule in sentences(serving, "Attributes") if "evaluation" in rule]
    assert told == [
        "In evaluation `heads`, `name`, `threshold` and 2 more of `Net` are what they are in training.",
        "The attribute `heads` of `Net#1` is in evaluation 4.",
        'The attribute `name` of `Net#1` is in evaluation "a cut".',
        "The attribute `threshold` of `Net#1.cut` is in evaluation 2.",
        'The attribute `way` of `Net#1.cut` is in evaluation "hard".',
        "The attribute `window` of `Net#1.cut` is in evaluation (1, 2).",
    ]


def test_an_attribute_is_not_restored_where_a_model_is_loaded(serving: Golden, tmp_path: Path) -> None:
    assert found(serving, served(5, heads=2), tmp_path) == [
        "The attribute `heads` of `Net#1` was 4 in evaluation after 12 steps in the golden run and is 2 in the "
        "candidate."
    ]


def test_an_attribute_is_set_for_an_evaluation_and_set_back(serving: Golden, tmp_path: Path) -> None:
    assert found(serving, served(5, cool), tmp_path) == [
        "The attribute `threshold` of `Net.cut` was in evaluation what it was in training in the golden run; in the "
        "candidate it is 1 there, and 2 in training."
    ]


def test_what_golden_sets_for_an_evaluation(tmp_path: Path) -> None:
    golden = learn([recorded(served(seed, cool), tmp_path / f"golden{seed}") for seed in (0, 1)], pipeline="story")
    assert "The attribute `threshold` of `Net.cut`, `Net#1.cut` is" not in sentences(golden, "Attributes")
    assert not found(golden, served(7, cool), tmp_path / "same")
    assert found(golden, served(7), tmp_path / "other") == [
        "The attribute `threshold` of `Net.cut` was 1 in evaluation after 4 steps in the golden run and is 2 in the "
        "candidate."
    ]


def test_what_a_refactor_adds_or_leaves_out_in_evaluation(serving: Golden, tmp_path: Path) -> None:
    def adds(net: Any) -> None:
        net.seen = True
        del net.heads

    assert not found(serving, served(8, seen=adds), tmp_path)
