"""Ranges: what sort of numbers a model is given, where chance does not decide it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judgements import sentences, violations

torch = pytest.importorskip("torch")

from real_training import Real, check, golden_of  # noqa: E402

NEGATIVE = "No row of the input `inputs` of `Net` holds a number below 0."


def halves(rows: int, columns: int) -> Any:
    """Pictures between 0 and 1, of which every fourth has a spot of noise below 0."""
    data = torch.rand(rows, columns)
    data[::4, 0] = -0.1
    return data


def said(golden: Any, draw: Callable[..., Any], folder: Path, **change: Any) -> list[str]:
    outcome = check(golden, Real(seed=7, draw=draw, **change), folder)
    return [item.title for item in violations(outcome, "Ranges")]


def test_pictures_from_zero_to_one(tmp_path: Path) -> None:
    golden = golden_of(Real(draw=torch.rand), tmp_path)
    assert sorted(sentences(golden, "Ranges")) == [
        "Every second row or more of the input `inputs` of `Net` holds a number that is not whole.",
        "No row of the input `inputs` of `Net` holds a number above 1.",
        "No row of the input `inputs` of `Net` holds a number below -1.",
        NEGATIVE,
    ]
    assert not said(golden, torch.rand, tmp_path / "same")
    assert not said(golden, torch.rand, tmp_path / "few", batch_size=4), "8 rows in two steps say nothing"
    assert not said(golden, halves, tmp_path / "spots"), "a few rows break nothing"
    (title,) = said(golden, lambda *size: torch.rand(*size) * 2 - 1, tmp_path / "signed")
    assert title == (
        "In the golden run no row of the input `inputs` of `Net` held a number below 0; in the candidate every "
        "second row or more does: it is scaled, shifted or rounded otherwise."
    )
    assert len(said(golden, lambda *size: torch.randint(256, size).float(), tmp_path / "bytes")) == 2


def test_what_only_some_rows_hold_is_no_rule(tmp_path: Path) -> None:
    golden = golden_of(Real(draw=halves), tmp_path)
    assert NEGATIVE not in sentences(golden)
    assert not said(golden, lambda *size: torch.rand(*size) - 0.5, tmp_path / "signed")
