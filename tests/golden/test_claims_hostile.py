"""A claim that no relation wrote is refused where the golden is read, and what is not refused can be evaluated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from training_story import Loop, Training

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.cli import main
from pytest_traincheck.golden import store
from pytest_traincheck.golden.encode import encode
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.relations import relations
from pytest_traincheck.relations.claims import ClaimError
from pytest_traincheck.relations.stored import claim_of, read_golden, with_claims
from pytest_traincheck.rules.claims import Foreign, to_json
from pytest_traincheck.rules.conditions import Clause, Except, Exists, Same
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Run, load_run

ROOT = Path(__file__).resolve().parents[2]
STORED = sorted((ROOT / "golden_invariants").glob("*.jsonl"))

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 3, 10**30, 2**63, 1e308, -0.5, "", "x", "1", "-", "[1]", "\x1b[31m", "a" * 5000),
    *([], ["x"], [1], [[]], [None], [["a", "b"]], {}, {"x": 1}, {"tensor": {}}, {"type": "x"}, {"in": []}),
)


def kinds_of_rules() -> dict[str, Invariant]:
    """One rule of each relation and set of keys that a golden of this repository has, by a name for the two."""
    rules = (rule for path in STORED for rule in read_golden(path).invariants)
    return {f"{rule.relation}({', '.join(sorted(to_json(rule.claim)))})": rule for rule in rules}


RULES = kinds_of_rules()


def variants(claim: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key, value in claim.items():
        yield {name: other for name, other in claim.items() if name != key}
        for wrong in VALUES:
            yield {**claim, key: wrong}
            if isinstance(value, list):
                yield {**claim, key: [wrong, *value[1:]]}
                yield {**claim, key: [*value, wrong]}
            if isinstance(value, dict):
                yield {**claim, key: {**value, "x": wrong}}
    yield {**claim, "unheard of": 1}
    yield {}
    yield from (to_json(rule.claim) for rule in RULES.values())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    training = Training(tmp_path_factory.mktemp("run"))
    Loop(steps=3).tell(training)
    return load_run(training.write().parent)


def test_every_relation_says_what_its_claims_look_like() -> None:
    for name, relation in relations().items():
        assert relation.claims, name


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_goldens_of_this_repository_are_taken(path: Path) -> None:
    assert len(read_golden(path).invariants) == len(store.read(path).invariants)


@pytest.mark.fault(
    area="Goldens",
    tried=f"{{name}}: each key left out, {len(VALUES)} other values, unknown keys, claims of other relations",
    happens="one error that names file, line and key, exit status 2; what fits is evaluated without a traceback",
)
@pytest.mark.parametrize("name", RULES)
def test_claims_that_no_relation_wrote(name: str, run: Run) -> None:
    rule = RULES[name]
    taken = []
    for claim in variants(to_json(rule.claim)):
        bad = replace(rule, claim=Foreign(claim))
        try:
            typed = claim_of(rule.relation, claim)
        except ClaimError as error:
            wrong = str(error)
        else:
            # Whatever is taken is written again as it stood there, under the same id.
            assert to_json(typed) == claim
            taken.append(replace(rule, claim=typed))
            assert taken[-1].id == bad.id
            continue
        with pytest.raises(GoldenError, match=r"^g\.jsonl, line 2: the claim is none of ") as caught:
            with_claims(Golden("story", "s", (bad,)), "g.jsonl")
        assert wrong in str(caught.value)
        assert "traincheck refresh" in str(caught.value)
    golden = Golden("story", "s", tuple({bad.id: bad for bad in taken}.values()))
    check_run(golden, run, same_spec=True)


WHEN = {
    "a field that no context has": (Clause("weather", ("fine",)),),
    "a value that no context has": (Clause("stage", ("sleep",)),),
    "no value at all": (Clause("stage", ()),),
    "everything but one stage, twice": (Clause("stage", ("train",), negated=True),) * 2,
    "a field that exists nowhere": (Exists("weather"),),
    "a field that is the same as none": (Same("stage", "weather"),),
    "a field that is the same as itself": (Same("stage", "stage"),),
    "all but what nothing is": (Except((Clause("weather", ("fine",)),)),),
    "a thousand conditions": (Clause("stage", ("train",)),) * 1000,
    "escape sequences": (Clause("\x1b[2J", ("\x1b[31m",)),),
}


@pytest.mark.fault(
    area="Goldens",
    tried="a condition: {name}",
    happens="evaluated; a rule that never applies is listed as not triggered",
)
@pytest.mark.parametrize("name", WHEN)
def test_conditions_that_no_one_learned(name: str, run: Run) -> None:
    rules = tuple(replace(rule, when=WHEN[name]) for rule in RULES.values())
    golden = Golden("story", "s", tuple({rule.id: rule for rule in rules}.values()))
    outcome = check_run(golden, run, same_spec=True)
    assert len(outcome.verdicts) == len(golden.invariants)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    rule = Invariant("Count", "torch.optim.SGD.step", Foreign({"api": 3, "per": "step", "times": "once"}), (),
                     Scope.TRANSFERABLE, Kind.BEHAVIOUR, "It is called.", 3, 1)  # fmt: skip
    path = tmp_path / "g.jsonl"
    path.write_bytes(encode(Golden("g", "s", (rule,))))
    return path


@pytest.mark.fault(
    area="Goldens",
    tried="a claim of another type: {command}",
    happens="one error that names file, line and key, status 2",
)
@pytest.mark.parametrize("command", ["show", "diff", "check"])
def test_every_command_says_so(
    command: str, hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traincheck.toml").write_text('store = "."\n[pipelines.g]\nrun = "true"\n')
    arguments = {"show": [str(hostile)], "diff": [str(STORED[0]), str(hostile)], "check": ["g"]}[command]
    assert main([command, *arguments]) == 2
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    assert f"{hostile}, line 2: the claim is none of Count: `api` is 3 and not a text." in shown


def test_a_relation_that_is_not_installed_is_kept(tmp_path: Path) -> None:
    rule = json.loads(encode(Golden("g", "s", (RULES["Carried(optimizer)"],))).splitlines()[1])
    foreign = Invariant("Entropy", rule["subject"], Foreign({"x": [1]}), (), Scope.PINNED, Kind.BEHAVIOUR, "It falls.")
    path = tmp_path / "g.jsonl"
    path.write_bytes(encode(Golden("g", "s", (foreign,))))
    assert read_golden(path).invariants[0].claim == Foreign({"x": [1]})
