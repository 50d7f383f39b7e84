"""Check mode: a run that is observed for the rules of one golden says what a full observation says, and nothing to the
rules of another one that it was not observed for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from judgements import describe  # noqa: E402
from real_training import Real, golden_of, recorded  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.check.needs import not_needed  # noqa: E402
from pytest_traincheck.check.result import Verdict  # noqa: E402
from pytest_traincheck.golden import store  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402
from pytest_traincheck.looks import ATTRIBUTES, EVERYTHING, NOTHING, SKETCHES  # noqa: E402
from pytest_traincheck.relations import looks_of  # noqa: E402
from pytest_traincheck.rules.model import Scope  # noqa: E402
from pytest_traincheck.trace import Run, TraceError  # noqa: E402
from pytest_traincheck.workflow.check_mode import left_out  # noqa: E402

CANDIDATES: Mapping[str, Mapping[str, Any]] = {
    "nothing changed": {},
    "another seed": {"seed": 5},
    "no zero_grad": {"zero_grad": False},
    "no clipping": {"clip": "never"},
    "evaluation in train mode": {"evaluates_in": "train mode"},
    "one batch only": {"same_batch": True},
    "another activation": {"net": {"act": torch.relu}},
    "a scaled loss": {"scale": 0.5},
}


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return golden_of(Real(), tmp_path_factory.mktemp("golden"), seeds=(0, 1, 2))


def of_general_rules(golden: Golden) -> Golden:
    """A golden that knows no numbers, and no rules about this program alone."""
    rules = tuple(rule for rule in golden.invariants if rule.scope is Scope.TRANSFERABLE)
    return replace(golden, invariants=rules, numbers={}, recording=None, platform="")


def verdicts(outcome: CheckOutcome) -> list[tuple[str, Verdict, str]]:
    return [(item.invariant.id, item.verdict, item.reason) for item in outcome.verdicts]


@pytest.mark.parametrize("same_spec", [True, False], ids=["the same command", "another command"])
@pytest.mark.parametrize("name", CANDIDATES)
def test_a_run_in_check_mode_gets_the_verdicts_and_incidents_of_a_full_one(
    golden: Golden, tmp_path: Path, name: str, same_spec: bool
) -> None:
    known = golden if same_spec else replace(golden, numbers={}, recording=None, platform="")
    looks = not_needed(known, same_spec=same_spec, numbers=same_spec)
    training = Real(**CANDIDATES[name])
    full, mode = recorded(training, tmp_path / "full"), recorded(training, tmp_path / "mode", looks)
    assert mode.not_needed == looks
    told, expected = (check_run(known, run, same_spec=same_spec) for run in (mode, full))
    assert verdicts(told) == verdicts(expected)
    assert describe(told.incidents) == describe(expected.incidents)
    assert [item.cause.source for item in told.incidents] == [item.cause.source for item in expected.incidents]
    assert (told.coverage, told.renamed, told.warnings) == (expected.coverage, expected.renamed, expected.warnings)


def test_what_no_rule_of_the_golden_reads_is_not_observed(golden: Golden, tmp_path: Path) -> None:
    looks = not_needed(of_general_rules(golden), same_spec=True, numbers=False)
    assert {SKETCHES, ATTRIBUTES} <= looks
    (process,) = recorded(Real(), tmp_path, looks).processes
    assert not (process.raw.path / "sketches.bin").exists() or not (process.raw.path / "sketches.bin").stat().st_size
    assert len(process.raw.symbols["attribute"]) == 1
    assert not {str(item.get("name")) for item in process.raw.symbols["measure"]} & {"activation.rms", "loss.terms"}


def test_a_run_that_was_observed_for_another_golden_says_nothing_to_rules_that_need_more(
    golden: Golden, tmp_path: Path
) -> None:
    looks = not_needed(of_general_rules(golden), same_spec=True, numbers=False)
    training = Real(same_batch=True, scale=0.5, net={"act": torch.relu})
    full = check_run(golden, recorded(training, tmp_path / "full"), same_spec=True)
    other = check_run(golden, recorded(training, tmp_path / "other", looks), same_spec=True)
    blind = [item for item in other.verdicts if looks_of(item.invariant) & looks]
    assert any(item.verdict is Verdict.VIOLATED for item in full.verdicts if looks_of(item.invariant) & looks)
    assert blind
    assert {item.verdict for item in blind} == {Verdict.NOT_OBSERVABLE}
    assert all(item.reason.startswith("not observed in check mode: ") for item in blind)
    # Whatever else is said is what a full observation says.
    whole = {item.invariant.id: item.verdict for item in full.verdicts}
    seen = [item for item in other.verdicts if item.verdict is not Verdict.NOT_OBSERVABLE]
    assert seen
    assert all(item.verdict is whole[item.invariant.id] for item in seen)


def test_nothing_is_learned_from_a_run_in_check_mode(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="recorded in check mode"):
        learn([recorded(Real(), tmp_path, frozenset({ATTRIBUTES}))], pipeline="real")


def test_a_run_whose_trace_is_kept_is_observed_in_full(golden: Golden) -> None:
    general = of_general_rules(golden)
    assert left_out(general, None, same_spec=True, kept=True) == NOTHING
    assert left_out(general, None, same_spec=True, kept=False) == not_needed(general, same_spec=True, numbers=False)


def test_numbers_beside_a_stored_golden_are_compared_with_sketches(golden: Golden, tmp_path: Path) -> None:
    path = tmp_path / "real.jsonl"
    store.write(path, golden)
    stored = replace(of_general_rules(golden), platform="")
    assert SKETCHES not in left_out(stored, path, same_spec=True, kept=False)
    (numbers,) = tmp_path.glob("*.npz")
    numbers.unlink()
    assert SKETCHES in left_out(stored, path, same_spec=True, kept=False)


def test_a_golden_with_a_rule_of_a_plug_in_that_says_nothing_needs_everything(golden: Golden) -> None:
    rule = replace(golden.invariants[0], relation="OfAPlugIn", scope=Scope.TRANSFERABLE)
    known = replace(of_general_rules(golden), invariants=(rule,))
    assert not_needed(known, same_spec=False, numbers=False) == NOTHING


def test_a_look_that_this_version_does_not_know_makes_no_rule_hold(golden: Golden, tmp_path: Path) -> None:
    run = recorded(Real(), tmp_path)
    (process,) = run.processes
    meta = {**process.raw.meta, "not_needed": ["what a later version leaves out"]}
    newer = Run(run.path, (replace(process, raw=replace(process.raw, meta=meta)),))
    told = check_run(of_general_rules(golden), newer, same_spec=True)
    assert {item.verdict for item in told.verdicts} == {Verdict.NOT_OBSERVABLE}
    assert EVERYTHING.isdisjoint(newer.not_needed)
