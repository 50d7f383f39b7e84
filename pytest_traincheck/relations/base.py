"""The interface of a relation, and the table of examples that all relations speak in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from pytest_traincheck.golden.model import Clause, Invariant, Kind, Scope
from pytest_traincheck.trace import Run
from pytest_traincheck.trace.labels import Bools, Ints, Labels

PINNED_FIELDS = frozenset({"optimizer", "root", "child", "variable", "module", "group"})
"""Context fields that name things of one pipeline; a precondition with one of them pins its invariant."""


@dataclass(frozen=True)
class Hypothesis:
    """A relation filled with descriptors.

    Hypotheses of one `family` are alternatives, strongest first: the first that survives inference is kept.
    """

    relation: str
    subject: str
    claim: Mapping[str, Any]
    kind: Kind = Kind.BEHAVIOUR
    scope: Scope = Scope.TRANSFERABLE
    family: str = ""
    implied_by: str = ""
    """Key of a stronger hypothesis; if that one is kept, this one says nothing new."""

    @property
    def key(self) -> str:
        return json.dumps([self.relation, self.subject, self.claim], sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True)
class Examples:
    """Places where a hypothesis could hold or fail, as parallel columns of length n.

    `process` is a position in `Run.processes`, `row` the event that stands for the place, `variable` a variable id or
    0.
    `context` are the fields a precondition may use. `observed` says in words what was there.
    """

    holds: Bools
    process: Ints
    row: Ints
    variable: Ints
    context: Mapping[str, Labels] = field(default_factory=dict)
    observed: Labels | None = None

    def __len__(self) -> int:
        return len(self.holds)

    @staticmethod
    def concatenate(parts: Sequence[Examples]) -> Examples:
        parts = [part for part in parts if len(part)]
        if not parts:
            return EMPTY
        if len(parts) == 1:
            return parts[0]
        fields = set(parts[0].context).intersection(*(part.context for part in parts))
        observed = [part.observed for part in parts if part.observed is not None]
        return Examples(
            np.concatenate([part.holds for part in parts]),
            np.concatenate([part.process for part in parts]),
            np.concatenate([part.row for part in parts]),
            np.concatenate([part.variable for part in parts]),
            {
                name: Labels.concatenate([part.context[name] for part in parts])
                for name in parts[0].context
                if name in fields
            },
            Labels.concatenate(observed) if len(observed) == len(parts) else None,
        )

    def where(self, when: Iterable[Clause]) -> Bools:
        """Which examples the clauses admit. A field that the examples do not have admits none."""
        mask = np.ones(len(self), dtype=bool)
        for clause in when:
            column = self.context.get(clause.field)
            if column is None:
                return np.zeros(len(self), dtype=bool)
            inside = column.isin(clause.values)
            mask &= ~inside if clause.negated else inside
        return mask


EMPTY = Examples(
    np.empty(0, dtype=bool),
    np.empty(0, dtype=np.int64),
    np.empty(0, dtype=np.int64),
    np.empty(0, dtype=np.int64),
)


@dataclass(frozen=True)
class Finding:
    """What a broken invariant looks like to a person: one sentence, what golden always did, what the candidate "
    "did."""

    title: str
    golden: str
    candidate: str
    ranks: tuple[int, ...] = ()
    """Ranks concerned, where they are more than those of the examples."""


class Relation(Protocol):
    """A template of rules. Learning and checking share `examples`, so that what is checked is what was learned."""

    name: str

    def layer(self, claim: Mapping[str, Any]) -> int:
        """Place in the flow of cause and effect: 1 calls, modes and configuration, 2 arguments and gradients, 3
        effects of
        a call, 4 variables, 5 ranks.
        """
        ...

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        """What might be a rule, judged from one golden run."""

    def examples(self, claim: Mapping[str, Any], run: Run) -> Examples:
        """Every place of a run to which the claim applies."""

    def sentence(self, claim: Mapping[str, Any], subject: str, when: str) -> str:
        """The rule in plain English; `when` is its precondition in words, possibly empty."""

    def finding(self, invariant: Invariant, run: Run, examples: Examples, broken: Ints) -> Finding:
        """Describes the violations; `broken` are positions in `examples`, in order of time."""


def variable_names(run: Run, examples: Examples, rows: Ints) -> tuple[str, ...]:
    """Distinct names of the variables at these examples, in order of appearance."""
    names: dict[str, None] = {}
    for position in rows.tolist():
        variable = int(examples.variable[position])
        if variable:
            names.setdefault(run.processes[int(examples.process[position])].names.variables[variable])
    return tuple(names)


def listed(names: Sequence[str], limit: int = 3) -> str:
    """A short list in words: `a`, `b`, `c` and 4 more."""
    shown = ", ".join(f"`{name}`" for name in names[:limit])
    rest = len(names) - limit
    return f"{shown} and {rest} more" if rest > 0 else shown
