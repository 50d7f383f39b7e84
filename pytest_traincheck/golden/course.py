"""What a training process was seen to go through from step to step: hashes of values, without the names they had."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Rates = tuple[tuple[int, float], ...]
"""A learning rate over the optimizer steps of a process: from which step on it was what."""

_SAME_RATE = 1e-9
"""Relative distance of learning rates that two ways to compute one schedule may give in double precision."""


@dataclass(frozen=True)
class Course:
    """The values that one training process gave its tensors, from its first optimizer step to its last.

    Each text stands for one tensor and every value that it took, in order; each tuple is sorted. Which model, attribute
    or group a tensor belongs to does not enter, so that a program whose parts were regrouped has the same course.
    """

    steps: int
    """Of all optimizers together."""
    trained: tuple[str, ...]
    """What optimizers hold and what is trainable or moves: the value it had, and those that it took in which step."""
    idle: int
    """How many of these never moved, so that nothing of what happened to them shows."""
    rates: tuple[tuple[Rates, int], ...]
    """Learning rates of what is trained, in the steps that moved it, each with the number of tensors that had it."""
    copies: tuple[str, ...]
    """Parameters that no optimizer holds and that move: averages, target networks."""
    buffers: tuple[str, ...]
    """Buffers that move: statistics, queues."""
    effective: tuple[str, ...]
    """APIs in a call of which some tensor or learning rate took another value."""
    values: str = ""
    """Stands for every value that any parameter or buffer was seen to have in the whole run, also between and after the
    steps; empty where a golden of an earlier version does not say.
    """
    evaluated: tuple[str, ...] = ()
    """Stands for each tensor that models returned where no gradients were recorded, as far as they were looked at."""
    resting: bool = True
    """Whether optimizers hold something that never moved, so that its learning rates show nowhere; true of goldens of
    earlier versions, which do not say.
    """

    def trains_like(self, other: Course) -> bool:
        """Whether every trained tensor took the same values in every step, under the same learning rates."""
        return bool(self.trained) and (self.steps, self.trained) == (other.steps, other.trained) and self._paced(other)

    def evaluates_like(self, other: Course) -> bool:
        """Whether all that models returned in evaluation another run has too, whatever it computed beside."""
        return bool(self.evaluated) and not Counter(self.evaluated) - Counter(other.evaluated)

    @property
    def shows_rates(self) -> bool:
        """Whether every learning rate that was set moved something, so that what moved tells which rates there were."""
        return not self.resting and all(rates for rates, _ in self.rates)

    @property
    def by_hand(self) -> bool:
        """Whether all updates are made by the program itself, under rates that nobody sees."""
        return not any(rates for rates, _ in self.rates)

    def _paced(self, other: Course) -> bool:
        if self.by_hand or other.by_hand:
            return not self.idle and not other.idle  # what moved as it did there had the rates that it had there
        return len(self.rates) == len(other.rates) and all(
            count == number and _alike(mine, theirs)
            for (mine, count), (theirs, number) in zip(self.rates, other.rates, strict=True)
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "trained": list(self.trained),
            "idle": self.idle,
            "rates": [[[list(change) for change in rates], count] for rates, count in self.rates],
            "copies": list(self.copies),
            "buffers": list(self.buffers),
            "effective": list(self.effective),
            **({"values": self.values} if self.values else {}),
            **({"evaluated": list(self.evaluated)} if self.evaluated else {}),
            **({} if self.resting else {"resting": False}),
        }

    @staticmethod
    def from_json(content: Any) -> Course:
        """What `to_json` gave. Raises `ValueError` for anything else."""
        if not isinstance(content, dict) or set(content) - {"values", "evaluated", "resting"} != {
            *_TEXTS,
            "steps",
            "idle",
            "rates",
        }:
            raise ValueError("a course has other keys than this format")
        steps, idle = content["steps"], content["idle"]
        if type(steps) is not int or type(idle) is not int or min(steps, idle) < 0:
            raise ValueError("the numbers of a course are none of steps and tensors")
        values = content.get("values", "")
        if not isinstance(values, str):
            raise ValueError("what stands for the values of a course is no text")
        resting = content.get("resting", True)
        if type(resting) is not bool:
            raise ValueError("whether something of a course rests is neither true nor false")
        texts = {name: _texts({"evaluated": [], **content}, name) for name in (*_TEXTS, "evaluated")}
        return Course(steps=steps, idle=idle, rates=_rates(content["rates"]), values=values, resting=resting, **texts)


_TEXTS = ("trained", "copies", "buffers", "effective")


def _alike(mine: Rates, theirs: Rates) -> bool:
    return len(mine) == len(theirs) and all(
        step == other and math.isclose(rate, wanted, rel_tol=_SAME_RATE)
        for (step, rate), (other, wanted) in zip(mine, theirs, strict=True)
    )


def _texts(content: Mapping[str, Any], name: str) -> tuple[str, ...]:
    texts = content[name]
    if not isinstance(texts, list) or not all(isinstance(item, str) for item in texts):
        raise ValueError(f"the {name} of a course are not a list of texts")
    return tuple(texts)


def _rates(content: Any) -> tuple[tuple[Rates, int], ...]:
    if not isinstance(content, list) or not all(map(_is_counted, content)):
        raise ValueError("the learning rates of a course are not what this format has")
    return tuple((tuple((step, float(rate)) for step, rate in rates), count) for rates, count in content)


def _is_counted(item: Any) -> bool:
    return _is_pair(item) and isinstance(item[0], list) and all(map(_is_change, item[0])) and type(item[1]) is int


def _is_change(item: Any) -> bool:
    return _is_pair(item) and type(item[0]) is int and type(item[1]) in (int, float)


def _is_pair(item: Any) -> bool:
    return isinstance(item, Sequence) and not isinstance(item, str) and len(item) == 2
