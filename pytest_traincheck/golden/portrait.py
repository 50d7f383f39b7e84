"""What of runs is kept for pictures: curves, the calls of a step, batches, groups and ranks. No rule reads any of it.

A golden keeps it beside the recording of the same platform, a few kilobytes; a trace gives the same of a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

STEPS = 64
"""Steps of a run that are kept: more would be narrower than a line is wide."""
CALLS = 300
"""Calls of one step that are kept."""
RANKS = 8
"""Ranks that are kept."""
SHAPES = 16
"""Different steps that are kept."""

T = TypeVar("T")


def _within(places: Sequence[int], size: int) -> None:
    if any(not 0 <= place < size for place in places):
        raise ValueError("a portrait points to something that is not there")


@dataclass(frozen=True)
class Curve:
    """One optimizer of one run, as columns with a number for each training step; NaN where it made no step.

    `losses` are sums over the backward passes of a step, `norms` L2 norms of all gradients that it used together, and
    `rates` the learning rates of its groups, each course once.
    """

    seed: str
    optimizer: str
    losses: tuple[float, ...] = ()
    norms: tuple[float, ...] = ()
    rates: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True)
class Call:
    """A call that no other observed call encloses: what sort of call, and of what."""

    kind: str
    name: str


@dataclass(frozen=True)
class Outline:
    """The outermost calls of each step. `shapes` are sequences of positions in `calls`, `steps` of positions in
    `shapes`: most steps look alike.
    """

    calls: tuple[Call, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    steps: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _within(self.steps, len(self.shapes))
        for shape in self.shapes:
            _within(shape, len(self.calls))

    def step(self, number: int) -> tuple[Call, ...]:
        """The calls of a step in order; empty where it was not kept."""
        if not 0 <= number < len(self.steps):
            return ()
        return tuple(self.calls[place] for place in self.shapes[self.steps[number]])


@dataclass(frozen=True)
class Group:
    """A group of an optimizer at its first step; an empty `optimizer` stands for parameters that none holds.

    `names` are the first few of its `tensors` parameters, which have `elements` numbers together, `settings` its
    learning rate, weight decay and the like in words.
    """

    optimizer: str
    index: int
    tensors: int
    elements: int
    trainable: int
    names: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Rank:
    """What one process did, as columns with an entry for each training step: the first eight hexadecimal digits of
    the hashes of its batches, its losses, its gradients' norms, and its calls of collectives.
    """

    rank: int
    batches: tuple[tuple[str, ...], ...] = ()
    losses: tuple[float, ...] = ()
    norms: tuple[float, ...] = ()
    collectives: tuple[int, ...] = ()


@dataclass(frozen=True)
class Portrait:
    """Everything that is kept of a run, with the curves of the other golden runs."""

    seed: str = ""
    curves: tuple[Curve, ...] = ()
    outline: Outline = Outline()
    groups: tuple[Group, ...] = ()
    ranks: tuple[Rank, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Lists and texts; numbers are texts, since JSON has no infinity."""
        return {
            "seed": self.seed,
            "curves": [
                [
                    curve.seed,
                    curve.optimizer,
                    _out(curve.losses),
                    _out(curve.norms),
                    [_out(line) for line in curve.rates],
                ]
                for curve in self.curves
            ],
            "calls": [[call.kind, call.name] for call in self.outline.calls],
            "shapes": [list(shape) for shape in self.outline.shapes],
            "steps": list(self.outline.steps),
            "groups": [
                [
                    *(group.optimizer, group.index, group.tensors, group.elements, group.trainable),
                    list(group.names),
                    [list(pair) for pair in group.settings],
                ]
                for group in self.groups
            ],
            "ranks": [
                [
                    item.rank,
                    [list(step) for step in item.batches],
                    _out(item.losses),
                    _out(item.norms),
                    list(item.collectives),
                ]
                for item in self.ranks
            ],
        }

    @staticmethod
    def from_json(content: Any) -> Portrait:
        """What `to_json` gave. Raises `ValueError` for anything else."""
        if not isinstance(content, dict) or content.keys() != _KEYS:
            raise ValueError("a portrait has other keys than this format")
        return Portrait(
            _text(content["seed"]),
            _each(content["curves"], _curve),
            Outline(
                _each(content["calls"], lambda item: Call(*map(_text, _of(item, 2)))),
                _each(content["shapes"], lambda item: _each(item, _whole)),
                _each(content["steps"], _whole),
            ),
            _each(content["groups"], _group),
            _each(content["ranks"], _rank),
        )


@dataclass(frozen=True)
class Portraits:
    """What is drawn of both sides; golden's is None where it keeps none for this platform."""

    candidate: Portrait
    golden: Portrait | None = None


_KEYS = {"seed", "curves", "calls", "shapes", "steps", "groups", "ranks"}


def _out(values: Sequence[float]) -> list[str]:
    """Five digits: more than a picture can show."""
    return [format(value, ".5g") for value in values]


def _curve(content: Any) -> Curve:
    seed, optimizer, losses, norms, rates = _of(content, 5)
    return Curve(_text(seed), _text(optimizer), _numbers(losses), _numbers(norms), _each(rates, _numbers))


def _group(content: Any) -> Group:
    optimizer, index, tensors, elements, trainable, names, settings = _of(content, 7)
    counts = (_whole(index), _whole(tensors), _whole(elements), _whole(trainable))
    pairs = _each(settings, lambda item: (_text(_of(item, 2)[0]), _text(item[1])))
    return Group(_text(optimizer), *counts, _each(names, _text), pairs)


def _rank(content: Any) -> Rank:
    rank, batches, losses, norms, collectives = _of(content, 5)
    made = _each(batches, lambda item: _each(item, _text))
    return Rank(_whole(rank), made, _numbers(losses), _numbers(norms), _each(collectives, _whole))


def _of(content: Any, length: int) -> list[Any]:
    if not isinstance(content, list) or len(content) != length:
        raise ValueError("a part of a portrait has another length than this format")
    return content


def _each(content: Any, read: Callable[[Any], T]) -> tuple[T, ...]:
    if not isinstance(content, list):
        raise ValueError("a portrait holds something else where a list is due")
    return tuple(map(read, content))


def _numbers(content: Any) -> tuple[float, ...]:
    return _each(content, lambda item: float(_text(item)))


def _text(content: Any) -> str:
    if not isinstance(content, str):
        raise ValueError("a portrait holds something else where a text is due")
    return content


def _whole(content: Any) -> int:
    if type(content) is not int or not 0 <= content < 1 << 53:
        raise ValueError("a portrait holds something else where a whole number is due")
    return content
