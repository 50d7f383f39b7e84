"""What a tensor is called in a sentence, of a batch that is a dictionary, a tuple, or one in the other."""

from __future__ import annotations

import pytest

from pytest_traincheck.trace.slots import argument, is_singular, part_of_batch, parts_of_batch


@pytest.mark.parametrize(
    ("path", "said"),
    [("x", "`x`"), ("hidden.1", "`hidden[1]`"), ("batch.item", "`batch.item`"), ("past.0.1", "`past[0][1]`")],
)
def test_an_argument_is_called_as_one_gets_at_it(path: str, said: str) -> None:
    assert argument(path) == said


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("labels", "`labels`"),
        ("views.1", "`views[1]`"),
        ("1", "`batch[1]`"),
        ("0.image", "`batch[0].image`"),
        ("0.1", "`batch[0][1]`"),
    ],
)
def test_a_part_of_a_batch_is_no_bare_number(path: str, said: str) -> None:
    assert part_of_batch(path) == said


def test_several_parts_are_said_together() -> None:
    assert parts_of_batch(["1"]) == "`batch[1]`"
    assert parts_of_batch(["1", "2", "3"]) == "`batch[1]`, `batch[2]` and `batch[3]`"
    assert parts_of_batch(["mask", "labels"]) == "`mask` and `labels`"
    assert parts_of_batch(["0.mask", "1"]) == "`batch[0].mask` and `batch[1]`"


def test_what_a_part_is_for_is_said_where_it_is_known() -> None:
    roles = {"0": "inputs", "1": "targets", "labels": "targets"}
    assert part_of_batch("1", roles) == "the targets (`batch[1]`)"
    assert parts_of_batch(["0", "2"], roles) == "the inputs (`batch[0]`) and `batch[2]`"
    assert part_of_batch("labels", roles) == "`labels`"


def test_the_verb_goes_with_the_parts() -> None:
    roles = {"1": "targets", "labels": "targets"}
    assert is_singular(["0"], roles)
    assert is_singular(["labels"], roles)
    assert not is_singular(["1"], roles)
    assert not is_singular(["0", "2"], roles)
