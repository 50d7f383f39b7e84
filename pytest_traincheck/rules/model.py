"""An invariant: a hypothesis that held in every golden run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic

from pytest_traincheck.rules.claims import Claim, to_json
from pytest_traincheck.rules.conditions import Condition

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    C_co = TypeVar("C_co", bound=Claim, covariant=True, default=Any)
else:
    from typing import TypeVar

    # Defaults of type variables are Python 3.13's, and for the checker of types alone.
    C_co = TypeVar("C_co", covariant=True)

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
