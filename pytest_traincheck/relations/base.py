"""The interface of a relation, and the table of examples that all relations speak in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeGuard, runtime_checkable

import numpy as np

from pytest_traincheck.golden.numbers import Numbers
from pytest_traincheck.golden.recording import Recording
from pytest_traincheck.looks import Looks
from pytest_traincheck.relations.meaning import Deviation, Meaning, Place, Words
from pytest_traincheck.relations.settings import several
from pytest_traincheck.rules.claims import NOT_STORED, Claim, to_json
from pytest_traincheck.rules.conditions import Clause, Condition, Except, Exists
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Run
from pytest_traincheck.trace.labels import Bools, Ints, Labels

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    C = TypeVar("C", bound=Claim, contravariant=True, default=Any)
else:
    from typing import TypeVar

    C = TypeVar("C", contravariant=True)

PINNED_FIELDS = frozenset({"optimizer", "root", "child", "variable", "module", "group"})
"""Context fields that name things of one pipeline; a precondition that lists their values pins its invariant."""

COMPARABLE = (("child", "root"), ("module", "root"))
"""Pairs of context fields that mean the same sort of thing, so that it says something whether they are equal: what is
directly in the model, and what is in a part of it. Every other two fields have no value in common.
"""

ABSENT = ""
"""Value of a field in a context that has none: the model of a call outside every model."""


@dataclass(frozen=True)
class Hypothesis:
    """A relation filled with descriptors.

    Hypotheses of one `family` are alternatives, strongest first: the first that survives inference is kept.
    """

    relation: str
    subject: str
    claim: Claim
    kind: Kind = Kind.BEHAVIOUR
    scope: Scope = Scope.TRANSFERABLE
    family: str = ""
    implied_by: str = ""
    """Key of a stronger hypothesis; if that one is kept, this one says nothing new."""
    unanimous: bool = False
    """Whether every golden run must suggest it by itself: a number that differs between them is up to the data, and
    the smallest of them is no bound.
    """

    @property
    def key(self) -> str:
        return json.dumps([self.relation, self.subject, to_json(self.claim)], sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True)
class Examples:
    """Places where a hypothesis could hold or fail, as parallel columns of length n.

    `process` is a position in `Run.processes`, `row` the event that stands for the place, `variable` a variable id or
    0.
    `context` are the fields a precondition may use. `observed` says in words what was there.
    `awaited` are those that fail only since something has not come yet that golden does as well: a run that goes on for
    longer than golden's may come to it later, and is not judged by them.
    `unsure` are those that fail as far as can be seen, and that a later step may show to be chance: as long as there
    are fewer steps than golden's runs had, nobody is judged by them.
    """

    holds: Bools
    process: Ints
    row: Ints
    variable: Ints
    context: Mapping[str, Labels] = field(default_factory=dict)
    observed: Labels | None = None
    awaited: Bools | None = None
    unsure: Bools | None = None

    def __len__(self) -> int:
        return len(self.holds)

    @staticmethod
    def concatenate(parts: Sequence[Examples]) -> Examples:
        parts = [part for part in parts if len(part)]
        if not parts:
            return EMPTY
        if len(parts) == 1:
            return parts[0]
        fields = dict.fromkeys(name for part in parts for name in part.context)
        observed = [part.observed for part in parts if part.observed is not None]
        return Examples(
            np.concatenate([part.holds for part in parts]),
            np.concatenate([part.process for part in parts]),
            np.concatenate([part.row for part in parts]),
            np.concatenate([part.variable for part in parts]),
            {
                name: Labels.concatenate(
                    [part.context.get(name) or Labels.constant(ABSENT, len(part)) for part in parts]
                )
                for name in fields
            },
            Labels.concatenate(observed) if len(observed) == len(parts) else None,
            _flags(parts, [part.awaited for part in parts]),
            _flags(parts, [part.unsure for part in parts]),
        )

    def where(self, when: Iterable[Condition]) -> Bools:
        """Which examples the conditions admit, all of them together."""
        mask = np.ones(len(self), dtype=bool)
        for condition in when:
            mask &= admitted(condition, self.context, len(self))
        return mask


def _flags(parts: Sequence[Examples], flags: Sequence[Bools | None]) -> Bools | None:
    """Flags of several examples, where any of them has some."""
    if all(own is None for own in flags):
        return None
    each = zip(parts, flags, strict=True)
    return np.concatenate([np.zeros(len(part), dtype=bool) if own is None else own for part, own in each])


def in_set_up(examples: Examples, run: Run) -> Bools:
    """Which examples lie in a forward pass of set-up."""
    found = np.zeros(len(examples), dtype=bool)
    for number in np.flatnonzero(np.bincount(examples.process)).tolist():
        shown = run.processes[number].shown
        if shown.any():
            mine = examples.process == number
            found[mine] = shown[examples.row[mine]]
    return found


def admitted(condition: Condition, context: Mapping[str, Labels], size: int) -> Bools:
    """Which contexts meet one condition. A field that the contexts do not have admits none."""
    if isinstance(condition, Except):
        inside = np.ones(size, dtype=bool)
        for part in condition.parts:
            if part.field not in context:
                return np.zeros(size, dtype=bool)
            inside &= admitted(part, context, size)
        return ~inside
    column = context.get(condition.field)
    if column is None:
        return np.zeros(size, dtype=bool)
    if isinstance(condition, Clause):
        inside = column.isin(condition.values)
        return ~inside & ~column.isin([ABSENT]) if condition.negated else inside
    present = ~column.isin([ABSENT])
    if isinstance(condition, Exists):
        return ~present if condition.negated else present
    other = context.get(condition.other)
    if other is None:
        return np.zeros(size, dtype=bool)
    both = present & ~other.isin([ABSENT])
    codes = {value: code for code, value in enumerate(other.values)}
    counterpart = np.array([codes.get(value, -1) for value in column.values], dtype=np.int64)
    equal = counterpart[column.codes] == other.codes
    return np.asarray(both & (~equal if condition.negated else equal), dtype=bool)


EMPTY = Examples(
    np.empty(0, dtype=bool),
    np.empty(0, dtype=np.int64),
    np.empty(0, dtype=np.int64),
    np.empty(0, dtype=np.int64),
)


@dataclass(frozen=True)
class Finding:
    """What a broken invariant looks like to a person: one sentence, what golden always did, what the candidate did.

    The texts are for reading. What others decide by is `deviation`, `common_cause` and `value`.
    """

    title: str
    golden: str
    candidate: str
    ranks: tuple[int, ...] = ()
    """Ranks concerned, where they are more than those of the examples."""
    variables: tuple[str, ...] = ()
    """Variables concerned, where another order than that of time says more."""
    place: str = ""
    """Line of the user's code, as `path:line`, where another than that of the examples says more about what changed."""
    value: str = ""
    """What the candidate has in place of golden's, where that is one of several things that it could be: who accepts
    the finding accepts this, and not another. Empty where a rule can be broken in one way only, or the value is noise.
    """
    deviation: Deviation = Deviation.DIFFERENT
    common_cause: str = ""
    """What is behind the finding, where that shows in several rules: findings that name the same are one incident."""
    modules: tuple[str, ...] = ()
    """Modules that are called in another way, with all that lies in them: what their calls do follows from it."""
    changed: tuple[str, str] | None = None
    """What golden has and what the candidate has at this place, as texts, where that is one value that somebody set."""


