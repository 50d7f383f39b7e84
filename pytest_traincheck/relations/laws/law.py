"""What laws have in common: each is one claim, that something holds wherever it can."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from pytest_traincheck.relations.base import PINNED_FIELDS, Examples, Finding, Hypothesis
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Deviation, Meaning, Place
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant
from pytest_traincheck.text import plural
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Labels


@dataclass(frozen=True)
class Always(Claim):
    """What the law says holds wherever it can."""

    law: Literal["always"] = field(default="always", init=False)


@dataclass(frozen=True)
class Told:
    """What is said of a broken law: a sentence about this program, and what it does in a few words."""

    title: str
    now: str


class Law(ABC):
    """One law. What it says of any program stands in its attributes, and where it can hold or fail in `places`.

    `right` and `wrong` are short examples of code, for the documentation.
    """

    name: ClassVar[str]
    claims: ClassVar[tuple[type[Claim], ...]] = (Always,)
    subject: ClassVar[str]
    """The API that it is about."""
    says: ClassVar[str]
    """The law as a sentence without its full stop: a precondition may follow."""
    expected: ClassVar[str]
    """What a right program does, in a few words."""
    because: ClassVar[Reason]
    right: ClassVar[str]
    wrong: ClassVar[str]
    place: ClassVar[Place] = Place.OTHER
    depth: ClassVar[int] = 1
    """Its layer."""
    deviation: ClassVar[Deviation] = Deviation.DIFFERENT

    @abstractmethod
    def places(self, run: Run) -> Examples:
        """Every place of a run where the law can hold or fail."""

    @abstractmethod
    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        """What is said where it fails; `broken` are positions in `examples`, in order of time."""

    def layer(self, claim: Always) -> int:
        return self.depth

    def meaning(self, rule: Invariant[Always]) -> Meaning:
        return Meaning(self.place, general=True)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        if len(self.examples(Always(), run)):
            yield Hypothesis(self.name, self.subject, Always())

    def examples(self, claim: Always, run: Run) -> Examples:
        return run.memo(("law", self.name), lambda: self.places(run))

    def sentence(self, claim: Always, subject: str, when: str) -> str:
        return f"{self.says}{when}."

    def finding(self, invariant: Invariant[Always], run: Run, examples: Examples, broken: Any) -> Finding:
        told = self.told(run, examples, broken.tolist())
        return Finding(told.title, self.expected, told.now, deviation=self.deviation)

    def reason(self, claim: Always) -> Reason:
        return self.because


def each_process(run: Run, places: Callable[[Process, int], Examples]) -> Examples:
    """The places of all training processes."""
    return Examples.concatenate([places(process, position) for position, process in enumerate(run.processes)])


def table(
    process: Process,
    position: int,
    holds: Any,
    rows: Any,
    variables: Any = None,
    context: Mapping[str, Labels] | None = None,
    observed: Labels | None = None,
) -> Examples:
    """Examples of one process from columns; each knows its rank."""
    size = len(holds)
    return Examples(
        np.asarray(holds, dtype=bool),
        np.full(size, position),
        np.asarray(rows, dtype=np.int64),
        np.zeros(size, dtype=np.int64) if variables is None else np.asarray(variables, dtype=np.int64),
        {"rank": rank_label(process, size), **(context or {})},
        observed,
    )


def transferable(examples: Examples) -> Examples:
    """The same places without what names things of one program."""
    return replace(
        examples, context={name: column for name, column in examples.context.items() if name not in PINNED_FIELDS}
    )


def times_broken(examples: Examples) -> str:
    """How often a law fails in all, as "3 times": what is told is about the first of them."""
    return plural(int((~examples.holds).sum()), "time")


def first_of(run: Run, examples: Examples, broken: list[int]) -> tuple[Process, int]:
    """The process and the row of the first place where a law fails."""
    return run.processes[int(examples.process[broken[0]])], int(examples.row[broken[0]])


def in_step(run: Run, examples: Examples, broken: list[int]) -> str:
    """When a law fails for the first time, as in "in step 3"."""
    process, row = first_of(run, examples, broken)
    return f"in step {process.step_number(row)}"


def seen(examples: Examples, position: int) -> str:
    """What an example showed, in words; empty where it shows nothing."""
    return "" if examples.observed is None else examples.observed[position]
