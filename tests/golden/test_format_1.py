"""Goldens of format 1 go on working: they say the same, and what named their rules still does."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_claims_hostile import RULES, variants
from training_story import Loop, Recorder

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.check.result import Incident, Violation, incident_id
from pytest_traincheck.config import Accept
from pytest_traincheck.golden import format_1
from pytest_traincheck.golden.decode import decode
from pytest_traincheck.golden.diff import diff
from pytest_traincheck.golden.encode import encode
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.format_1 import former, ids_of, translated
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.relations.stored import read_golden, with_claims
from pytest_traincheck.rules.claims import Foreign, to_json
from pytest_traincheck.rules.model import Invariant
from pytest_traincheck.workflow.policy import Rules
from pytest_traincheck.workflow.refresh_intent import Acceptance, is_meant

STORED = Path(__file__).parent / "format_1" / "ddp.jsonl"
"""A golden as it was committed while there was no other format."""

WORDED = {
    "APIOutput": 1,
    "Covered": 5,
    "DataFlow": 1,
    "EventContain": 2,
}
"""Rules in it that had English in their claims, by relation; all others keep their ids."""


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[1:]]


def as_format_1(golden: Golden) -> bytes:
    """The file of a golden as it was written in format 1."""
    rules = tuple(former(rule) for rule in golden.invariants)
    return encode(replace(golden, invariants=rules)).replace(b'"format": 2', b'"format": 1', 1)


def test_a_stored_golden_says_what_it_said() -> None:
    rules = read_golden(STORED).invariants
    for rule, line in zip(rules, lines_of(STORED), strict=True):
        assert not isinstance(rule.claim, Foreign)
        assert ids_of(rule)[-1] == line["id"]
        assert (rule.relation, rule.subject, rule.sentence) == (line["relation"], line["subject"], line["sentence"])
        assert (rule.scope.value, rule.kind.value) == (line["scope"], line["kind"])
        assert rule.examples == line["support"]["examples"]
    worded = [rule.relation for rule in rules if len(ids_of(rule)) == 2]
    assert {name: worded.count(name) for name in sorted(set(worded))} == WORDED


def test_it_is_written_in_format_2_with_no_difference(tmp_path: Path) -> None:
    old = read_golden(STORED)
    path = tmp_path / "ddp.jsonl"
    path.write_bytes(encode(old))
    new = read_golden(path)
    assert new == old
    assert diff(old, new).is_empty
    assert path.read_bytes().startswith(b'{"format": 2, ')
    # The other way round nothing is lost either.
    assert as_format_1(new) == STORED.read_bytes()


@pytest.mark.parametrize("text", [text for codes in format_1.CODES.values() for text in codes])
def test_no_words_are_left_in_claims_that_had_some(text: str) -> None:
    found = json.dumps([to_json(rule.claim) for rule in read_golden(STORED).invariants])
    assert json.dumps(text)[1:-1] not in found


def test_every_code_has_been_one_text() -> None:
    for codes in format_1.CODES.values():
        assert len(set(codes.values())) == len(codes)
        assert not codes.keys() & set(codes.values())


BROKEN: dict[str, dict[str, Any]] = {
    "a gradient never arrives": {"unreached": ("fc2.weight",)},
    "a parameter is frozen": {"frozen": ("fc2.weight",)},
    "a parameter is in no optimizer": {"held": ("fc1.weight",)},
    "another rate": {"lr": 0.5},
}


@pytest.mark.parametrize("bug", BROKEN)
def test_a_check_finds_the_same_with_either_format(recorder: Recorder, bug: str) -> None:
    golden = recorder.golden(Loop())
    before = with_claims(decode(as_format_1(golden), "story.jsonl"), "story.jsonl")
    run = recorder.record(Loop().but(**BROKEN[bug]))
    one, other = (check_run(item, run, same_spec=True) for item in (golden, before))
    assert one.incidents
    assert one.incidents == other.incidents
    assert one.verdicts == other.verdicts


def worded() -> Invariant:
    return next(rule for rule in read_golden(STORED).invariants if rule.relation == "Covered")


def broken(rule: Invariant) -> Incident:
    root = Violation(rule, "It is broken.", "held", "not held", 2, "train", (0,), 7)
    return Incident(incident_id(root), 1, root)


DAY = datetime.date(2026, 7, 1)


@pytest.mark.parametrize("glob", ["{}", "{}*"])
def test_an_exception_on_file_that_names_the_former_id_still_holds(glob: str) -> None:
    rule = worded()
    today, before = ids_of(rule)
    for identity in (today, before):
        accept = Accept(glob.format(identity), "ml-infra", "known", DAY)
        assert Rules((accept,), {}, DAY).excuse(rule).startswith("accepted until")
    assert not Rules((Accept("0" * 12, "ml-infra", "known", DAY),), {}, DAY).excuse(rule)


def test_a_refresh_takes_the_former_ids_of_rules_and_incidents() -> None:
    incident = broken(worded())
    assert is_meant(incident, Acceptance(names=(ids_of(worded())[-1],)))
    was = broken(former(worded())).id
    assert was != incident.id
    assert incident.ids == (incident.id, was)
    assert is_meant(incident, Acceptance(names=(was,)))
    assert not is_meant(incident, Acceptance(names=("0" * 12,)))


def test_a_rule_without_words_has_one_id() -> None:
    plain = next(rule for rule in read_golden(STORED).invariants if rule.relation == "Count")
    assert ids_of(plain) == (plain.id,)
    assert broken(plain).ids == (broken(plain).id,)


@pytest.mark.fault(
    area="Goldens",
    tried="a file of format 1 with a claim edited by hand",
    happens="one error that names file and line, exit status 2",
)
def test_a_claim_of_format_1_that_was_edited() -> None:
    data = STORED.read_bytes().replace(b"these parameters are trainable", b"these parameters are frozen", 1)
    with pytest.raises(GoldenError, match=r"ddp\.jsonl, line \d+: the id .* the line was edited by hand"):
        decode(data, "ddp.jsonl")


@pytest.mark.parametrize("name", RULES)
def test_whatever_a_claim_holds_is_translated_or_left_alone(name: str) -> None:
    rule = RULES[name]
    for claim in variants(to_json(former(rule).claim)):
        found = translated(replace(rule, claim=Foreign(claim)))
        assert isinstance(found.claim, Foreign)
        assert len(ids_of(found)) in (1, 2)
