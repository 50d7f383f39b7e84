"""What changed between two goldens, sorted by what it means."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_traincheck.golden.model import Golden
from pytest_traincheck.golden.provenance import provenance
from pytest_traincheck.golden.renames import Renames, renamed, renames
from pytest_traincheck.rules.claims import to_json
from pytest_traincheck.rules.conditions import Clause, Condition, Except, Exists
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.text import one_line


@dataclass(frozen=True)
class Change:
    """One rule that says something else now."""

    old: Invariant
    new: Invariant


@dataclass(frozen=True)
class GoldenDiff:
    """The rules that differ; each stands in one category only, sorted by subject.

    `weaker` rules say the same in fewer contexts, `stronger` ones in more, and `replaced` ones of an optimizer or a
    model that took the place of another: `renames` (old, new) says which. `facts` are differences of provenance
    (label, old, new): worth a look, but not a change of behaviour.
    """

    pipeline: str
    added: tuple[Invariant, ...] = ()
    removed: tuple[Invariant, ...] = ()
    weaker: tuple[Change, ...] = ()
    stronger: tuple[Change, ...] = ()
    changed: tuple[Change, ...] = ()
    replaced: tuple[Change, ...] = ()
    renames: Renames = ()
    facts: tuple[tuple[str, str, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the rules are the same."""
        return not (self.added or self.removed or self.weaker or self.stronger or self.changed or self.replaced)

    @property
    def subjects(self) -> tuple[str, ...]:
        """Every subject that some rule changed about, sorted."""
        changes = [*self.weaker, *self.stronger, *self.changed, *self.replaced]
        rules = [*self.added, *self.removed, *(change.new for change in changes)]
        return tuple(sorted({rule.subject for rule in rules}))


def diff(old: Golden, new: Golden) -> GoldenDiff:
    """Compare two goldens. Wording and support counts are no difference: they do not enter what a rule claims."""
    old_ids = {rule.id for rule in old.invariants}
    new_ids = {rule.id for rule in new.invariants}
    added = [rule for rule in new.invariants if rule.id not in old_ids]
    pairs = renames(old, new)
    # By the id that each would have: the old rules are looked at as if they spoke of what is there now.
    gone: dict[str, Invariant] = {}
    for rule in sorted((rule for rule in old.invariants if rule.id not in new_ids), key=_order):
        seen = renamed(rule, pairs) if pairs else rule
        gone.setdefault(seen.id if seen.id not in gone and seen.id not in old_ids else rule.id, rule)
    removed = [renamed(rule, pairs) if identity != rule.id else rule for identity, rule in gone.items()]

    moved = {rule.id: rule for rule in added if rule.id in gone}
    removed = [rule for rule in removed if rule.id not in moved]
    added = [rule for rule in added if rule.id not in moved]
    weaker: list[Change] = []
    stronger: list[Change] = []
    changed: list[Change] = []
    same_claim, removed, added = _pair(removed, added, [_whole_claim])
    for change in same_claim:
        direction = _direction(change)
        (stronger if direction > 0 else weaker if direction < 0 else changed).append(change)
    # Most alike first: other numbers only, then one value of any kind, then whatever is alone with its kind of claim.
    values, removed, added = _pair(removed, added, [_names_only, *_one_value_left_out(removed), _keys_if_alone])
    changed += values
    found = (weaker, stronger, changed)
    weaker, stronger, changed = ([replace(item, old=gone[item.old.id]) for item in group] for group in found)
    return GoldenDiff(
        pipeline=new.pipeline,
        added=tuple(sorted(added, key=_order)),
        removed=tuple(sorted((gone[rule.id] for rule in removed), key=_order)),
        weaker=_sorted_changes(weaker),
        stronger=_sorted_changes(stronger),
        changed=_sorted_changes(changed),
        replaced=_sorted_changes(Change(gone[identity], rule) for identity, rule in moved.items()),
        renames=pairs if moved else (),
        facts=_facts(old, new),
    )


def _facts(old: Golden, new: Golden) -> tuple[tuple[str, str, str], ...]:
    before = dict(provenance(replace(old, environment={}, reason="")))
    after = dict(provenance(replace(new, environment={}, reason="")))
    before |= {key: one_line(text) for key, text in old.environment.items()}
    after |= {key: one_line(text) for key, text in new.environment.items()}
    names = [*after, *(name for name in before if name not in after)]
    return tuple(
        (name, before.get(name, ""), after.get(name, "")) for name in names if before.get(name) != after.get(name)
    )


def _order(rule: Invariant) -> tuple[str, str, str, str]:
    return (rule.subject, rule.relation, rule.sentence, rule.id)


def _sorted_changes(changes: Iterable[Change]) -> tuple[Change, ...]:
    return tuple(sorted(changes, key=lambda change: _order(change.new)))


# How strong a rule is.


