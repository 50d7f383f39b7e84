"""What a pack holds: rules, each with the evidence that it holds in programs that had no part in learning it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from pytest_traincheck.rules.model import Invariant

FORMAT = 1
"""Version of the file format that is written."""


class Level(str, Enum):
    """How sure a rule is."""

    LAW = "law"
    """No right program breaks it. A broken one is an error."""
    HABIT = "habit"
    """Nearly all programs keep it. A broken one is a warning."""

    @property
    def report(self) -> str:
        """What a finding of this level is called: `error` or `warning`."""
        return "error" if self is Level.LAW else "warning"


@dataclass(frozen=True)
class Evidence:
    """What speaks for a rule.

    `shows` are the programs in which it came up, `breaks` those of them that break it; none for a law. `examples` are
    the places that its precondition admits, over all of them. Then every program in turn had no part in learning it:
    on `tried` of them it came up all the same, and `failed` broke it. At most the share `at_most` of right programs
    does so, with a confidence of 95 %.
    """

    shows: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()
    examples: int = 0
    tried: int = 0
    failed: int = 0
    at_most: float = 1.0


@dataclass(frozen=True)
class PackRule:
    """A rule of a pack. `id` is a readable name that stays; the texts are those of `relations.laws.Reason`."""

    id: str
    level: Level
    invariant: Invariant
    why: str = ""
    link: str = ""
    remedy: str = ""
    meant: str = ""
    since: str = ""
    """The first version of the pack's library from which on it holds; empty where it holds in all."""
    evidence: Evidence = Evidence()

    @property
    def order(self) -> tuple[str, str]:
        """Where it stands among the rules of a pack. Several claims may share a name."""
        return self.id, self.invariant.id


@dataclass(frozen=True)
class Pack:
    """Rules for the users of one `library`, and the `programs` that they were learned from.

    `versions` are those of libraries that these were run with, by library; `mistakes` are rules that a program breaks
    by mistake, by program: it had no part in learning them.
    """

    name: str
    library: str = "torch"
    rules: tuple[PackRule, ...] = ()
    programs: tuple[str, ...] = ()
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    runs: int = 0
    reason: str = ""
    mistakes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def count(self, level: Level) -> int:
        return sum(rule.level is level for rule in self.rules)
