"""The golden artefact: invariants of one pipeline and where they come from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

FORMAT = 1
"""Version of the golden file; a reader refuses what is newer."""


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
class Invariant:
    """A hypothesis that held in every golden run, with the context in which it did.

    `claim` holds the relation's own parameters, all JSON values. `examples` and `runs` count the support.
    """

    relation: str
    subject: str
    claim: Mapping[str, Any]
    when: tuple[Clause, ...]
    scope: Scope
    kind: Kind
    sentence: str
    examples: int = 0
    runs: int = 0

    @property
    def id(self) -> str:
        """Hash of what is claimed; support counts and wording do not enter it."""
        content = {
            "relation": self.relation,
            "subject": self.subject,
            "claim": dict(self.claim),
            "when": [clause.to_json() for clause in self.when],
            "scope": self.scope.value,
            "kind": self.kind.value,
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


@dataclass(frozen=True)
class Golden:
    """All invariants of one pipeline.

    `spec` identifies what was run (see `PipelineSpec.fingerprint`); `models` and `optimizers` describe the tracked
    variables, so that renamed classes can be matched: root name -> parameter name -> shape.
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
