"""Parts of models and renamed attributes are found by names and shapes, and placed where the golden has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_traincheck.alignment.attributes import find_renamed
from pytest_traincheck.alignment.parts import find_parts
from pytest_traincheck.alignment.placement import Models, Move, Placement, Relocation

NOTHING: frozenset[str] = frozenset()


def parts(golden: Models, candidate: Models, trained: frozenset[str] = NOTHING, held: str = "") -> set[Move]:
    """What is moved when no whole model has another name; `held` begins the names that an optimizer holds."""
    names = {(root, name) for root in candidate for name in candidate[root] if held and name.startswith(held)}
    return set(find_parts(golden, candidate, {}, trained, frozenset(names)))


def layer(size: int, prefix: str = "") -> dict[str, list[int]]:
    return {f"{prefix}weight": [size, size], f"{prefix}bias": [size]}


def test_a_part_that_is_a_model_of_golden_is_moved() -> None:
    golden = {"Net": layer(3, "fc.")}
    assert parts(golden, {"Wrapper": layer(3, "model.fc.")}) == {Move("Wrapper", "model", "Net", "")}
    assert parts(golden, {"Wrapper": layer(3, "a.b.fc.")}) == {Move("Wrapper", "a.b", "Net", "")}
    assert parts({"Wrapper": layer(3, "model.fc.")}, golden) == {Move("Net", "", "Wrapper", "model")}


def test_models_that_are_alike_stay_where_they_are() -> None:
    golden = {"Net": layer(3, "fc."), "Head": layer(3)}
    assert parts(golden, golden) == set()
    # The layer of `Net` is no `Head`, however much it looks like one.
    assert parts(golden, {"Net": layer(3, "fc.")}) == set()


def test_a_part_of_other_shapes_is_another_model() -> None:
    assert parts({"Net": layer(3, "fc.")}, {"Wrapper": layer(4, "model.fc.")}) == set()


def test_what_is_added_to_a_model_of_golden_may_be_another_of_its_models() -> None:
    golden = {"Net": layer(3, "fc."), "Head": layer(2)}
    assert parts(golden, {"Net": {**layer(3, "fc."), **layer(2, "head.")}}) == {Move("Net", "head", "Head", "")}


@pytest.mark.parametrize("held", ["online", "target"])
def test_models_that_look_alike_are_told_apart_by_what_optimizers_hold(held: str) -> None:
    golden = {"Net": layer(3, "fc."), "Net#1": layer(3, "fc.")}
    candidate = {"Both": {**layer(3, "online.fc."), **layer(3, "target.fc.")}}
    other = {"online": "target", "target": "online"}[held]
    expected = {Move("Both", held, "Net#1", ""), Move("Both", other, "Net", "")}
    assert parts(golden, candidate, frozenset({"Net#1"}), held) == expected


def test_models_that_look_alike_are_told_apart_by_their_names() -> None:
    golden = {"Key": layer(3, "fc."), "Query": layer(3, "fc.")}
    candidate = {"Both": {**layer(3, "query_.fc."), **layer(3, "key.fc.")}}
    assert parts(golden, candidate) == {Move("Both", "key", "Key", ""), Move("Both", "query_", "Query", "")}


SHAPES = st.lists(st.integers(1, 5), max_size=2)
NAMES = st.lists(st.sampled_from(["a", "b1", "b2", "0", "1", "2"]), min_size=1, max_size=3).map(".".join)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, list[int]]:
    """Parameters of a model; no parameter has the name of a module."""
    found: dict[str, list[int]] = {}
    for name, shape in draw(st.dictionaries(NAMES, SHAPES, min_size=1, max_size=8)).items():
        found[f"{name}.weight"] = shape
    return found


@given(st.lists(trees(), min_size=1, max_size=3, unique_by=lambda tree: str(sorted(tree.items()))))
def test_what_is_put_into_one_module_is_found_where_golden_has_it(models: list[dict[str, list[int]]]) -> None:
    golden = {f"Net{number}_": tree for number, tree in enumerate(models)}
    whole = {f"net{number}_.{name}": shape for number, tree in enumerate(models) for name, shape in tree.items()}
    moves = find_parts(golden, {"Whole": whole}, {}, NOTHING, frozenset())
    placed = Placement((Relocation(moves),)).models({"Whole": whole})
    # A model that looks like a part of another one may be taken for that part.
    assert placed.keys() & golden.keys()
    if len(models) == 1:
        assert placed == golden


@given(trees(), trees())
def test_renaming_loses_nothing(golden: dict[str, list[int]], candidate: dict[str, list[int]]) -> None:
    moves = find_renamed({"Net": golden}, {"Net": candidate})
    placed = Placement((Relocation(moves),)).models({"Net": candidate})["Net"]
    assert sorted(map(str, placed.values())) == sorted(map(str, candidate.values()))
    if golden == candidate:
        assert not moves


def renamed(golden: dict[str, list[int]], candidate: dict[str, list[int]]) -> dict[str, str]:
    moves = find_renamed({"Net": golden}, {"Net": candidate})
    assert {move.root for move in moves} | {move.golden_root for move in moves} <= {"Net"}
    return {move.path: move.golden_path for move in moves}


def test_the_only_attribute_of_its_kind_is_followed() -> None:
    assert renamed({**layer(2, "a."), **layer(3, "fc1.")}, {**layer(2, "a."), **layer(3, "hidden.")}) == {
        "hidden": "fc1"
    }
    deep = renamed({**layer(2, "body.a."), **layer(3, "body.b.")}, {**layer(2, "body.a."), **layer(3, "body.c.")})
    assert deep == {"body.c": "body.b"}
    container = renamed({**layer(2, "old.a."), **layer(3, "old.b.x.")}, {**layer(2, "new.a."), **layer(3, "new.b.x.")})
    assert container == {"new": "old"}


def test_a_single_parameter_is_followed() -> None:
    assert renamed({"scale": [3], **layer(2, "fc.")}, {"gain": [3], **layer(2, "fc.")}) == {"gain": "scale"}


def test_a_parameter_that_became_two_is_not_renamed() -> None:
    assert renamed({"fc.weight": [3, 2]}, {"fc.weight_g": [3, 1], "fc.weight_v": [3, 2]}) == {}


def test_numbers_that_moved_up_keep_their_order() -> None:
    golden = {**layer(2, "0."), **layer(3, "1."), **layer(2, "3.")}
    assert renamed(golden, {**layer(2, "1."), **layer(3, "2."), **layer(2, "5.")}) == {"1": "0", "2": "1", "5": "3"}


def test_alike_and_numbered_attributes_go_by_their_numbers() -> None:
    golden = {name: shape for number in (1, 2, 10) for name, shape in layer(2, f"fc{number}.").items()}
    candidate = {name: shape for number in (0, 1, 2) for name, shape in layer(2, f"layer{number}.").items()}
    assert renamed(golden, candidate) == {"layer0": "fc1", "layer1": "fc2", "layer2": "fc10"}


@pytest.mark.parametrize(
    "candidate",
    [
        {**layer(2, "c."), **layer(2, "d.")},
        layer(2, "c."),
        {**layer(2, "a."), **layer(3, "c.")},
        {**layer(2, "c."), **layer(2, "d."), **layer(2, "e.")},
    ],
    ids=["two for two", "one for two", "other shapes", "three for two"],
)
def test_without_a_single_answer_names_stay(candidate: dict[str, list[int]]) -> None:
    assert renamed({**layer(2, "a."), **layer(2, "b.")}, candidate) == {}


def test_one_layer_more_in_a_row_of_equal_ones_renames_none() -> None:
    golden = {name: shape for number in range(3) for name, shape in layer(2, f"{number}.").items()}
    assert renamed(golden, {**golden, **layer(2, "3.")}) == {}
    assert renamed({**golden, **layer(2, "7.")}, {**golden, **layer(2, "3.")}) == {"3": "7"}


def test_a_name_that_was_given_away_is_marked() -> None:
    step = Relocation((Move("Net", "1", "Net", "0"), Move("Net", "2", "Net", "1")))
    assert [step.place("Net", path) for path in ("0", "0.weight", "1.weight", "2.weight", "3")] == [
        ("Net", "0 (new)"),
        ("Net", "0 (new).weight"),
        ("Net", "0.weight"),
        ("Net", "1.weight"),
        ("Net", "3"),
    ]


def test_what_moves_with_its_module_takes_no_name_that_a_sibling_was_given() -> None:
    """Activations lie between the layers of a list that golden had without them."""
    step = Relocation((Move("Net", "trunk", "Net", "layers"), Move("Net", "trunk.2", "Net", "layers.1")))
    assert [step.place("Net", path) for path in ("trunk.0", "trunk.1", "trunk.2", "trunk.2.weight", "trunk.3")] == [
        ("Net", "layers.0"),
        ("Net", "layers.1 (new)"),
        ("Net", "layers.1"),
        ("Net", "layers.1.weight"),
        ("Net", "layers.3"),
    ]
