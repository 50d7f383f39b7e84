"""Preconditions: the weakest context that admits positive examples only."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_traincheck.golden.model import Clause
from pytest_traincheck.infer.precondition import Precondition, weakest_precondition
from pytest_traincheck.infer.wording import when_text
from pytest_traincheck.relations import Examples
from pytest_traincheck.relations.base import PINNED_FIELDS
from pytest_traincheck.trace.labels import Labels

FIELDS = ("stage", "first_step", "rank", "root", "variable")


def examples(holds: list[bool], **context: list[str]) -> Examples:
    """Examples with these columns, in the order of preference."""
    size = len(holds)
    zeros = np.zeros(size, dtype=np.int64)
    columns = {}
    for name, values in context.items():
        table = sorted(set(values))
        columns[name] = Labels.of([table.index(value) for value in values], table)
    return Examples(np.array(holds, dtype=bool), zeros, np.arange(size), zeros, columns)


@st.composite
def tables(draw: st.DrawFn) -> Examples:
    """Small tables in which fields explain, half explain, or do not explain what holds."""
    size = draw(st.integers(1, 40))
    context: dict[str, list[str]] = {
        name: draw(st.lists(st.sampled_from(["a", "b", "c.1", "c.2"]), min_size=size, max_size=size))
        for name in draw(st.lists(st.sampled_from(FIELDS), unique=True, max_size=4))
    }
    if context and draw(st.booleans()):
        name = draw(st.sampled_from(sorted(context)))
        obeying = draw(st.sets(st.sampled_from(["a", "b", "c.1", "c.2"])))
        return examples([value in obeying for value in context[name]], **context)
    return examples(draw(st.lists(st.booleans(), min_size=size, max_size=size)), **context)


@settings(max_examples=300, deadline=None)
@given(tables())
def test_admitted_examples_are_all_positive(table: Examples) -> None:
    found = weakest_precondition(table)
    if found is not None:
        assert found.admits.any()
        assert table.holds[found.admits].all()
        assert table.where(found.clauses).tolist() == found.admits.tolist(), "what is stored is what was found"


@settings(max_examples=200, deadline=None)
@given(tables())
def test_no_clause_if_and_only_if_everything_holds(table: Examples) -> None:
    found = weakest_precondition(table)
    assert (found is not None and not found.clauses) == bool(table.holds.all())


@settings(max_examples=200, deadline=None)
@given(tables())
def test_nothing_is_claimed_of_what_never_held(table: Examples) -> None:
    nothing = Examples(~table.holds & table.holds, table.process, table.row, table.variable, table.context)
    assert weakest_precondition(nothing) is None


@settings(max_examples=200, deadline=None)
@given(tables(), st.randoms(use_true_random=False))
def test_the_order_of_examples_does_not_matter(table: Examples, random: object) -> None:
    order = list(range(len(table)))
    random.shuffle(order)  # type: ignore[attr-defined]
    rows = np.array(order, dtype=np.int64)
    shuffled = Examples(
        table.holds[rows],
        table.process[rows],
        table.row[rows],
        table.variable[rows],
        {name: column.take(rows) for name, column in table.context.items()},
    )
    first, second = weakest_precondition(table), weakest_precondition(shuffled)
    assert (first and first.clauses) == (second and second.clauses)


@settings(max_examples=200, deadline=None)
@given(tables())
def test_an_unseen_name_of_a_thing_is_never_admitted(table: Examples) -> None:
    found = weakest_precondition(table)
    if found is not None:
        for clause in found.clauses:
            if clause.field in PINNED_FIELDS:
                assert not clause.negated
                assert not examples([True], **{clause.field: ["never seen"]}).where([clause]).any()


def clauses(found: Precondition | None) -> tuple[Clause, ...]:
    assert found is not None
    return found.clauses


def test_one_clause_with_the_meaning_that_comes_first() -> None:
    stage = ["train"] * 4 + ["eval"] * 4
    table = examples([True] * 4 + [False] * 4, stage=stage, module=["Net.a"] * 4 + ["Net.b"] * 4)
    assert clauses(weakest_precondition(table)) == (Clause("stage", ("train",)),)


def test_the_field_that_keeps_all_positives_is_better_than_an_earlier_one_that_keeps_some() -> None:
    table = examples(
        [True, True, True, True, False, False],
        stage=["train", "train", "init", "init", "init", "eval"],
        training=["on", "on", "on", "on", "off", "off"],
    )
    assert clauses(weakest_precondition(table)) == (Clause("training", ("on",)),)


def test_the_shorter_form_is_an_exception() -> None:
    stage = ["init"] * 3 + ["train"] * 3 + ["eval"] * 3
    table = examples([True] * 6 + [False] * 3, stage=stage)
    assert clauses(weakest_precondition(table)) == (Clause("stage", ("eval",), negated=True),)


def test_two_clauses_where_one_does_not_do() -> None:
    table = examples(
        [True] * 4 + [False] * 8,
        stage=["train"] * 8 + ["eval"] * 4,
        rank=["first"] * 4 + ["other"] * 4 + ["first"] * 4,
    )
    assert set(clauses(weakest_precondition(table))) == {Clause("stage", ("train",)), Clause("rank", ("first",))}


def test_a_single_sighting_is_no_evidence() -> None:
    table = examples([True, False, False, False], stage=["train", "eval", "eval", "init"])
    assert weakest_precondition(table) is None


def test_a_name_needs_more_sightings_than_a_mode() -> None:
    holds = [True, True, False, False, False, False]
    assert weakest_precondition(examples(holds, stage=["train"] * 2 + ["eval"] * 4)) is not None
    assert weakest_precondition(examples(holds, variable=["Net.a"] * 2 + ["Net.b"] * 4)) is None


def test_a_numbered_name_shares_the_fate_of_its_siblings() -> None:
    names = ["Net.experts.1"] * 4 + ["Net.experts.2"] * 4
    table = examples([True] * 4 + [True, True, False, False], variable=names)
    assert weakest_precondition(table) is None
    told_apart = examples([True] * 4 + [True, True, False, False], variable=["Net.head"] * 4 + ["Net.experts.2"] * 4)
    assert clauses(weakest_precondition(told_apart)) == (Clause("variable", ("Net.head",)),)


def test_a_small_remainder_does_not_save_a_hypothesis() -> None:
    """Where the clause would keep only a sliver of the positives, the negatives are explained away."""
    stage = ["train"] * 40 + ["init"] * 4
    holds = [True, False] * 20 + [True] * 4
    assert weakest_precondition(examples(holds, stage=stage)) is None


def test_a_field_that_the_examples_lack_admits_nothing() -> None:
    table = examples([True, True], stage=["train", "train"])
    assert not table.where([Clause("autocast", ("off",))]).any()
    assert table.where([]).all()


def test_preconditions_read_as_prose() -> None:
    assert when_text(()) == ""
    assert when_text([Clause("stage", ("train",)), Clause("rank", ("first",))]) == ", in training, on rank 0"
    assert when_text([Clause("stage", ("eval",), negated=True)]) == ", except in evaluation"
    assert when_text([Clause("variable", ("Net.a", "Net.b"))]) == ", `Net.a`, `Net.b`"
    many = Clause("module", tuple(f"Net.{number}" for number in range(9)))
    assert when_text([many]).endswith("and 3 more like `Net.6`")
