"""All relations: ours and those of plug-ins, by name."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from pytest_traincheck.looks import EVERYTHING, Looks
from pytest_traincheck.plugins import Given, PluginError, implementations, items_of, packages
from pytest_traincheck.relations import builtin
from pytest_traincheck.relations.base import Relation, says_what_it_means, says_what_it_reads, usual_meaning
from pytest_traincheck.relations.claims import form_of
from pytest_traincheck.relations.laws.reason import Lawful
from pytest_traincheck.relations.meaning import Meaning
from pytest_traincheck.rules.claims import Claim, Foreign
from pytest_traincheck.rules.model import Invariant

HOOK = "pytest_traincheck_relations"


def relations() -> Mapping[str, Relation]:
    """Relations by name; ours come first, in reports too.

    Raises:
        PluginError: two relations have one name, or a plug-in cannot be used.
    """
    return _table(implementations(HOOK))[0]


def laws() -> Mapping[str, Lawful]:
    """Relations of packs alone, by name: goldens are not learned from them."""
    return _laws()


def relation_named(name: str) -> Relation | None:
    """The relation of a rule, whether of a golden or of a pack; None where it is not known here.

    Raises:
        PluginError: as `relations`.
    """
    return relations().get(name) or laws().get(name)


def meaning_of(rule: Invariant) -> Meaning:
    """What a rule means, as its relation says; the usual where that says nothing, is not installed, or has not read the
    claim.
    """
    if isinstance(rule.claim, Foreign):
        return usual_meaning(rule)
    relation = relation_named(rule.relation)
    if relation is None or not says_what_it_means(relation):
        return usual_meaning(rule)
    return relation.meaning(rule)


def looks_of(rule: Invariant) -> Looks:
    """What a rule reads of what may be left out of an observation, as its relation says; everything where that says
    nothing, is not installed, or has not read the claim.
    """
    relation = relations().get(rule.relation)
    if isinstance(rule.claim, Foreign) or relation is None or not says_what_it_reads(relation):
        return EVERYTHING
    return relation.looks


def in_session_only() -> frozenset[str]:
    """Names of the relations that the running pytest session knows and the standalone commands do not."""
    return _table(implementations(HOOK))[1]


def revision() -> list[str]:
    """Tells one state of the plug-ins from another: versions of packages, and the code that defines their relations.

    Whoever works on a relation, in a conftest or in an editable install, changes its code and not its version.
    """
    given = implementations(HOOK)
    ours = set(map(id, _ours()))
    modules = {type(relation).__module__ for relation in _table(given)[0].values() if id(relation) not in ours}
    files = {getattr(sys.modules.get(name), "__file__", None) for name in modules}
    files |= {getattr(item.plugin, "__file__", None) for item in given}
    return [*packages(), *sorted(_digest(Path(file)) for file in files if file)]


@lru_cache(maxsize=1)
def _laws() -> Mapping[str, Lawful]:
    return {law.name: law for law in builtin.laws()}


@lru_cache(maxsize=1)
def _ours() -> tuple[Relation, ...]:
    return tuple(builtin.relations())


# A conftest that pytest comes across while it collects brings another tuple, and so another table.
@lru_cache(maxsize=4)
def _table(given: tuple[Given, ...]) -> tuple[Mapping[str, Relation], frozenset[str]]:
    found = {relation.name: relation for relation in _ours()}
    in_session = set()
    for item in given:
        for relation in items_of(item, HOOK):
            if wrong := _wrong(relation):
                raise PluginError(
                    f"{item.owner}: {relation!r} {wrong} and is no relation. "
                    "Return instances that define what `pytest_traincheck.api.Relation` asks for."
                )
            name = relation.name
            if name in found:
                raise PluginError(
                    f"{item.owner}: two relations are named {name!r}. Rename the one of your plug-in, or remove it "
                    "from one of the two places that give it."
                )
            found[name] = relation
            if item.in_session:
                in_session.add(name)
    return found, frozenset(in_session)


def _wrong(relation: object) -> str:
    """Why something is no relation; empty where it is one."""
    if isinstance(relation, type):
        return "is a class"
    name = getattr(relation, "name", None)
    if not isinstance(name, str) or not name:
        return "lacks `name`"
    for method in builtin.METHODS:
        found = getattr(type(relation), method, None)
        # The protocol's own body does nothing.
        if not callable(found) or found is getattr(Relation, method):
            return f"lacks `{method}`"
    return _wrong_claims(getattr(relation, "claims", None))


def _wrong_claims(kinds: object) -> str:
    if not isinstance(kinds, tuple) or not kinds:
        return "lacks `claims`"
    for kind in kinds:
        if not isinstance(kind, type) or not issubclass(kind, Claim) or not _is_frozen(kind):
            return f"has {kind!r} among its `claims`, which is no frozen dataclass derived from `Claim`,"
        try:
            form_of(kind)
        except (TypeError, NameError) as error:
            return f"has a claim whose types cannot be stored ({error})"
    return ""


def _is_frozen(kind: type[Claim]) -> bool:
    # A class that only inherits has the fields of another.
    parameters = vars(kind).get("__dataclass_params__")
    return parameters is not None and bool(parameters.frozen)


def _digest(path: Path) -> str:
    try:
        return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    except OSError:
        return ""
