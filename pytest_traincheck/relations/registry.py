"""All relations: ours and those of plugins, by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pluggy

from pytest_traincheck import hookspecs
from pytest_traincheck.golden.model import Invariant
from pytest_traincheck.relations import builtin
from pytest_traincheck.relations.base import Meaningful, Relation, usual_meaning
from pytest_traincheck.relations.meaning import Meaning


@cache
def relations() -> Mapping[str, Relation]:
    """Relations by name. Ours come through the same hook as those of installed plugins (entry point group
    `traincheck`).

    Raises:
        ValueError: two relations have one name.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(builtin, name="builtin")
    manager.load_setuptools_entrypoints(hookspecs.PROJECT)
    found: dict[str, Relation] = {}
    # pluggy calls the last registered first; ours come first in reports.
    for group in reversed(manager.hook.pytest_traincheck_relations()):
        for relation in group:
            if relation.name in found:
                raise ValueError(f"two relations are named {relation.name!r}: rename the one of your plugin")
            found[relation.name] = relation
    return found


def meaning_of(rule: Invariant) -> Meaning:
    """What a rule means, as its relation says; the usual where that says nothing, or is not installed."""
    relation = relations().get(rule.relation)
    return relation.meaning(rule) if isinstance(relation, Meaningful) else usual_meaning(rule)
