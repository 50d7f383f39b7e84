"""Which golden rules may be checked on a run: all on the same spec, fewer on a variation, fewest on another program."""

from __future__ import annotations

from enum import Enum, auto

from pytest_traincheck.alignment.description import describe_models
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.relations import meaning_of
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Run

COMMON_SHARE = 0.5
"""Share of the golden's parameters, by model and name, that a variation of
the same program has.
"""


class Program(Enum):
    """Whether the candidate ran the program that the golden was learned from."""

    SAME = auto()
    """It ran what the golden ran."""
    VARIATION = auto()
    """The same program with other arguments, or rules that were learned from several programs."""
    OTHER = auto()
    """A different program from the only one that the golden knows."""


def program_of(golden: Golden, run: Run, *, same_spec: bool) -> Program:
    """Judges by the models of a run whose roots are called as in the golden."""
    if same_spec:
        return Program.SAME
    known = {(root, name) for root, shapes in golden.models.items() for name in shapes}
    if not known:
        return Program.VARIATION
    seen = {(root, name) for root, shapes in describe_models(run).items() for name in shapes}
    return Program.VARIATION if len(known & seen) >= COMMON_SHARE * len(known) else Program.OTHER


def why_not(invariant: Invariant, program: Program) -> str:
    """Why a rule is not checked; empty if it is."""
    if program is Program.SAME:
        return ""
    if invariant.scope is Scope.PINNED:
        return "pinned to the golden's own command, and the candidate ran a different one"
    if program is Program.OTHER and not meaning_of(invariant).general:
        return "learned from one program and not general, and the candidate is a different program"
    return ""
