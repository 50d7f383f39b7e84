"""What relations name of what may be left out of an observation is all that they read of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from real_training import Real, golden_of, recorded  # noqa: E402
from test_every_relation import BREAKS, SEEDS, Break  # noqa: E402

from pytest_traincheck.check.evaluate import check_run  # noqa: E402
from pytest_traincheck.check.result import CheckResult, Verdict  # noqa: E402
from pytest_traincheck.check.serialise import to_plain  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.looks import EVERYTHING  # noqa: E402
from pytest_traincheck.relations import looks_of, relations  # noqa: E402
from pytest_traincheck.relations.base import is_replayed, says_what_it_reads  # noqa: E402
from pytest_traincheck.rules.claims import Foreign  # noqa: E402
from pytest_traincheck.trace import Run  # noqa: E402


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Break], Golden]:
    found: dict[str, Golden] = {}

    def learned(wrong: Break) -> Golden:
        key = ", ".join(sorted(wrong.golden))
        if key not in found:
            found[key] = golden_of(Real(**wrong.golden), tmp_path_factory.mktemp("golden"), seeds=SEEDS)
        return found[key]

    return learned


def said(golden: Golden, run: Run) -> object:
    """All that a check says, but for the numbers of events: what is left out takes none."""
    outcome = check_run(golden, run, same_spec=True)
    plain = to_plain(CheckResult("real", verdicts=outcome.verdicts, incidents=outcome.incidents))

    def without_numbers(value: object) -> object:
        if isinstance(value, dict):
            return {name: without_numbers(item) for name, item in value.items() if name != "seq"}
        return [without_numbers(item) for item in value] if isinstance(value, (list, tuple)) else value

    return without_numbers(plain)


@pytest.mark.parametrize("name", BREAKS)
def test_a_relation_says_the_same_where_only_what_it_names_was_observed(
    golden: Callable[[Break], Golden], tmp_path: Path, name: str
) -> None:
    wrong, relation = BREAKS[name], relations()[name]
    known = golden(wrong)
    alone = replace(known, invariants=tuple(rule for rule in known.invariants if rule.relation == name))
    if not is_replayed(relation):
        # What is compared with golden's numbers excuses rules, whatever their relation: that is not its own.
        alone = replace(alone, recording=None)
    training = Real(**{**wrong.golden, **wrong.change})
    assert says_what_it_reads(relation)
    full = said(alone, recorded(training, tmp_path / "full"))
    observed = recorded(training, tmp_path / "selective", EVERYTHING - relation.looks)
    assert said(alone, observed) == full
    # What modes are only explains what others say, so that alone such a rule holds, with the reason.
    verdicts = check_run(alone, observed, same_spec=True).verdicts
    assert any(item.verdict is Verdict.VIOLATED or item.reason for item in verdicts)


def test_every_relation_of_ours_names_what_it_reads() -> None:
    for relation in relations().values():
        assert says_what_it_reads(relation)
        assert relation.looks <= EVERYTHING


def test_a_rule_of_which_nothing_is_known_may_read_everything(golden: Callable[[Break], Golden]) -> None:
    rule = golden(BREAKS["Count"]).invariants[0]
    assert looks_of(replace(rule, relation="OfAPlugIn")) == EVERYTHING
    assert looks_of(replace(rule, claim=Foreign({}))) == EVERYTHING
