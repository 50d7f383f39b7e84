"""Modes: which parts of a model are in train or eval mode explains what they do, and is nothing wrong by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judgements import describe, sentences, violations

torch = pytest.importorskip("torch")

from real_training import check, recorded  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome  # noqa: E402
from pytest_traincheck.check.result import Verdict  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402

Setting = Callable[[Any], None]


class Head(torch.nn.Module):
    """Does the same in both modes."""

    def __init__(self) -> None:
        super().__init__()
        self.out = torch.nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        return self.out(x)


class Reader(torch.nn.Module):
    """A frozen encoder of torch's below a head that is trained."""

    def __init__(self, drop: float, trained: bool) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=drop, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2).requires_grad_(trained)
        self.head = Head()

    def forward(self, x: Any) -> Any:
        return self.head(self.encoder(x).mean(1))


def all_train(model: Any) -> None:
    model.train()


def encoder_evaluates(model: Any) -> None:
    model.train()
    model.encoder.eval()


def norms_evaluate(model: Any) -> None:
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eval()


def head_evaluates(model: Any) -> None:
    model.train()
    model.head.eval()


def loop(
    seed: int = 0, setting: Setting = all_train, drop: float = 0.1, trained: bool = False, after: int = 0
) -> Callable[[], None]:
    """A training in which `setting` puts the model into its mode from step `after` on."""

    def train() -> None:
        torch.manual_seed(seed)
        model = Reader(drop, trained)
        optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
        for step in range(8):
            (setting if step >= after else all_train)(model)
            optimizer.zero_grad()
            model(torch.randn(4, 5, 8)).square().mean().backward()
            optimizer.step()
            if step % 4 == 3:
                model.eval()
                with torch.no_grad():
                    model(torch.randn(4, 5, 8))

    return train


@pytest.fixture
def learned(tmp_path: Path) -> Callable[..., Golden]:
    def learn_it(**how: Any) -> Golden:
        return learn([recorded(loop(seed, **how), tmp_path / f"golden{seed}") for seed in (0, 1)], pipeline="story")

    return learn_it


def top(outcome: CheckOutcome) -> str:
    (incident,) = outcome.incidents
    return incident.cause.title


@pytest.mark.parametrize("trained", [False, True], ids=["frozen", "trained"])
@pytest.mark.parametrize("after", [0, 3])
def test_an_encoder_left_in_eval_mode_is_what_its_functions_follow_from(
    learned: Callable[..., Golden], tmp_path: Path, trained: bool, after: int
) -> None:
    golden = learned(trained=trained)
    outcome = check(golden, loop(setting=encoder_evaluates, trained=trained, after=after), tmp_path)
    assert top(outcome) == (
        f"In step {after}, the golden run called `Reader.encoder` in train mode; the candidate calls it in eval mode "
        "(see `train()` and `eval()` of modules)."
    ), describe(outcome.incidents)
    assert outcome.incidents[0].cause.place.rpartition(":")[0].endswith("test_relation_modes.py")
    # A frozen encoder takes torch's fast path, and calls no function that golden's encoder called.
    gone = [item for item in outcome.incidents[0].consequences if item.deviation.is_absence]
    assert any(item.invariant.subject.endswith("multi_head_attention_forward") for item in gone) is not trained


def test_an_encoder_that_trains_where_it_was_left_in_eval_mode(learned: Callable[..., Golden], tmp_path: Path) -> None:
    outcome = check(learned(setting=encoder_evaluates), loop(), tmp_path)
    assert "called `Reader.encoder` in eval mode; the candidate calls it in train mode" in top(outcome)


def test_a_mode_without_effect_is_no_incident_and_is_said(learned: Callable[..., Golden], tmp_path: Path) -> None:
    golden = learned()
    outcome = check(golden, loop(setting=head_evaluates), tmp_path)
    assert not outcome.incidents, describe(outcome.incidents)
    (held,) = [item for item in outcome.verdicts if item.invariant.relation == "Modes" and item.reason]
    assert (held.verdict, held.reason) == (Verdict.HELD, "no other rule shows an effect of it")


def test_nothing_is_said_of_modules_of_torch_that_do_the_same_in_both_modes(
    learned: Callable[..., Golden], tmp_path: Path
) -> None:
    outcome = check(learned(), loop(setting=norms_evaluate), tmp_path)
    assert not outcome.incidents
    assert not any(item.reason for item in outcome.verdicts if item.invariant.relation == "Modes")


def test_a_mode_explains_nothing_that_lies_elsewhere(learned: Callable[..., Golden], tmp_path: Path) -> None:
    """The head's mode does nothing; that dropout has another rate is not its doing."""
    outcome = check(learned(), loop(setting=head_evaluates, drop=0.2), tmp_path)
    assert outcome.incidents
    assert not any(item.cause.invariant.relation == "Modes" for item in outcome.incidents), describe(outcome.incidents)


def test_what_a_rule_says(learned: Callable[..., Golden]) -> None:
    assert sentences(learned(setting=encoder_evaluates), "Modes") == [
        "Before each step, modules are called in one mode: `Reader` in train mode, `Reader.encoder` in eval mode.",
        "In evaluation, modules are called in one mode: `Reader` in eval mode.",
    ]


def test_a_model_in_the_wrong_mode_is_one_incident(learned: Callable[..., Golden], tmp_path: Path) -> None:
    outcome = check(learned(), loop(setting=lambda model: model.eval()), tmp_path)
    assert top(outcome).startswith("In training, the golden run called `Reader` in train mode")
    assert violations(outcome, "Modes")
