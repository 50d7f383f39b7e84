"""Preconditions: the weakest context that admits positive examples only."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_traincheck.golden.decode import decode
from pytest_traincheck.golden.encode import encode
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer.candidates import pins, required_support
from pytest_traincheck.infer.precondition import Precondition, weakest_preconditions
from pytest_traincheck.relations import Examples
from pytest_traincheck.relations.base import PINNED_FIELDS
from pytest_traincheck.relations.precondition_wording import when_text
from pytest_traincheck.rules.claims import Foreign
from pytest_traincheck.rules.conditions import Clause, Condition, Except, Exists, Same
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace.labels import Labels

PLAIN = ("stage", "time", "rank")
NAMES = ("root", "child", "variable")


def examples(holds: list[bool], **context: list[str]) -> Examples:
    """Examples with these columns, in the order of preference."""
    size = len(holds)
    zeros = np.zeros(size, dtype=np.int64)
    columns = {}
    for name, values in context.items():
        table = sorted(set(values))
        columns[name] = Labels.of([table.index(value) for value in values], table)
    return Examples(np.array(holds, dtype=bool), zeros, np.arange(size), zeros, columns)


def rows(*lines: tuple[int, bool, str], fields: str) -> Examples:
    """Examples as (how many, whether it holds, the values of the fields); `-` is a field without a value."""
    holds, columns = [], {name: [] for name in fields.split()}  # type: dict[str, list[str]]
    for count, positive, values in lines:
        holds += [positive] * count
        for name, value in zip(columns, values.split(), strict=True):
            columns[name] += ["" if value == "-" else value] * count
    return examples(holds, **columns)


@st.composite
def tables(draw: st.DrawFn) -> Examples:
    """Small tables in which a few rules of thumb, some of them compound, explain what holds, or chance does."""
    values = {name: ["a", "b"] for name in PLAIN} | {name: ["a", "b.1", "b.2", ""] for name in NAMES}
    fields = draw(st.lists(st.sampled_from(sorted(values)), max_size=4, unique=True))
    context: list[tuple[str, ...]] = []
    for place in product(*(values[name] for name in fields)):
        context += [place] * draw(st.sampled_from([0, 1, 6, 6]))
    context = context[:120] or [tuple(values[name][0] for name in fields)]
    columns = dict(zip(fields, map(list, zip(*context, strict=True)), strict=True))
    tests = []
    for name in draw(st.lists(st.sampled_from(fields), min_size=1, max_size=3)) if fields else []:
        other = draw(st.sampled_from([None, *fields]))
        if other is None or draw(st.integers(0, 2)):
            obeying = draw(st.sets(st.sampled_from(values[name]), min_size=1))
            tests.append([value in obeying for value in columns[name]])
        else:
            tests.append([one == two for one, two in zip(columns[name], columns[other], strict=True)])
    if not tests or draw(st.integers(0, 5)) == 0:
        return examples(draw(st.lists(st.booleans(), min_size=len(context), max_size=len(context))), **columns)
    join, negate = draw(st.sampled_from([all, any])), draw(st.booleans())
    holds = [join(column) != negate for column in zip(*tests, strict=True)]
    order = draw(st.permutations(range(len(holds)))) if draw(st.booleans()) else range(len(holds))
    return examples([holds[row] for row in order], **{n: [c[row] for row in order] for n, c in columns.items()})


TABLES = settings(max_examples=150, deadline=None)


def safe(table: Examples, when: tuple[Condition, ...]) -> bool:
    return bool(table.holds[table.where(when)].all())


@TABLES
@given(tables())
def test_admitted_examples_are_all_positive(table: Examples) -> None:
    for found in weakest_preconditions(table):
        assert found.admits.any()
        assert safe(table, found.conditions)
        assert table.where(found.conditions).tolist() == found.admits.tolist(), "what is stored is what was found"


@TABLES
@given(tables())
def test_every_condition_keeps_a_negative_example_out(table: Examples) -> None:
    for found in weakest_preconditions(table):
        for place in range(len(found.conditions)):
            assert not safe(table, found.conditions[:place] + found.conditions[place + 1 :])


@TABLES
@given(tables())
def test_every_part_of_an_exception_lets_a_positive_example_in(table: Examples) -> None:
    for found in weakest_preconditions(table):
        for condition in found.conditions:
            if isinstance(condition, Except):
                assert found.admits[table.holds].all()
                for part in condition.parts:
                    harder = table.where([Except((part,))])
                    assert (found.admits & ~harder).any()


@TABLES
@given(tables())
def test_every_alternative_adds_examples(table: Examples) -> None:
    found = weakest_preconditions(table)
    for item in found:
        others = [other.admits for other in found if other is not item]
        assert not others or (item.admits & ~np.logical_or.reduce(others)).any()
    if len(found) > 1:
        assert np.logical_or.reduce([item.admits for item in found])[table.holds].all(), "together they explain all"


@TABLES
@given(tables(), st.integers(1, 3))
def test_support_grows_with_what_is_said(table: Examples, runs: int) -> None:
    sizes = [len(part) for part in np.array_split(np.arange(len(table)), runs)]
    borders = np.cumsum([0, *sizes])
    for found in weakest_preconditions(table, sizes):
        if found.conditions:
            assert found.admits.sum() >= required_support(found.conditions)
            for low, high in pairwise(borders):
                assert found.admits[low:high].any(), "it came up in every run"


@TABLES
@given(tables())
def test_no_clause_if_and_only_if_everything_holds(table: Examples) -> None:
    found = weakest_preconditions(table)
    assert (len(found) == 1 and not found[0].conditions) == bool(table.holds.all())


@TABLES
@given(tables())
def test_nothing_is_claimed_of_what_never_held(table: Examples) -> None:
    nothing = Examples(~table.holds & table.holds, table.process, table.row, table.variable, table.context)
    assert weakest_preconditions(nothing) == ()


@TABLES
@given(tables(), st.randoms(use_true_random=False))
def test_the_order_of_examples_does_not_matter(table: Examples, random: object) -> None:
    order = list(range(len(table)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = examples(
        [bool(table.holds[place]) for place in order],
        **{name: [column[place] for place in order] for name, column in table.context.items()},
    )
    first, second = weakest_preconditions(table), weakest_preconditions(shuffled)
    assert [found.conditions for found in first] == [found.conditions for found in second]


@TABLES
@given(tables())
def test_an_unseen_name_of_a_thing_is_never_admitted(table: Examples) -> None:
    for found in weakest_preconditions(table):
        for clause in found.conditions:
            if isinstance(clause, Clause) and clause.field in PINNED_FIELDS:
                assert not clause.negated
                assert not examples([True], **{clause.field: ["never seen"]}).where([clause]).any()


@TABLES
@given(tables())
def test_what_is_found_can_be_stored_and_read_back(table: Examples) -> None:
    rules = tuple(
        Invariant("R", "s", Foreign(), found.conditions, Scope.TRANSFERABLE, Kind.BEHAVIOUR, "A rule.")
        for found in weakest_preconditions(table)
    )
    again = decode(encode(Golden("p", "s", rules)), "p.jsonl").invariants
    assert {rule.when for rule in again} == {rule.when for rule in rules}
    for rule in rules:
        assert when_text(rule.when) == "" or when_text(rule.when).startswith(", ")


def weakest_precondition(table: Examples) -> Precondition | None:
    """The only alternative."""
    found = weakest_preconditions(table)
    assert len(found) < 2, found
    return found[0] if found else None


def clauses(found: Precondition | None) -> tuple[Condition, ...]:
    assert found is not None
    return found.conditions


def alternatives(table: Examples) -> list[tuple[Condition, ...]]:
    return [found.conditions for found in weakest_preconditions(table)]


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
        [True] * 6 + [False] * 8,
        stage=["train"] * 10 + ["eval"] * 4,
        rank=["first"] * 6 + ["other"] * 4 + ["first"] * 4,
    )
    assert set(clauses(weakest_precondition(table))) == {Clause("stage", ("train",)), Clause("rank", ("first",))}


def test_a_single_sighting_is_no_evidence() -> None:
    table = examples([True, False, False, False], stage=["train", "eval", "eval", "init"])
    assert weakest_precondition(table) is None


def test_a_name_needs_more_sightings_than_a_mode() -> None:
    holds = [True] * 4 + [False] * 4
    assert weakest_precondition(examples(holds, stage=["train"] * 4 + ["eval"] * 4)) is not None
    assert weakest_precondition(examples(holds, variable=["Net.a"] * 4 + ["Net.b"] * 4)) is None
    holds = [True] * 6 + [False] * 4
    assert weakest_precondition(examples(holds, variable=["Net.a"] * 6 + ["Net.b"] * 4)) is not None
    each_twice = ["Net.a", "Net.b", "Net.c"] * 2 + ["Net.d"] * 4
    assert weakest_precondition(examples(holds, variable=each_twice)) is None


def test_a_numbered_name_shares_the_fate_of_its_siblings() -> None:
    names = ["Net.experts.1"] * 6 + ["Net.experts.2"] * 4
    table = examples([True] * 6 + [True, True, False, False], variable=names)
    assert weakest_precondition(table) is None
    told_apart = examples([True] * 6 + [True, True, False, False], variable=["Net.head"] * 6 + ["Net.experts.2"] * 4)
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
    assert when_text([Clause("variable", ("Net.a", "Net.b"))]) == ", for `Net.a`, `Net.b`"
    many = Clause("module", tuple(f"Net.{number}" for number in range(9)))
    assert when_text([many]).endswith("and 3 more like `Net.6`")
    assert when_text([Exists("root")]) == ", inside a model"
    assert when_text([Exists("optimizer", negated=True)]) == ", of no optimizer"
    assert when_text([Same("child", "root")]) == ", directly in the model"
    exception = Except((Clause("stage", ("train",)), Clause("rank", ("other",))))
    assert when_text([exception]) == ", except where it is both in training and on the other ranks"


def test_a_call_outside_every_model() -> None:
    """Without `exist`, the rule would have to list the models by name, or the call by no name at all."""
    table = rows((6, True, "train -"), (4, True, "eval -"), (6, False, "train Net"), (4, False, "eval Net"),
                 fields="stage root")  # fmt: skip
    assert alternatives(table) == [(Exists("root", negated=True),)]
    inside = rows((6, False, "train -"), (4, False, "eval -"), (6, True, "train Net"), (4, True, "eval Copy"),
                  fields="stage root")  # fmt: skip
    assert alternatives(inside) == [(Exists("root"),)]


def test_parameters_directly_in_the_model() -> None:
    """Tokens and positions that stand in no layer, in two models: no list of names would hold for a third."""
    table = rows((4, True, "vector Net Net"), (4, True, "vector Copy Copy"), (4, True, "matrix Copy Copy"),
                 (4, False, "vector Net Net.fc"), (4, False, "matrix Copy Copy.fc"),
                 fields="shape root child")  # fmt: skip
    assert alternatives(table) == [(Same("child", "root"),)]
    opposite = Examples(~table.holds, table.process, table.row, table.variable, table.context)
    assert alternatives(opposite) == [(Same("child", "root", negated=True),)]
    unseen = rows((1, True, "vector Third Third"), (1, True, "vector Third Third.fc"), fields="shape root child")
    assert unseen.where([Same("child", "root")]).tolist() == [True, False]


def test_a_disjunction_by_stage() -> None:
    """In training on all ranks, in evaluation on the first one only: no single conjunction says so."""
    table = rows((8, True, "train first -"), (8, True, "train other -"), (6, True, "eval first a"),
                 (6, False, "eval other a"), (6, False, "init first b"), (6, False, "init other b"),
                 fields="stage rank root")  # fmt: skip
    assert alternatives(table) == [
        (Clause("stage", ("train",)),),
        (Clause("stage", ("eval",)), Clause("rank", ("first",))),
    ]
    assert weakest_preconditions(table, conjunction_only=True)[0].conditions == (Clause("stage", ("train",)),)


def test_a_disjunction_explains_all_positive_examples_or_is_none() -> None:
    by_chance = rows((8, True, "train first"), (6, True, "eval first"), (6, False, "eval first"), fields="stage rank")
    assert alternatives(by_chance) == [(Clause("stage", ("train",)),)]


def test_what_only_holds_because_nothing_has_happened_yet_is_no_alternative() -> None:
    table = rows((9, True, "yes a"), (9, True, "yes b"), (9, True, "no a"), (9, False, "no b"),
                 fields="first_step root")  # fmt: skip
    assert alternatives(table) == [(Clause("root", ("a",)),)]
    by_rank = {"rank" if name == "first_step" else name: column for name, column in table.context.items()}
    lasting = Examples(table.holds, table.process, table.row, table.variable, by_rank)
    assert alternatives(lasting) == [(Clause("rank", ("yes",)),), (Clause("root", ("a",)),)]


def test_an_alternative_must_add_its_share() -> None:
    others = ((6, False, "eval other"), (6, False, "init first"), (6, False, "init other"))
    few = rows((90, True, "train first"), (90, True, "train other"), (8, True, "eval first"), *others,
               fields="stage rank")  # fmt: skip
    assert alternatives(few) == [(Clause("stage", ("train",)),)]
    enough = rows((9, True, "train first"), (9, True, "train other"), (8, True, "eval first"), *others,
                  fields="stage rank")  # fmt: skip
    assert len(alternatives(enough)) == 2


def test_an_exception_where_only_the_negative_examples_are_alike() -> None:
    """Weights are frozen at first and everything trains in the end."""
    table = rows((6, True, "last vector"), (6, True, "last matrix"), (6, True, "first vector"),
                 (6, False, "first matrix"), fields="time shape")  # fmt: skip
    exception = Except((Clause("time", ("first",)), Clause("shape", ("matrix",))))
    assert alternatives(table) == [(exception,)]
    assert not table.where([exception])[~table.holds].any()


def test_an_exception_is_shown_from_both_sides() -> None:
    """A side that no positive example shows is a guess."""
    table = rows((6, True, "last vector"), (1, True, "last matrix"), (6, True, "first vector"),
                 (6, False, "first matrix"), fields="time shape")  # fmt: skip
    assert not any(isinstance(part, Except) for when in alternatives(table) for part in when)


def test_an_exception_leaves_no_positive_example_out() -> None:
    """The negative examples are alike in three fields, and any two of them are shared by positive ones."""
    table = rows((6, True, "last vector first"), (6, True, "last matrix other"), (6, True, "first vector other"),
                 (6, True, "first matrix first"), (6, False, "first matrix other"),
                 fields="time shape rank")  # fmt: skip
    assert not any(isinstance(part, Except) for when in alternatives(table) for part in when)


def test_three_clauses_and_not_four() -> None:
    fields = "stage rank autocast backward"
    only = rows((20, True, "train first off no"), (9, False, "eval first off no"), (9, False, "train other off no"),
                (9, False, "train first on no"), fields=fields)  # fmt: skip
    assert len(alternatives(only)[0]) == 3
    four = rows((20, True, "train first off no"), (9, False, "eval first off no"), (9, False, "train other off no"),
                (9, False, "train first on no"), (9, False, "train first off yes"), fields=fields)  # fmt: skip
    assert alternatives(four) == []


def test_two_modes_are_better_than_a_list_of_names_and_a_mode() -> None:
    table = rows((9, True, "train first a"), (9, True, "train first b"), (9, False, "eval first c"),
                 (9, False, "train other c"), (9, False, "eval other a"), fields="stage rank root")  # fmt: skip
    assert alternatives(table) == [(Clause("stage", ("train",)), Clause("rank", ("first",)))]


def test_what_is_named_was_seen_in_every_run() -> None:
    """`b` came up in the first run alone: the rule is about `a`."""
    once = rows((9, True, "a"), (9, True, "b"), (9, False, "c"), fields="root")
    first, second = once, rows((9, True, "a"), (9, False, "c"), fields="root")
    both = Examples.concatenate([first, second])
    found = weakest_preconditions(both, [len(first), len(second)])
    assert [item.conditions for item in found] == [(Clause("root", ("a",)),)]
    assert weakest_preconditions(both)[0].conditions == (Clause("root", ("a", "b")),)


def test_a_condition_came_up_in_every_run() -> None:
    first = rows((8, True, "-"), (4, False, "Net"), fields="root")
    second = rows((8, False, "Net"), fields="root")
    both = Examples.concatenate([first, second])
    assert weakest_preconditions(both, [len(first), len(second)]) == ()
    assert alternatives(both) == [(Exists("root", negated=True),)]


def test_a_field_that_one_part_lacks_is_absent_there() -> None:
    one, other = rows((4, True, "train Net"), fields="stage root"), rows((4, False, "train"), fields="stage")
    table = Examples.concatenate([one, other])
    assert table.context["root"].values == ("Net", "")
    assert alternatives(table) == [(Exists("root"),)]
    assert not table.where([Clause("root", ("Copy",), negated=True)])[4:].any(), "no root is not another root"


def test_names_pin_and_shapes_do_not() -> None:
    assert pins(Clause("root", ("Net",)))
    assert not any(map(pins, (Exists("root"), Same("child", "root"), Clause("stage", ("train",)))))
    assert required_support([Clause("stage", ("train",))]) == 4
    assert required_support([Clause("root", ("Net",))]) == 6
    assert required_support([Except((Clause("stage", ("a",)), Clause("rank", ("b",))))]) == 6


def test_two_fields_without_a_value_are_not_the_same() -> None:
    table = rows((1, True, "- -"), (1, True, "Net Net"), (1, True, "Net -"), fields="child root")
    assert table.where([Same("child", "root")]).tolist() == [False, True, False]
    assert table.where([Same("child", "root", negated=True)]).tolist() == [False, False, False]


def test_many_names_hide_no_simple_condition() -> None:
    """No two examples have the same context, and there are far more combinations of names than examples."""
    names = [f"Net.{number}" for number in range(40)]
    table = examples([True, False] * 20, stage=["train", "eval"] * 20, child=names, variable=names[::-1])
    assert alternatives(table) == [(Clause("stage", ("train",)),)]
