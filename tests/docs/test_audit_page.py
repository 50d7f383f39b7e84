"""`docs/audit.md` has every rule of the packs that ship, as they are."""

from __future__ import annotations

import ast

import pytest
from audit_page import PAGE, written

from pytest_traincheck.packs import store
from pytest_traincheck.packs.model import PackRule
from pytest_traincheck.relations import laws, relation_named
from pytest_traincheck.relations.stored import claim_of
from pytest_traincheck.rules.claims import to_json

RULES = [rule for name in store.shipped() for rule in store.shipped_pack(name).rules]


def test_the_page_is_what_the_packs_say() -> None:
    """Write it anew with `python tests/audit_page.py`."""
    assert PAGE.read_text(encoding="utf-8") == written()


@pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])
def test_a_rule_that_ships_has_a_reason_that_is_todays(rule: PackRule) -> None:
    invariant = rule.invariant
    assert relation_named(invariant.relation) is not None
    claim = claim_of(invariant.relation, to_json(invariant.claim))
    reason = laws()[invariant.relation].reason(claim)
    assert (rule.id, rule.why, rule.link) == (reason.slug, reason.why, reason.link)
    assert (rule.remedy, rule.meant, rule.since) == (reason.remedy, reason.meant, reason.since)
    for code in (getattr(laws()[invariant.relation], name, "pass") for name in ("right", "wrong")):
        ast.parse(code)
