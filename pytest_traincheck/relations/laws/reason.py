"""Why a rule holds in every right program, in words that a person reads beside the line that breaks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pytest_traincheck.relations.base import Relation
from pytest_traincheck.rules.claims import Claim

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    C = TypeVar("C", bound=Claim, contravariant=True, default=Any)
else:
    from typing import TypeVar

    C = TypeVar("C", contravariant=True)


@dataclass(frozen=True)
class Reason:
    """Why a rule is a law.

    `slug` is its name in a pack, of small letters, digits and dashes, for as long as the rule means the same; `why` one
    or two sentences; `link` the page of a documentation that says so, or nothing; `remedy` what to write instead, and
    `meant` when it may be right to do otherwise, empty where it never is.
    """

    slug: str
    why: str
    link: str = ""
    remedy: str = ""
    meant: str = ""
    library: str = "torch"
    """The distribution whose users it concerns, and so the pack it belongs to: `torch`, `torch-distributed`,
    `transformers`, `lightning`, `accelerate`, `peft`, `deepspeed`."""
    since: str = ""
    """The first version of the library from which on it holds; empty where it holds in all that are supported."""


class Lawful(Relation[C], Protocol[C]):
    """A relation whose rules may stand in a pack that ships."""

    def reason(self, claim: C) -> Reason:
        """Why a rule with this claim is a law."""
        ...
