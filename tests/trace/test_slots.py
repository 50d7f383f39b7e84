"""What a tensor is called in a sentence, of a batch that is a dictionary, a tuple, or one in the other."""

from __future__ import annotations

import pytest

from pytest_traincheck.trace.slots import argument, part_of_batch, parts_of_batch


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
        ("1", "part 1"),
        ("0.image", "`image` in part 0"),
        ("0.1", "part 1 in part 0"),
    ],
)
def test_a_part_of_a_batch_is_no_bare_number(path: str, said: str) -> None:
    assert part_of_batch(path) == said


def test_several_parts_are_said_together() -> None:
    assert parts_of_batch(["1"]) == "part 1"
    assert parts_of_batch(["1", "2", "3"]) == "parts 1, 2 and 3"
    assert parts_of_batch(["mask", "labels"]) == "`mask` and `labels`"
    assert parts_of_batch(["0.mask", "1"]) == "`mask` in part 0 and part 1"
