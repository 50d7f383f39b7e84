"""What is written is read back, and written again it is the same file to the byte."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_traincheck.golden import store
from pytest_traincheck.golden.decode import decode
from pytest_traincheck.golden.encode import encode
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.rules.claims import Foreign
from pytest_traincheck.rules.conditions import Clause, Except, Exists, Same
from pytest_traincheck.rules.model import Invariant, Kind, Scope

# A busy machine is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
clauses = st.builds(Clause, text, st.lists(text, max_size=3).map(tuple), st.booleans())
conditions = (
    clauses
    | st.builds(Exists, text, st.booleans())
    | st.builds(Same, text, text, st.booleans())
    | st.builds(Except, st.lists(clauses, min_size=1, max_size=3).map(tuple))
)
invariants = st.builds(
    Invariant,
    relation=text,
    subject=text,
    claim=st.dictionaries(text, values, max_size=4).map(Foreign),
    when=st.lists(conditions, max_size=3).map(tuple),
    scope=st.sampled_from(Scope),
    kind=st.sampled_from(Kind),
    sentence=text,
    examples=st.integers(0, 10**9),
    runs=st.integers(0, 100),
)
goldens = st.builds(
    Golden,
    pipeline=text,
    spec=text,
    invariants=st.lists(invariants, max_size=4, unique_by=lambda rule: rule.id).map(tuple),
    commit=text,
    environment=st.dictionaries(text, text, max_size=3),
    seeds=st.lists(st.integers(), max_size=3).map(tuple),
    runs=st.integers(0, 100),
    reason=text,
    models=st.dictionaries(
        text, st.dictionaries(text, st.lists(st.integers(0, 9), max_size=3), max_size=2), max_size=2
    ),
    optimizers=st.dictionaries(text, st.dictionaries(text, values, max_size=2), max_size=2),
    ignores_seed=st.booleans(),
    extensions=st.dictionaries(text, text, max_size=2),
    arguments=st.dictionaries(text, st.lists(text, max_size=3), max_size=2),
)


@unhurried
@given(goldens)
def test_any_golden_survives_to_the_byte(golden: Golden) -> None:
    data = encode(golden)
    again = decode(data, "golden.jsonl")
    assert encode(again) == data
    assert sorted(again.invariants, key=lambda rule: rule.id) == sorted(golden.invariants, key=lambda rule: rule.id)
    assert replace(again, invariants=()) == replace(golden, invariants=())
    assert data.endswith(b"\n")
    assert data.count(b"\n") == len(golden.invariants) + 1


def test_the_order_of_rules_and_keys_does_not_matter(golden: Golden, tmp_path: Path) -> None:
    path = tmp_path / "store" / "tiny_gpt.jsonl"
    store.write(path, golden)
    first = path.read_bytes()
    rules = [replace(rule, claim=Foreign(dict(reversed(rule.claim.content.items())))) for rule in golden.invariants]
    random.Random(0).shuffle(rules)
    environment = dict(reversed(golden.environment.items()))
    store.write(path, replace(golden, invariants=tuple(rules), environment=environment))
    assert path.read_bytes() == first
    assert store.read(path).invariants == tuple(sorted(golden.invariants, key=lambda rule: rule.subject))


def test_lines_read_as_prose(golden: Golden, tmp_path: Path) -> None:
    path = tmp_path / "tiny_gpt.jsonl"
    store.write(path, golden)
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    keys = "format pipeline spec commit environment seeds runs invariants reason models optimizers"
    assert list(json.loads(header)) == keys.split()
    assert json.loads(header)["invariants"] == 3
    keys = "id relation subject sentence scope kind claim when support"
    assert [list(json.loads(line)) for line in lines] == [keys.split()] * 3
    assert "Dropout „ruht“ in eval." in lines[0]


def test_a_changed_rule_changes_one_line(golden: Golden) -> None:
    rules = list(golden.invariants)
    rules[1] = replace(rules[1], claim=Foreign({"parameter": "lr", "value": 0.01}), sentence="`AdamW(lr)` is 0.01.")
    before = encode(golden).splitlines()
    after = encode(replace(golden, invariants=tuple(rules))).splitlines()
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 1


@pytest.mark.parametrize(
    "claim",
    [
        {"value": float("nan")},
        {"value": float("inf")},
        {"value": {1: "one"}},
        {"value": "\ud800"},
        {"value": np.int64(3)},
        {"value": object()},
    ],
)
def test_what_cannot_be_read_back_is_not_written(golden: Golden, tmp_path: Path, claim: dict[str, object]) -> None:
    path = tmp_path / "tiny_gpt.jsonl"
    store.write(path, golden)
    before = path.read_bytes()
    with pytest.raises(GoldenError, match="Cannot store the rule 'Dropout"):
        store.write(path, replace(golden, invariants=(replace(golden.invariants[2], claim=Foreign(claim)),)))
    assert path.read_bytes() == before


def test_one_claim_twice_is_refused(golden: Golden) -> None:
    twice = (*golden.invariants, replace(golden.invariants[0], sentence="the same in other words"))
    with pytest.raises(GoldenError, match="Two rules claim the same thing"):
        encode(replace(golden, invariants=twice))


def test_conditions_read_as_prose(golden: Golden) -> None:
    both = Except((Clause("stage", ("eval",)), Clause("rank", ("other",))))
    when = (Exists("root"), Same("module", "root", negated=True), both)
    text = encode(replace(golden, invariants=(replace(golden.invariants[0], when=when),))).decode().splitlines()[1]
    assert (
        '"when": [{"field": "root", "exists": true}, {"field": "module", "differs_from": "root"}, '
        '{"except": [{"field": "stage", "in": ["eval"]}, {"field": "rank", "in": ["other"]}]}]'
    ) in text


def test_committed_goldens_keep_their_ids() -> None:
    """The ids are checked while reading, so a form of conditions that changed would be refused."""
    for path in sorted((Path(__file__).parents[2] / "golden_invariants").glob("*.jsonl")):
        assert encode(decode(path.read_bytes(), path.name)) == path.read_bytes()
