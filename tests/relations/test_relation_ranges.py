"""Ranges: what sort of numbers a model is given, where chance does not decide it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from judgements import sentences, violations

torch = pytest.importorskip("torch")

from real_training import CLASSES, Real, check, golden_of  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import TensorDataset  # noqa: E402

NEGATIVE = "No row of the input `inputs` of `Net` holds a number below 0."


def halves(rows: int, columns: int) -> Any:
    """Pictures between 0 and 1, of which every fourth has a spot of noise below 0."""
    data = torch.rand(rows, columns)
    data[::4, 0] = -0.1
    return data


def spotted(rows: int, columns: int) -> Any:
    """The same with a spot on each."""
    data = torch.rand(rows, columns)
    data[:, 0] = -0.1
    return data


def said(golden: Any, draw: Callable[..., Any], folder: Path, **change: Any) -> list[str]:
    outcome = check(golden, Real(seed=7, draw=draw, **change), folder)
    return [item.title for item in violations(outcome, "Ranges")]


def test_pictures_from_zero_to_one(tmp_path: Path) -> None:
    golden = golden_of(Real(draw=torch.rand), tmp_path)
    of_inputs = [text for text in sorted(sentences(golden, "Ranges")) if "ow" in text and "targets" not in text]
    assert of_inputs == [
        "Every second row or more of the input `inputs` of `Net` holds a number that is not whole.",
        "No row of the input `inputs` of `Net` holds a number above 1.",
        "No row of the input `inputs` of `Net` holds a number below -1.",
        NEGATIVE,
    ]
    assert not said(golden, torch.rand, tmp_path / "same")
    assert not said(golden, torch.rand, tmp_path / "few", batch_size=4), "8 rows in two steps say nothing"
    assert not said(golden, halves, tmp_path / "spots"), "a few rows break nothing"
    title = said(golden, lambda *size: torch.rand(*size) * 2 - 1, tmp_path / "signed")[0]
    assert title == (
        "In the golden run no row of the input `inputs` of `Net` held a number below 0; in the candidate every "
        "second row or more does: it is scaled, shifted or rounded otherwise."
    )
    assert len(said(golden, lambda *size: torch.randint(256, size).float(), tmp_path / "bytes")) >= 2


def test_what_only_some_rows_hold_is_no_rule(tmp_path: Path) -> None:
    golden = golden_of(Real(draw=halves), tmp_path)
    assert NEGATIVE not in sentences(golden)
    assert not said(golden, spotted, tmp_path / "signed")


# In evaluation, and as targets


def shifted(_inputs: Any) -> Any:
    return torch.full_like(_inputs, -20)


def test_training_data_that_is_prepared_otherwise_than_that_of_evaluation(tmp_path: Path) -> None:
    golden = golden_of(Real(draw=torch.rand), tmp_path)
    alike = "In evaluation the input `inputs` of `Net` is the same sort of numbers as in training."
    assert alike in sentences(golden, "Ranges")
    titles = said(golden, torch.rand, tmp_path / "shifted", noise=shifted)
    assert (
        "In the golden run the input `inputs` of `Net` was the same sort of numbers in evaluation as in training; in "
        "the candidate, in evaluation, no row holds a number below 0 and no row holds a number below -1: it is "
        "prepared otherwise than in training."
    ) in titles
    both = said(golden, lambda *size: torch.rand(*size) - 2, tmp_path / "both")
    assert both
    assert not [title for title in both if "in evaluation" in title], "what is shifted in both is one mistake"


def test_columns_that_are_not_centred(tmp_path: Path) -> None:
    golden = golden_of(Real(), tmp_path)
    assert "The columns of the input `inputs` of `Net` are centred at 0." in sentences(golden, "Ranges")
    assert not said(golden, torch.randn, tmp_path / "same")
    assert not said(golden, lambda *size: torch.randn(*size) + 0.7, tmp_path / "little"), "not clearly off centre"
    titles = said(golden, lambda *size: torch.randn(*size) + 3, tmp_path / "shifted")
    assert (
        "In the golden run the columns of the input `inputs` of `Net` were centred at 0; in the candidate the columns "
        "are off centre, by more than they scatter: it is scaled, shifted or inverted otherwise."
    ) in titles


def from_one(inputs: Any, targets: Any) -> Any:
    return TensorDataset(inputs, targets.clamp(max=CLASSES - 2) + 1)


def from_zero(inputs: Any, targets: Any) -> Any:
    return TensorDataset(inputs, targets.clamp(max=CLASSES - 2))


def rare_zeros(inputs: Any, targets: Any) -> Any:
    targets = targets.clamp(min=1, max=CLASSES - 2)
    targets[:2] = 0
    return TensorDataset(inputs, targets)


def test_labels_that_are_counted_from_one(tmp_path: Path) -> None:
    golden = golden_of(Real(batch_size=16, dataset=from_zero), tmp_path)
    smallest = "The smallest number in the targets of `torch.nn.functional.cross_entropy` is 0."
    assert smallest in sentences(golden, "Ranges")
    assert not said(golden, torch.randn, tmp_path / "same", batch_size=16, dataset=from_zero)
    assert not said(golden, torch.randn, tmp_path / "rare", batch_size=16, dataset=rare_zeros)
    titles = said(golden, torch.randn, tmp_path / "one", batch_size=16, dataset=from_one)
    assert titles[0] == (
        "The smallest number in the targets of `torch.nn.functional.cross_entropy` was 0 in the golden run and is 1 in "
        "the candidate: numbers stand for other things, are counted from another one on, or are not limited alike."
    )
    assert smallest not in sentences(golden_of(Real(batch_size=16, dataset=rare_zeros), tmp_path / "other"), "Ranges")


def test_one_batch_that_comes_again_and_again_is_no_rule(tmp_path: Path) -> None:
    golden = golden_of(Real(same_batch=True, batch_size=16, epochs=1, dataset=from_zero), tmp_path)
    assert not [text for text in sentences(golden, "Ranges") if "smallest" in text or "largest" in text]


def test_a_number_that_is_no_end_of_anything_may_be_chance(tmp_path: Path) -> None:
    """Three seeds may have drawn the same: where numbers end says something where a table or the classes end there."""
    every = golden_of(Real(batch_size=16), tmp_path / "every")
    assert "The largest number in the targets of `torch.nn.functional.cross_entropy` is 5." in sentences(every)
    without_the_last = golden_of(Real(batch_size=16, dataset=from_zero), tmp_path / "without the last")
    assert not [text for text in sentences(without_the_last, "Ranges") if "largest number" in text]


def first_without_the_last(inputs: Any, targets: Any) -> Any:
    targets[:16].clamp_(max=CLASSES - 2)
    return TensorDataset(inputs, targets)


def test_a_single_batch_lacks_a_number_by_chance(tmp_path: Path) -> None:
    golden = golden_of(Real(batch_size=16), tmp_path)
    assert "The largest number in the targets of `torch.nn.functional.cross_entropy` is 5." in sentences(golden)
    alike = {"batch_size": 16, "dataset": first_without_the_last, "shuffle": False}
    assert not said(golden, torch.randn, tmp_path / "again", **alike, same_batch=True)


class Reader(nn.Module):
    """Takes the mean of the words that are there."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, words: Any, there: Any) -> Any:
        return self.head((self.words(words) * there.unsqueeze(2)).mean(1)).squeeze(1)


