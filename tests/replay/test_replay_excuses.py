"""A rule about how something is computed is not broken where the same comes out; where it does not, it is."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from replays import DIM, PAD, Attention, Record, golden_of, train  # noqa: E402

from pytest_traincheck.check import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.check.result import Verdict  # noqa: E402


def told(scale: float | None) -> Any:
    """Attention that tells the function its scale."""

    def forward(self: Any, x: Any) -> Any:
        q, k, v = self.project(x).chunk(3, dim=-1)
        return self.drop(F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale))

    return forward


def summed(logits: Any, labels: Any) -> Any:
    total = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, reduction="sum")
    return total / (labels != PAD).sum()


def over_all(logits: Any, labels: Any) -> Any:
    total = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, reduction="sum")
    return total / labels.numel()


def titles(outcome: CheckOutcome) -> list[str]:
    return [incident.root.title for incident in outcome.incidents]


def excused(outcome: CheckOutcome) -> dict[str, str]:
    return {
        item.invariant.relation: item.reason
        for item in outcome.verdicts
        if item.verdict is Verdict.HELD and item.reason
    }


@pytest.mark.parametrize(("scale", "clean"), [(DIM**-0.5, True), (1.02 * DIM**-0.5, False)])
def test_an_argument_that_says_what_the_default_says(
    record: Record, monkeypatch: pytest.MonkeyPatch, scale: float, clean: bool
) -> None:
    monkeypatch.setattr(Attention, "forward", told(None))
    golden = golden_of(record)
    monkeypatch.setattr(Attention, "forward", told(scale))
    outcome = check_run(golden, record(train()), same_spec=True)
    if clean:
        assert not titles(outcome)
        assert excused(outcome)["APIArg"] == "the result is golden's"
    else:
        (title,) = titles(outcome)
        assert "scaled_dot_product_attention(scale)` was None in golden" in title


def test_a_sum_that_is_divided_afterwards(golden: Any, record: Record) -> None:
    outcome = check_run(golden, record(train(loss=summed)), same_spec=True)
    assert not titles(outcome)
    assert excused(outcome).keys() >= {"APIArg"}


def test_a_sum_that_is_divided_by_something_else(golden: Any, record: Record) -> None:
    outcome = check_run(golden, record(train(loss=over_all)), same_spec=True)
    assert len(titles(outcome)) == 1
    assert not excused(outcome)


def test_a_small_change_of_a_setting_is_no_rounding(golden: Any, record: Record) -> None:
    """The results agree as well as those of another kernel would; an argument that was not golden's counts all the
    same.
    """
    outcome = check_run(golden, record(train(eps=1e-6)), same_spec=True)
    (title,) = titles(outcome)
    assert title == "`torch.nn.functional.layer_norm(eps)` was 1e-05 in golden, is 1e-06 in the candidate."