class Relation(Protocol[C]):
    """A template of rules. Learning and checking share `examples`, so that what is checked is what was learned."""

    name: str
    claims: ClassVar[tuple[type[Claim], ...]]
    """The types of its claims; a stored claim that is none of them is refused where it is read."""

    def layer(self, claim: C) -> int:
        """Place in the flow of cause and effect: 1 calls, modes and configuration, 2 arguments and gradients, 3
        effects of
        a call, 4 variables, 5 ranks.
        """
        ...

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        """What might be a rule, judged from one golden run."""

    def examples(self, claim: C, run: Run) -> Examples:
        """Every place of a run to which the claim applies."""

    def sentence(self, claim: C, subject: str, when: str) -> str:
        """The rule in plain English; `when` is its precondition in words, possibly empty."""

    def finding(self, invariant: Invariant[C], run: Run, examples: Examples, broken: Ints) -> Finding:
        """Describes the violations; `broken` are positions in `examples`, in order of time."""


@runtime_checkable
class Meaningful(Protocol):
    """A relation that says what its rules mean to others; one that does not has the `usual_meaning`."""

    def meaning(self, rule: Invariant) -> Meaning:
        """What a rule of this relation means when it is broken."""
        ...


@runtime_checkable
class Selective(Protocol):
    """A relation that names what its rules read of what may be left out of an observation (`looks.py`). Of
    one that does not, rules are taken to read everything.
    """

    looks: ClassVar[Looks]


AFTER_OTHERS = 100
"""Order of numbers of which nobody says where in a step they are made."""


def usual_meaning(rule: Invariant) -> Meaning:
    """What is true of any rule: numbers are results, and everything else may be the cause or the effect of anything."""
    content = to_json(rule.claim)
    words = Words(words=tuple(str(content[key]) for key in ("argument", "name") if key in content))
    if rule.kind is Kind.NUMERIC:
        return Meaning(Place.NUMBER, order=AFTER_OTHERS, words=words)
    return Meaning(words=words)


