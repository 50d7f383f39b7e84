"""A refresh is reviewed as behaviour: what changed, sorted by what the change means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_traincheck.golden.diff import Change, diff
from pytest_traincheck.golden.diff_text import render_diff
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.relations import Examples
from pytest_traincheck.rules.claims import Foreign
from pytest_traincheck.rules.conditions import Clause, Condition, Except, Exists, Same
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace.labels import Labels

# A busy machine is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

TRAIN = Clause("stage", ("train",))
ANYWHERE = Clause("stage", ("eval", "train"))
NOT_EVAL = Clause("stage", ("eval",), negated=True)
BF16 = Clause("autocast", ("bfloat16",))
EXCEPT = Except((Clause("stage", ("eval",)), BF16))


def with_rule(golden: Golden, index: int, **changes: object) -> Golden:
    rules = list(golden.invariants)
    rules[index] = replace(rules[index], **changes)  # type: ignore[arg-type]
    return replace(golden, invariants=tuple(rules))


def test_wording_and_support_are_no_change(golden: Golden) -> None:
    result = diff(golden, with_rule(golden, 0, sentence="Said otherwise.", examples=99, runs=9))
    assert result.is_empty
    assert render_diff(result) == "`tiny_gpt`: no change"


def test_provenance_alone_is_no_change_of_rules(golden: Golden) -> None:
    result = diff(golden, replace(golden, commit="97bd01", environment={"torch": "2.14.0", "python": "3.11.7"}))
    assert result.is_empty
    assert result.facts == (("commit", "4f1c2ab90d", "97bd01"), ("torch", "2.13.0", "2.14.0"))
    text = render_diff(result)
    assert "no change" in text
    assert "- torch: 2.14.0 (was: 2.13.0)" in text


def test_added_and_removed(golden: Golden, rules: tuple[Invariant, ...]) -> None:
    without = replace(golden, invariants=rules[1:])
    assert diff(without, golden).added == (rules[0],)
    gone = diff(golden, without)
    assert gone.removed == (rules[0],)
    assert gone.subjects == ("torch.optim.AdamW.step",)
    text = render_diff(gone)
    assert text.startswith("### `tiny_gpt`: 1 rule differs (1 removed)")
    assert "\n- Every `torch.optim.AdamW.step` changes the parameters." in text


@pytest.mark.parametrize(
    ("old", "new", "category"),
    [
        ((TRAIN,), (), "stronger"),
        ((TRAIN,), (ANYWHERE,), "stronger"),
        ((TRAIN,), (NOT_EVAL,), "stronger"),
        ((TRAIN, BF16), (TRAIN,), "stronger"),
        ((NOT_EVAL,), (TRAIN,), "weaker"),
        ((TRAIN,), (TRAIN, BF16), "weaker"),
        ((), (BF16,), "weaker"),
        ((TRAIN,), (BF16,), "changed"),
        ((NOT_EVAL,), (EXCEPT,), "stronger"),
        ((EXCEPT,), (Except((*EXCEPT.parts, Clause("rank", ("other",)))),), "stronger"),
        ((EXCEPT,), (TRAIN,), "weaker"),
        ((EXCEPT,), (Clause("rank", ("other",)),), "changed"),
        ((Clause("root", ("Net",)),), (Exists("root"),), "stronger"),
        ((Clause("root", ("Net",)),), (Exists("root", negated=True),), "changed"),
        ((Same("child", "root"),), (Same("child", "root", negated=True),), "changed"),
        ((Same("child", "root"), TRAIN), (Same("child", "root"),), "stronger"),
        ((TRAIN,), (Clause("stage", ("eval",)),), "changed"),
    ],
)
def test_other_contexts(golden: Golden, old: tuple[Condition, ...], new: tuple[Condition, ...], category: str) -> None:
    result = diff(with_rule(golden, 0, when=old), with_rule(golden, 0, when=new))
    found = {name: len(getattr(result, name)) for name in ("added", "removed", "weaker", "stronger", "changed")}
    assert found == {**dict.fromkeys(found, 0), category: 1}
    assert category.capitalize() in render_diff(result)


def test_scope_and_kind(golden: Golden) -> None:
    assert len(diff(golden, with_rule(golden, 0, scope=Scope.PINNED)).weaker) == 1
    assert len(diff(golden, with_rule(golden, 1, scope=Scope.TRANSFERABLE)).stronger) == 1
    assert len(diff(golden, with_rule(golden, 1, kind=Kind.BEHAVIOUR)).changed) == 1
    both = diff(with_rule(golden, 0, when=(), scope=Scope.PINNED), with_rule(golden, 0, when=(TRAIN,)))
    assert len(both.changed) == 1


def test_another_number_says_what_it_was(golden: Golden) -> None:
    new = with_rule(golden, 1, claim=Foreign({"parameter": "lr", "value": 0.01}), sentence="`AdamW(lr)` is 0.01.")
    result = diff(golden, new)
    assert result.changed == (Change(golden.invariants[1], new.invariants[1]),)
    assert "- `AdamW(lr)` is 0.01.\n  - was: `AdamW(lr)` is 0.001." in render_diff(result)


def test_each_number_finds_its_own_parameter(golden: Golden) -> None:
    def arguments(**values: object) -> Golden:
        base = golden.invariants[1]
        return replace(
            golden,
            invariants=tuple(
                replace(base, claim=Foreign({"parameter": name, "value": value}), sentence=f"{name} is {value}.")
                for name, value in values.items()
            ),
        )

    result = diff(arguments(lr=0.1, eps=0.2, mode="sum"), arguments(lr=0.2, eps=0.1, mode="mean"))
    assert [
        (change.old.claim.content["parameter"], change.new.claim.content["parameter"]) for change in result.changed
    ] == [
        ("eps", "eps"),
        ("lr", "lr"),
        ("mode", "mode"),
    ]
    assert not result.added
    assert not result.removed


def test_another_argument_with_the_same_value_is_another_rule(golden: Golden) -> None:
    old = with_rule(golden, 1, claim=Foreign({"argument": "amsgrad", "value": "False"}))
    new = with_rule(golden, 1, claim=Foreign({"argument": "fused", "value": "False"}))
    result = diff(old, new)
    assert (len(result.added), len(result.removed), len(result.changed)) == (1, 1, 0)


def test_an_unlike_rule_is_not_called_changed(golden: Golden) -> None:
    other = replace(
        golden.invariants[1], claim=Foreign({"parameter": "lr", "low": 0, "high": 1}), sentence="lr is in a band."
    )
    result = diff(golden, replace(golden, invariants=(*golden.invariants[:1], other, golden.invariants[2])))
    assert len(result.added) == len(result.removed) == 1


def test_hostile_sentences_stay_on_their_line(golden: Golden) -> None:
    new = with_rule(golden, 0, claim=Foreign({"x": 1}), sentence="a\n# heading\x1b[31m\u202e", subject="new\nsubject")
    text = render_diff(diff(golden, new))
    assert "- a # heading\n" in text + "\n"
    assert "\x1b" not in text
    assert "`new subject`" in text


clause = st.builds(
    Clause,
    st.sampled_from(["stage", "autocast"]),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True).map(tuple),
    st.booleans(),
)
conditions = (
    clause
    | st.builds(Exists, st.sampled_from(["stage", "root"]), st.booleans())
    | st.builds(Except, st.lists(clause, min_size=1, max_size=2).map(tuple))
)
clauses = st.lists(conditions, max_size=2).map(tuple)
rules_of_any_kind = st.lists(
    st.builds(
        Invariant,
        st.sampled_from(["R", "S"]),
        st.sampled_from(["x", "y"]),
        st.dictionaries(st.sampled_from("pq"), st.sampled_from([1, 2, "u", "v"]), max_size=2).map(Foreign),
        clauses,
        st.sampled_from(Scope),
        st.sampled_from(Kind),
        st.just("sentence"),
    ),
    max_size=8,
    unique_by=lambda rule: rule.id,
).map(tuple)


@unhurried
@given(rules_of_any_kind, rules_of_any_kind)
def test_every_difference_stands_in_one_category(old: tuple[Invariant, ...], new: tuple[Invariant, ...]) -> None:
    result = diff(Golden("p", "s", old), Golden("p", "s", new))
    changes = [*result.weaker, *result.stronger, *result.changed]
    kept = {rule.id for rule in old} & {rule.id for rule in new}
    gone = [rule.id for rule in result.removed] + [change.old.id for change in changes]
    come = [rule.id for rule in result.added] + [change.new.id for change in changes]
    assert sorted(gone) == sorted({rule.id for rule in old} - kept)
    assert sorted(come) == sorted({rule.id for rule in new} - kept)
    mirrored = diff(Golden("p", "s", new), Golden("p", "s", old))
    assert (len(mirrored.weaker), len(mirrored.stronger)) == (len(result.stronger), len(result.weaker))
    render_diff(result)


contexts = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd"), st.sampled_from(["", "a"])), min_size=1)


@unhurried
@given(clauses, clauses, contexts)
def test_stronger_is_said_only_of_what_admits_more(
    old: tuple[Condition, ...], new: tuple[Condition, ...], places: list[tuple[str, str, str]]
) -> None:
    columns = {
        name: Labels.of([("abcd".index(value) + 1) if value else 0 for value in column], ("", *"abcd"))
        for name, column in zip(("stage", "autocast", "root"), zip(*places, strict=True), strict=True)
    }
    zeros = np.zeros(len(places), dtype=np.int64)
    table = Examples(zeros == 0, zeros, zeros, zeros, columns)
    rule = Invariant("R", "s", Foreign(), old, Scope.PINNED, Kind.BEHAVIOUR, "A rule.")
    result = diff(Golden("p", "s", (rule,)), Golden("p", "s", (replace(rule, when=new),)))
    if result.stronger:
        assert not (table.where(old) & ~table.where(new)).any()
    if result.weaker:
        assert not (table.where(new) & ~table.where(old)).any()