@dataclass(frozen=True)
class Texts(Real):
    """Texts of unlike length, with a mask of where there are words."""

    mask: Callable[[Any], Any] = lambda there: there
    column: bool = False
    """Whether targets are a column beside a vector."""

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        net, places = Reader(), torch.arange(10)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(6):
            there = self.mask(places < torch.randint(3, 10, (16, 1)))
            targets = torch.randn(16, 1) if self.column else torch.randn(16)
            loss = nn.functional.mse_loss(net(torch.randint(1, 20, (16, 10)), there), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        pytest.param(
            lambda there: ~there, "began with 0; in the candidate every second row or more does", id="inverted"
        ),
        pytest.param(torch.ones_like, "The smallest number in the input `there` of `Reader` was 0", id="all there"),
        pytest.param(
            lambda there: there.flip(1), "began with 0; in the candidate every", id="padded on the other side"
        ),
        pytest.param(lambda there: there.long(), "was bool in the golden run and is int64", id="another dtype"),
    ],
)
def test_masks(tmp_path: Path, mask: Any, expected: str) -> None:
    golden = golden_of(Texts(), tmp_path)
    assert not violations(check(golden, Texts(seed=7), tmp_path / "same"), "Ranges")
    titles = [item.title for item in violations(check(golden, Texts(seed=7, mask=mask), tmp_path / "other"), "Ranges")]
    assert any(expected in title for title in titles), titles


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_targets_that_are_a_column_beside_a_vector(tmp_path: Path) -> None:
    golden = golden_of(Texts(), tmp_path)
    function = "torch.nn.functional.mse_loss"
    assert f"`{function}` is given its input in the shape of the targets, in training." in sentences(golden, "DataFlow")
    outcome = check(golden, Texts(seed=7, column=True), tmp_path / "column")
    (found,) = violations(outcome, "DataFlow")
    assert found.title == (
        f"In the golden run `{function}` was given its input in the shape of the targets; in the candidate it is of "
        "shape (16,) and the targets of shape (16, 1): one is repeated along the other, so that numbers are compared "
        "that do not belong together."
    )
    assert not [
        text for text in sentences(golden_of(Texts(column=True), tmp_path / "other"), "DataFlow") if "shape" in text
    ]


@dataclass(frozen=True)
class Taught(Texts):
    """Another model says what the targets are, without gradients."""

    flipped: bool = False

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        net, teacher = nn.Linear(4, 1), nn.Linear(4, 1)
        nn.init.constant_(teacher.bias, -9.0 if self.flipped else 9.0)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(6):
            inputs = torch.randn(16, 4)
            with torch.no_grad():
                targets = teacher(inputs)
            loss = nn.functional.mse_loss(net(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def test_what_models_answer_themselves_is_no_data(tmp_path: Path) -> None:
    golden = golden_of(Taught(), tmp_path)
    assert not [text for text in sentences(golden, "Ranges") if "targets" in text and "float32" not in text]
    assert not violations(check(golden, Taught(seed=7, flipped=True), tmp_path / "flipped"), "Ranges")


@dataclass(frozen=True)
class Coded(Real):
    """Words are codes that another model gave to pictures, all at once before the training."""

    codes: int = 20

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        coder, net = nn.Linear(4, 10), Reader()
        with torch.no_grad():
            words = (self.codes * torch.sigmoid(4 * coder(torch.randn(96, 4)))).long().clamp(0, self.codes - 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for some in words.split(16):
            loss = nn.functional.mse_loss(net(some, torch.ones(16, 10)), torch.randn(16))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def test_codes_that_a_model_gave_before_are_no_data(tmp_path: Path) -> None:
    golden = golden_of(Coded(), tmp_path)
    assert not [text for text in sentences(golden, "Ranges") if "number in the input `words`" in text]
    golden = golden_of(Texts(), tmp_path / "data")
    assert "The largest number in the input `words` of `Reader` is 19." in sentences(golden)
    found = violations(check(golden, Coded(codes=12), tmp_path / "other"), "Ranges")
    assert not [item.title for item in found if "`words`" in item.title]
