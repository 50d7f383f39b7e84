"""Claims as values: what their types may say, and that each is written in one way only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args, get_type_hints

import pytest

from pytest_traincheck.relations import builtin
from pytest_traincheck.relations.base import MeasuredClaim, filled
from pytest_traincheck.relations.called import FORWARD, Called
from pytest_traincheck.relations.claims import ClaimError, Items, Natural, Value, form_of, read_claim
from pytest_traincheck.rules.claims import KEY, Claim, Written, to_json


class Hour(Written):
    words = "an hour and a minute"

    def __init__(self, text: str) -> None:
        hour, minute = text.split(":")
        self.minutes = 60 * int(hour) + int(minute)

    def __str__(self) -> str:
        return f"{self.minutes // 60}:{self.minutes % 60:02d}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hour) and other.minutes == self.minutes

    def __hash__(self) -> int:
        return self.minutes

    @classmethod
    def read(cls, text: str) -> Hour:
        return cls(text)


EVEN = Value("an even number", lambda value: type(value) is int and value % 2 == 0)


@dataclass(frozen=True)
class Everything(Claim):
    kind: Literal["all"] = field(default="all", init=False)
    name: str
    flag: bool
    count: Natural
    whole: int
    number: float
    code: Literal["a", "b"]
    pair: tuple[str, str]
    some: Annotated[tuple[float | None, ...], Items(1, 3)]
    hour: Hour
    even: Annotated[int, EVEN]
    of: str = field(metadata={KEY: "class"})
    maybe: str | None = None
    also: bool = False
    times: int = 1
    rest: tuple[int, ...] = ()


FULL = Everything("x", False, 0, -1, 0.5, "a", ("p", "q"), (1.5, None), Hour("7:30"), 4, "torch.optim.SGD")
CONTENT: dict[str, Any] = {
    **{"kind": "all", "name": "x", "flag": False, "count": 0, "whole": -1, "number": 0.5, "code": "a"},
    **{"pair": ["p", "q"], "some": [1.5, None], "hour": "7:30", "even": 4, "class": "torch.optim.SGD"},
}


def test_a_claim_comes_back() -> None:
    assert to_json(FULL) == CONTENT
    assert read_claim(CONTENT, (Everything,)) == FULL
    more = {**CONTENT, "maybe": "y", "also": True, "times": 2, "rest": [3]}
    assert to_json(read_claim(more, (Everything,))) == more


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": "some"}, "`kind` is 'some' and not `all`"),
        ({"name": 3}, "`name` is 3 and not a text"),
        ({"flag": 1}, "`flag` is 1 and not true or false"),
        ({"count": -1}, "`count` is -1 and not a whole number from 0"),
        ({"whole": True}, "`whole` is True and not a whole number"),
        ({"number": float("nan")}, "`number` is nan and not a finite number"),
        ({"code": "c"}, "`code` is 'c' and not one of `a`, `b`"),
        ({"pair": ["p"]}, "`pair` is ['p'] and not a list of 2 items, each a text"),
        ({"some": []}, "`some` is [] and not a list of at least 1 items, each a finite number or null"),
        ({"hour": "late"}, "`hour` is 'late' and not an hour and a minute"),
        ({"even": 3}, "`even` is 3 and not an even number"),
        ({"of": "x"}, "'of' is not a key of such a claim"),
        # One claim is written in one way.
        ({"hour": "07:30"}, "`hour` is '07:30' and not an hour and a minute"),
        ({"maybe": None}, "`maybe` is None and not a text"),
        ({"also": False}, "`also` is False and not true"),
        ({"times": 1}, "`times` is 1 and not a whole number other than 1"),
        ({"rest": []}, "`rest` is [] and not a list of any number of items, each a whole number other than ()"),
    ],
    ids=str,
)
def test_a_claim_that_would_not_have_been_written_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ClaimError) as caught:
        read_claim({**CONTENT, **change}, (Everything,))
    assert str(caught.value) == says


def test_a_key_that_is_missing_is_named() -> None:
    with pytest.raises(ClaimError, match=r"^`class` is missing$"):
        read_claim({key: value for key, value in CONTENT.items() if key != "class"}, (Everything,))


@pytest.mark.parametrize("hint", [set, dict[str, int], Literal[1, 2], tuple[int, str], int | str, object])
def test_a_type_that_no_claim_can_have_is_refused_where_the_relation_is_given(hint: Any) -> None:
    kind = dataclass(frozen=True)(type("Odd", (Claim,), {"__annotations__": {"x": hint}}))
    with pytest.raises(TypeError, match=r"^Odd: a claim cannot hold a "):
        form_of(kind)


@pytest.mark.parametrize(
    ("called", "text", "code"),
    [
        (Called("torch.bmm"), "torch.bmm", "`torch.bmm`"),
        (Called("torch.optim.Adam.step", "Adam[A+B]"), "torch.optim.Adam.step|Adam[A+B]", None),
        (Called(FORWARD, "Net", "eval"), f"{FORWARD}|Net in eval", f"`{FORWARD}` of `Net` in evaluation"),
        (Called(FORWARD, "Made in Time", "train"), f"{FORWARD}|Made in Time in train", None),
        (Called(FORWARD, "", "init"), f"{FORWARD}| in init", None),
    ],
)
def test_what_is_called_is_written_and_read(called: Called, text: str, code: str | None) -> None:
    assert str(called) == text
    assert Called.read(text) == called
    assert code is None or called.code == code
    assert called.model == (called.owner if called.stage else "")


def test_numbers_are_no_part_of_a_claim() -> None:
    claim = MeasuredClaim()
    with pytest.raises(ValueError, match="comes without its numbers"):
        _ = claim.numbers
    with pytest.raises(TypeError, match="derive it from `MeasuredClaim`"):
        filled(FULL, None)  # type: ignore[arg-type]


def codes(hint: Any) -> set[str]:
    """The texts that a type names."""
    inner = get_args(hint)
    return {hint} if isinstance(hint, str) else {text for item in inner for text in codes(item)}


@pytest.mark.parametrize("relation", builtin.relations(), ids=lambda relation: relation.name)
def test_codes_are_short_and_no_sentences(relation: Any) -> None:
    """A claim is what the id of a rule is made of: better words for it must not make it another rule."""
    for kind in relation.claims:
        for hint in get_type_hints(kind, include_extras=True).values():
            assert all(len(code.split()) <= 4 and "`" not in code for code in codes(hint)), kind