def _direction(change: Change) -> int:
    """1 where the new rule speaks in more places than the old one, -1 in fewer, 0 where they cannot be compared."""
    directions = {_compare(_implies(change.old.when, change.new.when), _implies(change.new.when, change.old.when))}
    if change.old.scope is not change.new.scope:
        directions.add(1 if change.new.scope is Scope.TRANSFERABLE else -1)
    if change.old.kind is not change.new.kind or directions >= {1, -1} or None in directions:
        return 0
    return next((direction for direction in directions if direction), 0)


def _compare(old_implies_new: bool, new_implies_old: bool) -> int | None:
    if old_implies_new and new_implies_old:
        return 0
    if old_implies_new:
        return 1
    return -1 if new_implies_old else None


def _implies(narrow: Sequence[Condition], wide: Sequence[Condition]) -> bool:
    """Whether every context that meets all of `narrow` meets all of `wide`, as far as the conditions alone tell."""
    return all(any(_condition_implies(mine, theirs) for mine in narrow) for theirs in wide)


def _condition_implies(narrow: Condition, wide: Condition) -> bool:
    if narrow == wide:
        return True
    if isinstance(wide, Except):
        if isinstance(narrow, Except):
            return _implies(wide.parts, narrow.parts)
        return any(_condition_implies(narrow, replace(part, negated=not part.negated)) for part in wide.parts)
    if isinstance(narrow, Except) or not isinstance(narrow, Clause) or narrow.field != wide.field:
        return False
    if isinstance(wide, Exists):
        # A clause about a field admits only contexts that have the field.
        return not wide.negated
    return isinstance(wide, Clause) and _clause_implies(narrow, wide)


def _clause_implies(narrow: Clause, wide: Clause) -> bool:
    mine, theirs = set(narrow.values), set(wide.values)
    if narrow.negated:
        return wide.negated and mine >= theirs
    return not mine & theirs if wide.negated else mine <= theirs


# Which old rule became which new one.

_FINDINGS = {"value", "values"}
"""Claim keys for what a relation found; the other keys of such a claim say where, so they tell rules apart."""

_Key = Callable[[Invariant], Hashable]
_Group = tuple[str, str, Hashable]


def _pair(
    old: Sequence[Invariant], new: Sequence[Invariant], keys: Sequence[_Key]
) -> tuple[list[Change], list[Invariant], list[Invariant]]:
    """Pair old with new rules that agree in the first of `keys` that they agree in; linear in the number of rules."""
    changes: list[Change] = []
    for key in keys:
        groups: defaultdict[_Group, tuple[list[Invariant], list[Invariant]]] = defaultdict(lambda: ([], []))
        for side, rules in enumerate((old, new)):
            for rule in sorted(rules, key=_order):
                groups[rule.relation, rule.subject, key(rule)][side].append(rule)
        paired: set[str] = set()
        for (_, _, value), (olds, news) in groups.items():
            if value is None or (key is _keys_if_alone and (len(olds), len(news)) != (1, 1)):
                continue
            for change in _match(olds, news):
                changes.append(change)
                paired |= {change.old.id, change.new.id}
        old = [rule for rule in old if rule.id not in paired]
        new = [rule for rule in new if rule.id not in paired]
    return changes, list(old), list(new)


def _match(olds: list[Invariant], news: list[Invariant]) -> list[Change]:
    """Pair the rules of one group: those with the same context first, then comparable ones, then in order."""
    changes = []
    tests: list[Callable[[Invariant, Invariant], bool]] = [
        lambda a, b: a.when == b.when,
        lambda a, b: _direction(Change(a, b)) != 0,
        lambda _a, _b: True,
    ]
    for test in tests:
        for rule in list(olds):
            partner = next((candidate for candidate in news if test(rule, candidate)), None)
            if partner is not None:
                changes.append(Change(rule, partner))
                olds.remove(rule)
                news.remove(partner)
    return changes


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _whole_claim(rule: Invariant) -> Hashable:
    return _text(to_json(rule.claim))


def _names_only(rule: Invariant) -> Hashable:
    """The claim without its numbers: names say what a rule is about, numbers what it found."""
    claim = to_json(rule.claim)
    names = {key: value for key, value in claim.items() if isinstance(value, str)}
    return (_text(sorted(claim)), _text(names)) if names else None


def _one_value_left_out(rules: Iterable[Invariant]) -> list[_Key]:
    """One grouping per claim key: rules that differ in that value alone."""

    def without(key: str) -> _Key:
        def rest(rule: Invariant) -> Hashable:
            claim = to_json(rule.claim)
            found = _FINDINGS & claim.keys()
            if key not in claim or (found and key not in found):
                return None
            return (key, _text({name: value for name, value in claim.items() if name != key}))

        return rest

    return [without(key) for key in sorted({key for rule in rules for key in to_json(rule.claim)})]


def _keys_if_alone(rule: Invariant) -> Hashable:
    claim = to_json(rule.claim)
    return None if _FINDINGS & claim.keys() else _text(sorted(claim))
