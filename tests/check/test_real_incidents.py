"""Incidents of trainings that really ran, made of findings as relations have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from judgements import describe

torch = pytest.importorskip("torch")

from real_training import Real, check, golden_of  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.relations import Deviation  # noqa: E402

LOSSES = "torch.nn.functional"
CLIP = "torch.nn.utils.clip_grad_norm_"


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return golden_of(Real(), tmp_path_factory.mktemp("golden"))


def roots(outcome: CheckOutcome) -> list[tuple[str, Deviation]]:
    return [(incident.cause.invariant.subject, incident.cause.deviation) for incident in outcome.incidents]


class NotANumber:
    """Logits, which are NaN from one call on."""

    def __init__(self, call: int) -> None:
        self.left = call

    def __call__(self, logits: Any) -> Any:
        self.left -= 1
        return logits * (float("nan") if self.left < 0 else 1.0)


def test_a_loss_that_is_not_finite_at_once_is_no_consequence_of_missing_clipping(
    golden: Golden, tmp_path: Path
) -> None:
    """Nothing was ever updated when the first loss is computed: two mistakes, two incidents."""
    outcome = check(golden, Real(clip="never", loss_inputs=NotANumber(0)), tmp_path)
    assert roots(outcome) == [(CLIP, Deviation.NEVER), (LOSSES, Deviation.NOT_FINITE)], describe(outcome.incidents)


def test_a_loss_that_is_not_finite_later_may_be_one(golden: Golden, tmp_path: Path) -> None:
    outcome = check(golden, Real(clip="never", loss_inputs=NotANumber(3)), tmp_path)
    (found,) = (item for item in outcome.incidents if item.cause.invariant.subject == CLIP)
    assert any(item.invariant.subject == LOSSES for item in found.consequences), describe(outcome.incidents)
