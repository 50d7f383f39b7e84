"""Whether a run was observed as golden's runs were. What plug-ins have observed and looked through is part of both.

Without a framework the same modules have other names, and without an observation calls that golden counts are never
seen. A rule that would take that for a deviation says nothing, and the check says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from pytest_traincheck import observing
from pytest_traincheck.check.result import Warned
from pytest_traincheck.frameworks.extensions import FRAMEWORK
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.rules.model import Invariant
from pytest_traincheck.text import plural
from pytest_traincheck.trace import Run

_REMEDY = (
    "Install the plug-in that the golden runs had (a conftest.py counts under pytest only), or refresh the golden."
)


@dataclass(frozen=True)
class Unlike:
    """What a plug-in told the probe on one side, and not, or otherwise, on the other."""

    frameworks: tuple[str, ...]
    observations: tuple[str, ...]

    def why_not(self, rule: Invariant) -> str:
        """Why a rule cannot be checked; empty where it can."""
        if self.frameworks:
            name = self.frameworks[0]
            return f"the golden runs, this run and this check do not all know the framework `{name}` of a plug-in alike"
        for api in self.observations:
            if _speaks_of(rule, api):
                return f"`{api}` was observed for a plug-in in the golden runs, and not in this one, or in another way"
        return ""


def unlike(golden: Golden, run: Run) -> Unlike:
    """What differs. A plug-in that neither side had an occasion for does not count, and an observation that golden does
    not know makes no difference to its rules.
    """
    here, there, known = run.extensions, golden.extensions, observing.extensions().digests
    lost = {key for key, digest in there.items() if here.get(key) != digest}
    # A check reads the names of wrappers too. What a trace is made of was observed when it was made.
    lost |= {key for key, digest in there.items() if key.startswith(FRAMEWORK) and known.get(key) != digest}
    new = {key for key, digest in run.extensions_in_use.items() if there.get(key) != digest}
    named = sorted(key.removeprefix(FRAMEWORK) for key in lost | new if key.startswith(FRAMEWORK))
    return Unlike(tuple(named), tuple(sorted(key for key in lost if not key.startswith(FRAMEWORK))))


def warnings_of(found: Unlike, golden: Golden) -> tuple[Warned, ...]:
    """What a reader must see of it: which rules say nothing, and what to do."""
    silent = sum(bool(found.why_not(rule)) for rule in golden.invariants)
    if not silent:
        return ()
    what = [f"the framework `{name}`" for name in found.frameworks] or [f"`{api}`" for api in found.observations]
    title = (
        f"{plural(silent, 'rule')} of the golden could not be checked, since a plug-in had {', '.join(what)} "
        f"{'looked through' if found.frameworks else 'observed'} on one side only, or in another way. {_REMEDY}"
    )
    return (Warned("golden", title),)


def _speaks_of(rule: Invariant, api: str) -> bool:
    # `a.b` is not named by `a.bc` nor by `x.a.b`, but by `a.b|Net`.
    named = re.compile(rf"(?<![\w.]){re.escape(api)}(?![\w.])")
    return any(named.search(text) for part in (rule.subject, rule.claim, rule.when) for text in _texts(part))


def _texts(value: Any) -> Iterator[str]:
    """Every text in what a rule is made of."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from (*_texts(key), *_texts(item))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _texts(getattr(value, field.name))