@dataclass(frozen=True)
class MeasuredClaim(Claim):
    """A claim of a `Measured` relation: `examples` and `finding` get it with its numbers."""

    fitted: Numbers | None = field(default=None, kw_only=True, compare=False, repr=False, metadata=NOT_STORED)

    @property
    def numbers(self) -> Numbers:
        """The numbers of the platform at hand. Raises `ValueError` for a claim that comes without."""
        if self.fitted is None:
            raise ValueError(f"{self} comes without its numbers")
        return self.fitted


@dataclass(frozen=True)
class ReplayedClaim(Claim):
    """A claim of a `Replayed` relation: `examples` and `finding` get it with the recording."""

    recorded: Recording | None = field(default=None, kw_only=True, compare=False, repr=False, metadata=NOT_STORED)

    @property
    def recording(self) -> Recording:
        """What a golden run computed on the platform at hand. Raises `ValueError` for a claim that comes without."""
        if self.recorded is None:
            raise ValueError(f"{self} comes without a recording")
        return self.recorded


@runtime_checkable
class Measured(Relation[C], Protocol[C]):
    """A relation whose rules rest on numbers, which belong to one platform and are no part of what is claimed.

    Its claims are `MeasuredClaim`s. `examples` and `finding` get the numbers as `claim.numbers`; a stored invariant
    does not hold them, so that its id and its line in the golden file are the same on every platform.
    """

    def fit(self, claim: C, runs: Sequence[Run]) -> Numbers | None:
        """The numbers of a claim over all golden runs of one spec; None where it must not be made."""
        ...

    def suits(self, claim: C, numbers: Numbers) -> bool:
        """Whether numbers that were read from a file are such as `fit` gives for the claim."""
        ...


@runtime_checkable
class Replayed(Relation[C], Protocol[C]):
    """A relation whose rules rest on the recording of one golden run.

    Its claims are `ReplayedClaim`s. `examples` and `finding` get it as `claim.recording`. Other golden runs do not
    have to confirm such a rule, since its condition is met in none of them; where it is, they have told what is not
    repeatable.
    """

    def recording(self, runs: Sequence[Run]) -> Recording | None:
        """What the first run computed, as far as the others do not contradict; None where nothing was recorded."""
        ...


# `isinstance` asks a protocol for all of its members, which takes as long as many a rule.


def says_what_it_means(relation: Relation) -> TypeGuard[Meaningful]:
    """Whether a relation is `Meaningful`."""
    return hasattr(relation, "meaning")


def says_what_it_reads(relation: Relation) -> TypeGuard[Selective]:
    """Whether a relation is `Selective`."""
    return hasattr(relation, "looks")


def is_measured(relation: Relation) -> TypeGuard[Measured]:
    """Whether a relation is `Measured`."""
    return hasattr(relation, "fit") and hasattr(relation, "suits")


def is_replayed(relation: Relation) -> TypeGuard[Replayed]:
    """Whether a relation is `Replayed`."""
    return hasattr(relation, "recording")


def filled(claim: Claim, found: Numbers | Recording) -> Claim:
    """A claim as the methods of a `Measured` or `Replayed` relation take it."""
    if isinstance(claim, MeasuredClaim) and isinstance(found, Numbers):
        return replace(claim, fitted=found)
    if isinstance(claim, ReplayedClaim) and isinstance(found, Recording):
        return replace(claim, recorded=found)
    raise TypeError(f"{type(claim).__name__} takes no {type(found).__name__}; derive it from `MeasuredClaim`")


def variable_names(run: Run, examples: Examples, rows: Ints) -> tuple[str, ...]:
    """Distinct names of the variables at these examples, in order of appearance."""
    names: dict[str, None] = {}
    for position in rows.tolist():
        variable = int(examples.variable[position])
        if variable:
            names.setdefault(run.processes[int(examples.process[position])].names.variables[variable])
    return tuple(names)


def seen_values(examples: Examples, broken: Ints) -> str:
    """What broken examples showed, each value once, as in "0.001 and 0.002"; "?" where they show nothing."""
    if examples.observed is None:
        return "?"
    return several(examples.observed[position] for position in broken.tolist())


def all_of(names: Sequence[str]) -> str:
    """Names as a value: the first of them, and a hash that tells the others."""
    shown = listed(names)
    if len(names) <= 3:
        return shown
    return f"{shown} ({hashlib.blake2b('|'.join(sorted(names)).encode(), digest_size=4).hexdigest()})"


def listed(names: Sequence[str], limit: int = 3) -> str:
    """A short list in words: `a`, `b`, `c` and 4 more."""
    shown = ", ".join(f"`{name}`" for name in names[:limit])
    rest = len(names) - limit
    return f"{shown} and {rest} more" if rest > 0 else shown
