"""What `Drawn` claims. The numbers themselves are no part of it: they belong to a platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pytest_traincheck.relations.base import MeasuredClaim
from pytest_traincheck.relations.draws import Generator
from pytest_traincheck.trace import Process

RATE = "rate"
"""Prefix of the names of numbers that are drawn for an example."""

WORDS: Mapping[str, str] = {
    "torch": "torch's generator",
    "numpy": "numpy's generator",
    "python": "the generator of `random`",
    "cuda": "the GPU's generator",
    "handed": "generators that functions are given",
}


@dataclass(frozen=True)
class DrawnByStep(MeasuredClaim):
    """Each of the first training steps draws so many numbers, or of a GPU's any at all."""

    generator: Generator
    of: Literal["steps"] = field(default="steps", init=False)


@dataclass(frozen=True)
class DrawnByEvaluation(MeasuredClaim):
    """Calls of models without gradients draw so many numbers after the last step, or of a GPU's any at all."""

    generator: Generator
    of: Literal["evaluations"] = field(default="evaluations", init=False)


@dataclass(frozen=True)
class DrawnByExample(MeasuredClaim):
    """Workers draw so many numbers for each example."""

    generator: Generator
    of: Literal["examples"] = field(default="examples", init=False)

    @property
    def rates(self) -> list[float]:
        """The numbers that golden's workers draw for an example."""
        numbers = self.numbers
        return [float(numbers.low[at]) for name, at in numbers.position.items() if name.startswith(RATE)]


@dataclass(frozen=True)
class DrawnAtAll(MeasuredClaim):
    """Training steps, or workers, draw numbers, however many."""

    generator: Generator
    within: Literal["steps", "examples"]


@dataclass(frozen=True)
class DrawnInCalls(MeasuredClaim):
    """Calls of a function, or of modules of a class, draw numbers in training, however many."""

    api: str
    generator: Literal["torch"] = field(default="torch", init=False)


@dataclass(frozen=True)
class DrawnBeside(MeasuredClaim):
    """Training steps draw more than the numbers that are as many in all golden runs."""

    generator: Literal["torch"] = field(default="torch", init=False)
    of: Literal["beside"] = field(default="beside", init=False)


@dataclass(frozen=True)
class DrawnAbout(MeasuredClaim):
    """Training steps draw about so many numbers: chance decides, as where some are rejected."""

    generator: Generator
    of: Literal["about"] = field(default="about", init=False)


AnyClaim = DrawnByStep | DrawnByEvaluation | DrawnByExample | DrawnAtAll | DrawnInCalls | DrawnBeside | DrawnAbout


def key(process: Process, step: int) -> str:
    """The name of the number that belongs to a step of a rank."""
    return f"{process.rank}.{step}"


def at_a_time(process: Process, step: int) -> str:
    """The name of the number of examples that models are given at a time in a step of a rank."""
    return f"examples|{key(process, step)}"
