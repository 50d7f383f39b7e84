"""The golden artefact: invariants of one pipeline and where they come from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic

from pytest_traincheck.golden.claims import Claim, to_json

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # numpy is not needed to look at rules.
    from pytest_traincheck.golden.numbers import Numbers
    from pytest_traincheck.golden.recording import Recording

    C_co = TypeVar("C_co", bound=Claim, covariant=True, default=Any)
else:
    from typing import TypeVar

    # Defaults of type variables are Python 3.13's, and for the checker of types alone.
    C_co = TypeVar("C_co", covariant=True)

FORMAT = 2
"""Version of the golden file; a reader refuses what is newer."""

IGNORES_SEED = "ignores_seed"
"""Key of the header of a golden whose runs were alike though their seeds were not; `true` where it stands."""

IN_PROCESS = "in-process:"
"""How the spec of a golden begins that was learned inside of a test."""


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class Scope(str, Enum):
    """Where an invariant may be checked."""

    TRANSFERABLE = "transferable"
    PINNED = "pinned"


class Kind(str, Enum):
    """What sort of failure a broken invariant is."""

    BEHAVIOUR = "behaviour"
    CONFIG = "config"
    NUMERIC = "numeric"


@dataclass(frozen=True)
class Clause:
    """One condition on the context of an example: `field in values`, or not in them when `negated`."""

    field: str
    values: tuple[str, ...]
    negated: bool = False

    def to_json(self) -> dict[str, Any]:
        key = "not_in" if self.negated else "in"
        return {"field": self.field, key: list(self.values)}


@dataclass(frozen=True)
class Exists:
    """The context has a value for the field at all, or none when `negated`: a call inside a model, or outside all."""

    field: str
    negated: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"field": self.field, "exists": not self.negated}


@dataclass(frozen=True)
class Same:
    """Two fields of one context have the same value, or different ones when `negated`; both must have one."""

    field: str
    other: str
    negated: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"field": self.field, "differs_from" if self.negated else "same_as": self.other}


@dataclass(frozen=True)
class Except:
    """Not all of `parts` at once: everywhere but in the context that the negative examples have in common."""

    parts: tuple[Clause, ...]

    def to_json(self) -> dict[str, Any]:
        return {"except": [part.to_json() for part in self.parts]}


Condition = Clause | Exists | Same | Except
"""One member of a precondition; its members are joined by "and"."""


def condition_from_json(item: object) -> Condition:
    """What `to_json` of a condition wrote.

    Raises `ValueError` saying what is wrong with anything else, as in "... is not a condition".
    """
    if isinstance(item, dict):
        keys = set(item)
        if keys in ({"field", "in"}, {"field", "not_in"}):
            negated = "not_in" in item
            values = item["not_in" if negated else "in"]
            if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
                raise ValueError("does not list strings")
            return Clause(_name(item["field"]), tuple(values), negated)
        if keys == {"field", "exists"} and isinstance(item["exists"], bool):
            return Exists(_name(item["field"]), negated=not item["exists"])
        if keys in ({"field", "same_as"}, {"field", "differs_from"}):
            negated = "differs_from" in item
            return Same(_name(item["field"]), _name(item["differs_from" if negated else "same_as"]), negated)
        if keys == {"except"} and isinstance(item["except"], list):
            parts = [condition_from_json(part) for part in item["except"]]
            clauses = tuple(part for part in parts if isinstance(part, Clause))
            if len(clauses) == len(parts) > 0:
                return Except(clauses)
    raise ValueError("is not a condition")


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("does not name its field by a string")
    return value


@dataclass(frozen=True)
class Invariant(Generic[C_co]):
    """A hypothesis that held in every golden run, with the context in which it did.

    `claim` is of a type of its relation. `examples` and `runs` count the support.
    """

    relation: str
    subject: str
    claim: C_co
    when: tuple[Condition, ...]
    scope: Scope
    kind: Kind
    sentence: str
    examples: int = 0
    runs: int = 0

    @cached_property
    def id(self) -> str:
        """Hash of what is claimed; support counts and wording do not enter it."""
        content = {
            "relation": self.relation,
            "subject": self.subject,
            "claim": to_json(self.claim),
            "when": [clause.to_json() for clause in self.when],
            "scope": self.scope.value,
            "kind": self.kind.value,
        }
        return hashlib.blake2b(_CANONICAL.encode(content).encode(errors="surrogatepass"), digest_size=6).hexdigest()


@dataclass(frozen=True)
class Golden:
    """All invariants of one pipeline.

    `spec` identifies what was run (see `PipelineSpec.fingerprint`); `models` and `optimizers` describe the tracked
    variables, so that renamed classes can be matched: root name -> parameter name -> shape.
    `numbers` are those of one `platform`, by the id of their invariant, and `recording` is what one run computed there;
    they lie in a file of their own.
    """

    pipeline: str
    spec: str
    invariants: tuple[Invariant, ...]
    commit: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    runs: int = 0
    reason: str = ""
    models: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    optimizers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    platform: str = ""
    numbers: Mapping[str, Numbers] = field(default_factory=dict)
    recording: Recording | None = None
    ignores_seed: bool = False
    """Whether all runs were alike though their seeds were not."""
